# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import errno
import pathlib
from collections.abc import Callable

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.captures import of_ethtool as capture
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import BARE, Nic, NicMachine
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick, values
from hypothesis import given
from hypothesis import strategies as st
from mlnode.drivers.ethtool import files
from mlnode.drivers.ethtool.device import GROUPS
from mlnode.drivers.ethtool.ioctls import Kernel
from mlnode.host.host import Host
from mlnode.model.errors import HostError, MissingError
from mlnode.model.setting import Value

ETH0 = "/ethtool/eth0"


# -- reading -------------------------------------------------------------------------------


@cases.table
def test_a_setting_reads_as_a_file_of_the_kernel(machine: NicMachine, path: str, text: str) -> None:
    assert machine.value(f"{ETH0}/{path}") == Value(text=text)
    assert machine.read_bytes(f"{ETH0}/{path}") == f"{text}\n".encode()
    assert machine.exists(f"{ETH0}/{path}")


@cases.table
def test_what_is_not_there_says_what(machine: NicMachine, path: str, words: str) -> None:
    assert machine.value(f"{ETH0}/{path}") == Value(absent=words)
    assert not machine.exists(f"{ETH0}/{path}")


@cases.table
def test_a_driver_without_a_group_says_so(tmp_path: pathlib.Path, group: str, words: str) -> None:
    machine = NicMachine.with_nics(str(tmp_path / "node"), eth0=Nic(driver="veth", **BARE))
    assert machine.value(f"{ETH0}/{group}/rx") == Value(absent=f"the driver veth has no {words}")
    assert not machine.exists(f"{ETH0}/{group}")
    assert machine.names(f"{ETH0}/{group}") == []
    assert machine.names(ETH0) == ["driver", "feature", "link"]


def test_a_driver_that_does_not_even_tell_its_name(machine: NicMachine, nic: Nic) -> None:
    nic.driver, nic.ring = None, None
    assert machine.value(f"{ETH0}/ring/rx").absent == "the driver has no rings"
    assert machine.value(f"{ETH0}/driver/driver").absent == "the driver has no information about itself"


@cases.table
def test_no_call_is_made_for_what_is_no_interface(machine: NicMachine, nic: Nic, name: str) -> None:
    machine.put("/sys/class/net/bonding_masters", "bond0\n")
    path = f"/ethtool/{name}/ring/rx"
    assert machine.value(path).absent
    assert not machine.exists(path)
    assert not machine.exists(f"/ethtool/{name}")
    assert machine.names(f"/ethtool/{name}") == []
    assert machine.blocked(path) == ""
    with pytest.raises(MissingError):
        machine.write_kernel(path, "1")
    assert nic.calls == []


def test_names_of_15_bytes_and_of_other_alphabets_are_names(tmp_path: pathlib.Path) -> None:
    names = {"a" * 15: Nic(), "café-x@0.1": Nic()}
    machine = NicMachine.with_nics(str(tmp_path / "node"), **names)
    for name in names:
        assert machine.value(f"/ethtool/{name}/ring/rx").text == "1024"


def test_folders(machine: NicMachine) -> None:
    machine.put("/sys/class/net/bonding_masters", "bond0\n")
    assert machine.names("/ethtool") == ["eth0", "lo"]
    assert machine.names(ETH0) == sorted(name for name in GROUPS if "/" not in name)
    assert machine.names(f"{ETH0}/ring") == ["max", "rx", "tx"]
    assert machine.names(f"{ETH0}/ring/max") == ["rx", "tx"]
    assert machine.names(f"{ETH0}/ring/rx") == []
    assert machine.names(f"{ETH0}/nonsense") == []
    assert {"fixed", "requested", "rx-gro"} < set(machine.names(f"{ETH0}/feature"))
    for path in ("/ethtool", ETH0, f"{ETH0}/ring", f"{ETH0}/feature/fixed"):
        assert machine.exists(path)


def test_patterns(machine: NicMachine) -> None:
    assert machine.matching("/ethtool/eth*/ring/?x") == [f"{ETH0}/ring/rx", f"{ETH0}/ring/tx"]


@pytest.mark.parametrize("path", ["/ethtool", ETH0, f"{ETH0}/ring", f"{ETH0}/ring/max"])
def test_a_folder_is_no_file(machine: NicMachine, path: str) -> None:
    assert "EISDIR" in str(machine.value(path).unreadable)
    with pytest.raises(HostError, match="EISDIR"):
        machine.write_kernel(path, "1")
    assert machine.blocked(path) == ""


@pytest.mark.parametrize("path", ["/ethtools/eth0", "/etc/ethtool/eth0", "/ethtool.json"])
def test_other_paths_are_files(machine: NicMachine, path: str) -> None:
    machine.put(path, "a file\n")
    assert machine.value(path).text == "a file"


# -- what goes wrong while reading ---------------------------------------------------------

ERRNOS = sorted(set(errno.errorcode) - {errno.EOPNOTSUPP})


@pytest.mark.parametrize("number", ERRNOS)
def test_any_other_errno_is_unreadable_and_never_absent(machine: NicMachine, nic: Nic, number: int) -> None:
    nic.fails[0x10] = number
    value = machine.value(f"{ETH0}/ring/rx")
    assert value.absent is None
    assert str(value.unreadable).startswith(f"cannot read {ETH0}/ring/rx: ")
    with pytest.raises(HostError):
        machine.exists(f"{ETH0}/ring/rx")
    with pytest.raises(HostError):
        machine.names(f"{ETH0}/ring")
    assert "ring" in machine.names(ETH0)


def test_a_nic_that_was_detached_is_not_gone(machine: NicMachine, nic: Nic) -> None:
    nic.fails[0x10] = errno.ENODEV
    assert "asleep, being reset" in str(machine.value(f"{ETH0}/ring/rx").unreadable)


def test_an_error_has_its_errno_and_a_lying_driver_is_told(machine: NicMachine, nic: Nic) -> None:
    nic.fails[0x10] = errno.EPERM
    with pytest.raises(HostError) as caught:
        machine.read(f"{ETH0}/ring/rx")
    assert caught.value.errno == errno.EPERM
    nic.answers[0x3C] = b"\0" * 8
    assert machine.value(f"{ETH0}/channels/combined").unreadable == (
        f"cannot read {ETH0}/channels/combined: the driver's answer has 8 bytes where 36 belong"
    )


# -- writing -------------------------------------------------------------------------------


@cases.table
def test_a_setting_is_written_as_a_file_of_the_kernel(
    machine: NicMachine, path: str, value: str, shown: str
) -> None:
    assert machine.blocked(f"{ETH0}/{path}") == ""
    machine.write_kernel(f"{ETH0}/{path}", value)
    assert machine.value(f"{ETH0}/{path}").text == shown


@cases.table
def test_what_cannot_be_written(machine: NicMachine, nic: Nic, path: str, value: str, words: str) -> None:
    before = capture(machine.nic("eth0"))
    with pytest.raises(HostError) as caught:
        machine.write_kernel(f"{ETH0}/{path}", value)
    assert str(caught.value).startswith(f"cannot write {value!r} to {ETH0}/{path}: ")
    assert words in str(caught.value)
    assert not caught.value.absent
    assert capture(machine.nic("eth0")) == before


@pytest.mark.parametrize("number", [*ERRNOS, errno.EOPNOTSUPP])
def test_no_errno_of_a_write_means_that_the_nic_is_gone(machine: NicMachine, nic: Nic, number: int) -> None:
    nic.fails[0x11] = number
    with pytest.raises(HostError) as caught:
        machine.write_kernel(f"{ETH0}/ring/rx", "2048")
    assert not caught.value.absent
    assert (
        number == errno.ENODEV or errno.errorcode[number] in str(caught.value) or number == errno.EOPNOTSUPP
    )


@pytest.mark.parametrize("path", [f"{ETH0}/ring/rx", "/ethtool/eth9/ring/rx"])
def test_a_nic_or_setting_that_is_gone_is_absent_to_a_write(machine: NicMachine, nic: Nic, path: str) -> None:
    nic.ring = None
    with pytest.raises(MissingError) as caught:
        machine.write_kernel(path, "1")
    assert caught.value.absent


def test_a_write_that_is_ignored_or_cut_shows_in_a_read(machine: NicMachine, nic: Nic) -> None:
    nic.ignores = {"tx-tcp-segmentation"}
    nic.most = {"ring/rx": 4096}
    machine.write_kernel(f"{ETH0}/feature/tx-tcp-segmentation", "off")
    machine.write_kernel(f"{ETH0}/ring/rx", "8192")
    assert machine.value(f"{ETH0}/feature/tx-tcp-segmentation").text == "on"
    assert machine.value(f"{ETH0}/feature/requested/tx-tcp-segmentation").text == "off"
    assert machine.value(f"{ETH0}/ring/rx").text == "4096"


# -- what cannot be set --------------------------------------------------------------------


@cases.table
def test_why_a_setting_cannot_be_set(machine: NicMachine, path: str, words: str) -> None:
    assert machine.blocked(f"{ETH0}/{path}") == words


class Real(NicMachine):
    """The node as a running machine."""

    @property
    def live(self) -> bool:
        return True

    def real(self, path: str, follow: bool = True) -> str:
        return self.root + path


@cases.table
def test_a_root_without_cap_net_admin_sets_no_nic(
    tmp_path: pathlib.Path, nic: Nic, held: str, superuser: bool, blocked: bool
) -> None:
    machine = Real.with_nics(str(tmp_path / "node"), eth0=nic)
    machine.put("/proc/self/status", f"Name:\tpython3\nCapPrm:\t0\nCapEff:\t{held}\nCapBnd:\t0\n")
    machine.superuser = superuser
    assert ("CAP_NET_ADMIN" in machine.blocked(f"{ETH0}/ring/rx")) == blocked


def test_a_node_without_proc_is_not_taken_for_a_container(tmp_path: pathlib.Path, nic: Nic) -> None:
    assert Real.with_nics(str(tmp_path / "node"), eth0=nic).blocked(f"{ETH0}/ring/rx") == ""


def test_the_capability_is_that_of_this_machine_only(machine: NicMachine) -> None:
    machine.put("/proc/self/status", "CapEff:\t0000000000000000\n")
    assert machine.blocked(f"{ETH0}/ring/rx") == ""


def test_a_live_machine_has_the_kernels_nics() -> None:
    nic = files.device(Host("/"), "eth0")
    assert isinstance(nic, Kernel)
    assert nic.name == "eth0"


# -- anything ------------------------------------------------------------------------------

known = (
    "eth0 lo eth0:1 .. . , ring max rx tx rx,tx feature fixed rx-gro fec encoding driver coalesce "
    "adaptive-rx private-flag link channels combined"
)
parts = st.sampled_from(known.split())
paths = st.lists(st.one_of(parts, st.text(max_size=6)), max_size=5).map(
    lambda found: "/".join(["/ethtool", *found])
)


@quick
@given(path=paths, value=values)
def test_no_path_and_no_value_is_a_bug(path: str, value: str) -> None:
    nic = Nic()
    driver = files.Files(lambda _host, name: Kernel(name, nic.call))
    machine = Listed()
    calls: list[Callable[[], object]] = [
        lambda: driver.read(machine, path),
        lambda: driver.write(machine, path, value),
        lambda: driver.names(machine, path),
        lambda: driver.exists(machine, path),
        lambda: driver.blocked(machine, path),
    ]
    for call in calls:
        with contextlib.suppress(HostError):
            call()


class Listed(Host):
    """A machine without files."""

    def __init__(self) -> None:
        super().__init__("/nowhere")

    def names(self, path: str) -> list[str]:
        return ["eth0"]
