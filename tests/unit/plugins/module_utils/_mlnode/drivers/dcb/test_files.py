# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.captures import of_dcb as capture
from ansible_collections.mlnode.tuning.tests.unit.dcb_machine import Bridge, DcbMachine
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick, values
from hypothesis import given
from hypothesis import strategies as st
from mlnode.agent.mounts import ALL
from mlnode.drivers.dcb import files
from mlnode.host.host import Host
from mlnode.model.errors import HostError
from mlnode.model.setting import Value

ETH0 = "/dcb/eth0"
ZEROS = "/".join(["0"] * 8)
ORDERED = "0/1/2/3/4/5/6/7"


# -- reading -------------------------------------------------------------------------------


@cases.table
def test_a_setting_reads_as_a_file_of_the_kernel(machine: DcbMachine, path: str, text: str) -> None:
    assert machine.value(f"{ETH0}/{path}") == Value(text=text)
    assert machine.exists(f"{ETH0}/{path}")


@cases.table
def test_what_can_be_no_file_is_absent(machine: DcbMachine, path: str) -> None:
    assert machine.value(f"{ETH0}/{path}").absent == f"{ETH0}/{path} does not exist"
    assert not machine.exists(f"{ETH0}/{path}")


@cases.table
def test_no_tool_is_asked_about_what_is_no_interface(
    machine: DcbMachine, bridge: Bridge, nic: str, words: str
) -> None:
    assert machine.value(f"/dcb/{nic}/pfc/prio-pfc").absent == words
    with pytest.raises(HostError, match="cannot write"):
        machine.write_kernel(f"/dcb/{nic}/pfc/prio-pfc", "3")
    assert bridge.calls == []


def test_what_a_driver_does_not_have_is_absent(machine: DcbMachine) -> None:
    assert (
        machine.value("/dcb/eth1/pfc/prio-pfc").absent
        == "the driver e1000e has no priority flow control (PFC)"
    )
    assert machine.value("/dcb/eth1/trust/state").absent == "the driver e1000e has no priorities of DSCPs"
    assert machine.names("/dcb/eth1") == []


def test_what_a_driver_does_not_offer_beside_others_is_absent(machine: DcbMachine, bridge: Bridge) -> None:
    bridge.buffer = None
    words = "the driver mlx5_core has no receive buffers that can be set"
    assert machine.value(f"{ETH0}/buffer/buffer-size").absent == words
    assert machine.names(ETH0) == ["dcbx", "dscp-prio", "ets", "pfc", "trust"]


def test_folders_are_listed(machine: DcbMachine) -> None:
    machine.put("/sys/class/net/bonding_masters", "\n")
    assert machine.names("/dcb") == ["eth0", "eth1", "lo"]
    assert machine.names(ETH0) == ["buffer", "dcbx", "dscp-prio", "ets", "pfc", "trust"]
    assert machine.names(f"{ETH0}/pfc") == ["pfc-cap", "prio-pfc"]
    assert len(machine.names(f"{ETH0}/dscp-prio")) == 64
    assert machine.names(f"{ETH0}/pfc/prio-pfc") == []
    assert machine.exists("/dcb")
    assert machine.exists(ETH0)
    assert not machine.exists("/dcb/eth7")


def test_a_folder_is_no_file(machine: DcbMachine) -> None:
    with pytest.raises(HostError, match="EISDIR"):
        machine.read(f"{ETH0}/pfc")


def test_nothing_is_known_without_a_tool(machine: DcbMachine) -> None:
    machine.install()
    value = machine.value(f"{ETH0}/pfc/prio-pfc")
    assert value.absent is None
    assert "dcb is not installed: install iproute2" in (value.unreadable or "")
    assert machine.names(ETH0) == ["buffer", "dcbx", "dscp-prio", "ets", "pfc", "trust"]


@pytest.mark.parametrize("text", ["nonsense\n", "[]\n", '{"prio_pfc":[1]}\n', "{" * 5000])
def test_an_output_that_makes_no_sense_is_unreadable(machine: DcbMachine, bridge: Bridge, text: str) -> None:
    bridge.prints["pfc"] = text
    value = machine.value(f"{ETH0}/pfc/prio-pfc")
    assert value.absent is None
    assert "dcb -j -N pfc show dev eth0: it printed nonsense" in (value.unreadable or "")


# -- writing -------------------------------------------------------------------------------


def test_a_write_is_one_command(machine: DcbMachine, bridge: Bridge) -> None:
    machine.write_kernel(f"{ETH0}/pfc/prio-pfc", "3,4")
    assert bridge.calls == [["dcb", "pfc", "set", "dev", "eth0", "prio-pfc", "all:off", "3:on", "4:on"]]
    assert machine.now(f"{ETH0}/pfc/prio-pfc") == "3,4"
    machine.write_kernel(f"{ETH0}/pfc/prio-pfc", "none")
    assert bridge.pfc == set()


def test_fields_are_written_together(machine: DcbMachine, bridge: Bridge) -> None:
    """Each by itself would be refused: the shares of no class would be 50 %."""
    tsa = "/".join(["ets", "ets", *["strict"] * 6])
    machine.write_kernel(f"{ETH0}/ets/prio-tc,tc-tsa,tc-bw", f"{ORDERED} {tsa} 50/50/0/0/0/0/0/0")
    assert len(bridge.calls) == 1
    assert machine.now(f"{ETH0}/ets/tc-tsa,prio-tc") == f"{tsa} {ORDERED}"
    machine.write_kernel(f"{ETH0}/buffer/buffer-size", "1024/0/0/0/0/0/0/0")
    assert machine.now(f"{ETH0}/buffer/prio-buffer,buffer-size") == f"{ZEROS} 1024/0/0/0/0/0/0/0"


@cases.table
def test_what_can_be_no_value_reaches_no_tool(
    machine: DcbMachine, bridge: Bridge, path: str, value: str
) -> None:
    with pytest.raises(HostError, match="cannot write"):
        machine.write_kernel(f"{ETH0}/{path}", value)
    assert bridge.calls == []


def test_a_refusal_is_told_in_the_words_of_the_tool(machine: DcbMachine, bridge: Bridge) -> None:
    bridge.refuses["pfc"] = "Attribute write: Invalid argument"
    with pytest.raises(
        HostError, match=r"dcb pfc set dev eth0 .*: Attribute write: Invalid argument$"
    ) as told:
        machine.write_kernel(f"{ETH0}/pfc/prio-pfc", "3")
    assert not told.value.absent


def test_a_refusal_may_be_the_firmwares(machine: DcbMachine, bridge: Bridge) -> None:
    bridge.refuses["pfc"] = "Attribute write: Invalid argument"
    bridge.dcbx = ("lld_managed", "ieee")
    with pytest.raises(HostError, match="Invalid argument; its firmware keeps DCBX for itself"):
        machine.write_kernel(f"{ETH0}/pfc/prio-pfc", "3")


def test_a_write_to_a_driver_without_any_of_it_is_no_absence(machine: DcbMachine) -> None:
    with pytest.raises(HostError) as told:
        machine.write_kernel("/dcb/eth1/dscp-prio/26", "3")
    assert not told.value.absent


def test_what_is_told_only_is_blocked(machine: DcbMachine) -> None:
    assert "is read-only" in machine.blocked(f"{ETH0}/pfc/pfc-cap")
    assert machine.blocked(f"{ETH0}/pfc/prio-pfc") == ""
    assert machine.blocked(f"{ETH0}/nonsense/x") == ""


class _Live(DcbMachine):
    """A machine that takes itself for the real one, and shows these capabilities."""

    capabilities = "CapEff:\t0000000000000000"

    @property
    def live(self) -> bool:
        return True

    def value(self, path: str) -> Value:
        return (
            Value(text=f"Name:\tx\n{self.capabilities}")
            if path == "/proc/self/status"
            else super().value(path)
        )


@cases.table
def test_a_root_without_the_capability_is_blocked(
    tmp_path: pathlib.Path, capabilities: str, superuser: bool, words: str
) -> None:
    machine = _Live(str(tmp_path))
    machine.capabilities, machine.superuser = capabilities, superuser
    found = files.Files().blocked(machine, f"{ETH0}/pfc/prio-pfc")
    assert (words in found) if words else found == ""


# -- captured trees ------------------------------------------------------------------------


def test_a_captured_nic_answers_as_the_real_one_did(
    machine: DcbMachine, bridge: Bridge, tmp_path: pathlib.Path
) -> None:
    bridge.pfc, bridge.apps, bridge.buffer = {3}, {(26, 3)}, None
    bridge.prints["ets"] = "nonsense"
    document = capture(machine.bridging("eth0"))
    tree = tmp_path / "tree"
    (tree / "sys/class/net/eth0").mkdir(parents=True)
    (tree / "dcb").mkdir()
    (tree / "dcb/eth0.json").write_text(json.dumps(document))
    host = Host(str(tree), ALL)
    assert host.value(f"{ETH0}/pfc/prio-pfc") == Value(text="3")
    assert host.value(f"{ETH0}/dscp-prio/26,48") == Value(text="3 none")
    assert host.value(f"{ETH0}/trust/state") == Value(text="dscp")
    assert host.value(f"{ETH0}/buffer/buffer-size") == machine.value(f"{ETH0}/buffer/buffer-size")
    assert "ets was not captured" in (host.value(f"{ETH0}/ets/prio-tc").unreadable or "")
    with pytest.raises(HostError, match="EROFS"):
        host.write_kernel(f"{ETH0}/pfc/prio-pfc", "4")


def test_a_nic_that_was_not_captured_is_unreadable(tmp_path: pathlib.Path) -> None:
    (tmp_path / "sys/class/net/eth0").mkdir(parents=True)
    value = Host(str(tmp_path), ALL).value(f"{ETH0}/pfc/prio-pfc")
    assert value.absent is None
    assert "was not captured" in (value.unreadable or "")


def test_a_captured_file_that_is_a_folder_is_unreadable(tmp_path: pathlib.Path) -> None:
    (tmp_path / "sys/class/net/eth0").mkdir(parents=True)
    (tmp_path / "dcb/eth0.json").mkdir(parents=True)
    assert "EISDIR" in (Host(str(tmp_path), ALL).value(f"{ETH0}/pfc/prio-pfc").unreadable or "")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff",
        b"{}",
        b'{"format": 2, "answers": {}}',
        b'{"format": 1, "answers": []}',
        b'{"format": 1, "answers": {"pfc": 3}}',
        b'{"format": 1, "answers": {"pfc": {"prio-pfc": 3}}}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_capture_is_unreadable(tmp_path: pathlib.Path, content: bytes) -> None:
    (tmp_path / "sys/class/net/eth0").mkdir(parents=True)
    (tmp_path / "dcb").mkdir()
    (tmp_path / "dcb/eth0.json").write_bytes(content)
    assert "damaged" in (Host(str(tmp_path), ALL).value(f"{ETH0}/pfc/prio-pfc").unreadable or "")


def test_a_captured_group_may_be_short(tmp_path: pathlib.Path) -> None:
    (tmp_path / "sys/class/net/eth0").mkdir(parents=True)
    (tmp_path / "dcb").mkdir()
    (tmp_path / "dcb/eth0.json").write_text('{"format": 1, "answers": {"pfc": {}}}')
    value = Host(str(tmp_path), ALL).value(f"{ETH0}/pfc/prio-pfc")
    assert "prio-pfc was not captured" in (value.unreadable or "")


# -- properties ----------------------------------------------------------------------------

_NAMES = "dcb eth0 eth1 lo .. pfc prio-pfc pfc-cap dscp-prio 26 26,48 trust state x"
_PARTS = st.sampled_from(_NAMES.split())


@quick
@given(parts=st.lists(_PARTS | st.text(max_size=6), max_size=5), value=values)
def test_any_path_and_value_raise_nothing_but_host_errors(
    kept: DcbMachine, parts: list[str], value: str
) -> None:
    machine = kept
    machine.bridges = {"eth0": Bridge()}
    path = "/".join(["/dcb", *parts])
    machine.value(path)
    machine.names(path)
    machine.exists(path)
    machine.blocked(path)
    try:
        machine.write_kernel(path, value)
    except HostError:
        return
    if path.startswith("/dcb/"):
        assert machine.now(path).split() == value.split() or not os.fspath(path).startswith(f"{ETH0}/")
