# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows are those of Linux 6.12 after the mounts that are named beside them."""

from __future__ import annotations

import errno
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory, no_disk
from ansible_collections.mlnode.tuning.tests.unit.machine import THP, Machine
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st
from mlnode.agent import node
from mlnode.engine import engine
from mlnode.engine.engine import Request
from mlnode.host import mountinfo
from mlnode.host.host import Host
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.knobs.thp.kind import kind as thp
from mlnode.model.errors import HostError, MlnodeError
from mlnode.model.setting import Status

SWAPPINESS = "/proc/sys/vm/swappiness"
DROP_IN = "/etc/sysctl.d/zz-mlnode-default.conf"

USUAL = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
23 27 0:22 / /sys rw,relatime shared:7 - sysfs sysfs rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw
32 23 0:7 / /sys/kernel/debug rw,relatime - debugfs debugfs rw
33 22 0:33 / /proc/sys/fs/binfmt_misc rw,relatime - autofs systemd-1 rw
"""
#: mount --bind /tmp/fake\\ one /proc/sys/vm/swappiness
FAKE = r"40 22 254:0 /tmp/fake\040one /proc/sys/vm/swappiness rw,relatime - ext4 /dev/vda rw,discard"
#: mount --bind /proc/sys/vm/dirty_ratio /proc/sys/vm/swappiness
OTHER = "40 22 0:21 /sys/vm/dirty_ratio /proc/sys/vm/swappiness rw,relatime - proc proc rw"
#: mount -t tmpfs tmpfs /proc/sys/vm
HIDDEN = "40 22 0:40 / /proc/sys/vm rw,relatime - tmpfs tmpfs rw"
#: mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys
READ_ONLY = "40 22 0:21 /sys /proc/sys ro,relatime - proc proc rw"
#: the same for the one file
ONE_READ_ONLY = "40 22 0:21 /sys/vm/swappiness /proc/sys/vm/swappiness ro,relatime - proc proc rw"


@pytest.fixture(autouse=True)
def no_waiting() -> Iterator[None]:
    yield from no_disk()


@pytest.fixture
def tmp_path() -> Iterator[pathlib.Path]:
    yield from in_memory()


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    found = Machine.debian(str(tmp_path / "node"))
    found.put(mountinfo.TABLE, USUAL)
    return found


def mounted(machine: Machine, *rows: str) -> None:
    machine.put(mountinfo.TABLE, USUAL + "".join(f"{row}\n" for row in rows))
    machine.forget()


def request(value: object = 10, key: str = "vm.swappiness") -> Request:
    return Request("default", sysctl, {"settings": {key: value}})


# -- what is mounted over a file -----------------------------------------------------------


@cases.table
def test_another_file_in_the_place_of_the_kernels_is_unknown(machine: Machine, row: str, what: str) -> None:
    """Whatever it says, and also where it hides that there is such a file."""
    machine.put(SWAPPINESS, "10\n")
    machine.put(DROP_IN, "vm.swappiness = 10\n")
    mounted(machine, row)
    (found,) = engine.evaluate(machine, request()).rows
    assert found.status is Status.UNKNOWN
    point = row.split(" ")[4]
    assert f"{what}" in found.reason
    assert f"is mounted over {point} ({mountinfo.TABLE}:7): umount {point}" in found.reason
    if row == HIDDEN:
        machine.remove(SWAPPINESS)
        assert engine.evaluate(machine, request()).rows[0].status is Status.UNKNOWN


def test_a_fake_is_never_written_and_the_line_for_the_next_boot_stays(machine: Machine) -> None:
    for key, value in (("vm.swappiness", 10), ("vm.max_map_count", {"at_least": 1048576})):
        mounted(machine)
        door.apply(machine, request(value, key))
        before = machine.read(DROP_IN)
        path = f"/proc/sys/{key.replace('.', '/')}"
        machine.writes.clear()
        machine.put(path, "3\n")
        mounted(machine, f"40 22 254:0 /x {path} rw - ext4 /dev/vda rw")
        (found,) = node.apply_all(machine).rows
        assert found.row.status is Status.UNKNOWN
        assert (machine.writes, machine.read(DROP_IN)) == ([], before)
        with pytest.raises(HostError, match="is mounted over"):
            Host.write_kernel(machine, path, "1")
        machine.put(path, "70000\n")


def test_a_file_of_sysfs_is_found_behind_its_links(machine: Machine) -> None:
    real = "/sys/devices/pci0000:00/0000:00:01.0/net/eth9/queues/rx-0/rps_cpus"
    machine.put(real, "0\n")
    machine.link("/sys/class/net/eth9", "../../devices/pci0000:00/0000:00:01.0/net/eth9")
    path = "/sys/class/net/eth9/queues/rx-0/rps_cpus"
    mounted(machine)
    assert machine.value(path).text == "0"
    mounted(machine, f"41 23 0:40 /x {real} rw - tmpfs tmpfs rw")
    assert f"tmpfs (tmpfs, /x) is mounted over {real}" in (machine.value(path).unreadable or "")
    assert machine.value(f"{THP}/enabled").text is not None


@cases.table
def test_what_still_shows_the_kernels_own_file(machine: Machine, row: str) -> None:
    mounted(machine, row)
    assert machine.value(SWAPPINESS).text == "60"


def test_a_file_system_that_is_not_mounted_leaves_its_folder_empty(machine: Machine) -> None:
    """As on a machine without EFI, in a sandbox that hides some other file."""
    mounted(machine, FAKE)
    variable = machine.value("/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f")
    assert variable.absent
    assert variable.unreadable is None
    mounted(machine, FAKE, "41 23 0:40 / /sys/firmware/efi/efivars rw - tmpfs tmpfs rw")
    fake = machine.value("/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f")
    assert "is mounted over /sys/firmware/efi/efivars" in (fake.unreadable or "")


def test_of_two_mounts_the_one_that_the_kernel_comes_to_counts(machine: Machine) -> None:
    # A fake below, and then the kernel's own folder over it
    mounted(machine, FAKE, "41 22 0:21 /sys/vm /proc/sys/vm rw - proc proc rw")
    assert machine.value(SWAPPINESS).text == "60"
    # A fake on the fake is not the end either: two mounts on one place
    mounted(machine, ONE_READ_ONLY, FAKE.replace("40 22", "41 40"))
    assert machine.value(SWAPPINESS).unreadable is not None


def test_a_container_shows_what_its_runtime_wants(machine: Machine) -> None:
    """lxcfs in the place of /proc/meminfo, and masked files"""
    machine.put("/run/systemd/container", "lxc\n")
    mounted(machine, "40 22 0:40 /proc/meminfo /proc/meminfo rw - fuse.lxcfs lxcfs rw", FAKE)
    assert machine.value("/proc/meminfo").text is not None
    assert machine.value(SWAPPINESS).text == "60"


def test_a_table_that_cannot_be_read_is_no_sign_that_all_is_well(machine: Machine) -> None:
    machine.unreadable[mountinfo.TABLE] = errno.EACCES
    machine.forget()
    assert mountinfo.TABLE in (machine.value(SWAPPINESS).unreadable or "")


@quick
@given(st.lists(st.sampled_from([*USUAL.splitlines(), FAKE, OTHER, "-", "", "1 1 1 / / - - x", "\\", " "])))
def test_no_table_breaks_it(rows: list[str]) -> None:
    known = list(mountinfo.parse("\n".join(rows)))
    for path in (SWAPPINESS, "/", "/sys/kernel/debug/x"):
        mountinfo.carrying(known, path)


# -- what cannot be written ----------------------------------------------------------------


@pytest.mark.parametrize("row", [READ_ONLY, ONE_READ_ONLY])
def test_a_read_only_mount_of_a_machine_is_drift_and_hides_nothing(machine: Machine, row: str) -> None:
    door.apply(machine, request())
    before = machine.read(DROP_IN)
    machine.put(SWAPPINESS, "60\n")
    machine.fails[SWAPPINESS] = errno.EROFS
    mounted(machine, row)
    (found,) = node.survey(machine).rows
    assert found.row.status is Status.DRIFTED
    point = row.split(" ")[4]
    assert found.row.reason == (
        f"runtime is 60; {SWAPPINESS} is read-only: proc is mounted read-only on {point} "
        f"({mountinfo.TABLE}:7): umount it, or mount -o remount,bind,rw {point}"
    )
    # A play ends in the error, and a boot sets the rest.
    with pytest.raises(MlnodeError, match="EROFS"):
        door.apply(machine, request())
    door.apply(machine, Request("other", sysctl, {"settings": {"kernel.numa_balancing": 0}}))
    machine.put("/proc/sys/kernel/numa_balancing", "1\n")
    survey = node.apply_all(machine)
    assert machine.now("/proc/sys/kernel/numa_balancing") == "0"
    assert [words for words in survey.errors if SWAPPINESS in words]
    assert survey.drifted
    assert machine.read(DROP_IN) == before


def test_the_error_of_a_write_names_the_mount(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted(machine, READ_ONLY)

    usual = os.open

    def refuse(path: str, flags: int, *more: int) -> int:
        if flags & os.O_WRONLY:
            raise OSError(errno.EROFS, "x")
        return usual(path, flags, *more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(HostError) as caught:
            Host(machine.root).write_kernel(SWAPPINESS, "1")
    assert caught.value.errno == errno.EROFS
    assert f"proc is mounted read-only on /proc/sys ({mountinfo.TABLE}:7)" in str(caught.value)


@pytest.mark.parametrize("how", ["docker", "podman", "users"])
def test_in_a_container_it_is_unsupported(machine: Machine, how: str) -> None:
    mounted(machine, READ_ONLY)
    if how == "users":
        machine.put("/proc/self/uid_map", "         0     100000      65536\n")
    else:
        machine.put({"docker": "/.dockerenv", "podman": "/run/.containerenv"}[how], "")
    words = Host(machine.root).blocked(SWAPPINESS)
    assert words.startswith(f"{SWAPPINESS} cannot be written in ")
    assert mountinfo.barred(machine, SWAPPINESS) == ""
    machine.read_only[SWAPPINESS] = words
    (found,) = engine.evaluate(machine, request()).rows
    assert (found.status, found.reason) == (Status.UNSUPPORTED, words)


def test_a_network_namespace_has_the_files_of_the_machine_to_read(machine: Machine) -> None:
    mounted(machine, READ_ONLY)
    path = "/proc/sys/net/core/rmem_max"
    machine.link("/proc/self/ns/net", "net:[2]")
    machine.link("/proc/1/ns/net", "net:[1]")
    host = Host(machine.root)
    assert "network namespace" in host.blocked(path)
    assert host.blocked(SWAPPINESS) == ""
    assert "is read-only" in mountinfo.barred(host, SWAPPINESS)


def test_all_kinds_say_it(machine: Machine) -> None:
    mounted(machine, "40 23 0:22 /kernel/mm /sys/kernel/mm ro - sysfs sysfs rw")
    (found,) = engine.evaluate(machine, Request("default", thp, {"enabled": "never"})).rows
    assert found.status is Status.DRIFTED
    assert f"sysfs is mounted read-only on /sys/kernel/mm ({mountinfo.TABLE}:7)" in found.reason


def test_what_is_writable_is_neither(machine: Machine) -> None:
    assert Host(machine.root).blocked(SWAPPINESS) == ""
    assert mountinfo.barred(machine, SWAPPINESS) == ""
    assert Host().blocked("/dev/null") == ""


class Root(Host):
    """The machine on which the test runs, seen by root."""

    def is_superuser(self) -> bool:
        return True


@pytest.mark.parametrize("mode", [0o444, 0o644])
def test_what_the_kernel_denies_to_root(monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    """0444 is how the kernel says that nobody sets it; else somebody on this machine forbids it."""
    path = "/proc/sys/kernel/osrelease"
    host = Root()
    host.once("container", lambda: "")
    host.once("mounts", lambda: ())
    monkeypatch.setattr(mountinfo, "_ALL_USERS", host.read("/proc/self/uid_map").split())
    monkeypatch.setattr(mountinfo.os, "access", lambda *_args: False)
    monkeypatch.setattr(mountinfo.os, "stat", lambda *_args: os.stat_result((mode, *[0] * 9)))
    monkeypatch.setattr(mountinfo.os.path, "exists", lambda *_args: True)
    blocked, barred = mountinfo.blocked(host, path), mountinfo.barred(host, path)
    if mode == 0o444:
        assert (blocked, barred) == (f"{path} is read-only in this kernel", "")
    else:
        assert (blocked, "even by root" in barred) == ("", True)


# -- files on a read-only file system --------------------------------------------------------

#: A disk with errors, where the kernel has made the root read-only (errors=remount-ro)
ROOT = USUAL.replace("/ / rw,relatime - ext4 /dev/vda rw", "/ / ro,relatime - ext4 /dev/vda ro")
REFUSED = (
    "cannot write /etc/mlnode/x: EROFS (Read-only file system): /dev/vda (ext4) is mounted read-only on / "
    "(/proc/self/mountinfo:3)"
)


@cases.table
def test_a_root_that_is_read_only_is_named(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], words: str
) -> None:
    machine = Machine.debian(str(tmp_path / "node"), {mountinfo.TABLE: ROOT})
    for path, text in files.items():
        machine.put(path, text)

    def refused(*_arguments: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("mlnode.host.writing.replace", refused)
    with pytest.raises(HostError) as caught:
        Host.write_file(machine, "/etc/mlnode/x", b"")
    assert str(caught.value) == f"{REFUSED}{words}"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to mount")
def test_a_real_read_only_mount_is_named(tmp_path: pathlib.Path) -> None:
    """In a mount namespace of its own, as the kernel refuses it."""
    folder = tmp_path / "mnt"
    folder.mkdir()
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import _mlnode; sys.modules['mlnode'] = _mlnode\n"
        "from _mlnode.host.host import Host\n"
        f"Host().write_file('{folder}/etc/mlnode/x', b'')"
    )
    library = pathlib.Path(mountinfo.__file__).parents[2]
    script = f'mount -t tmpfs -o ro none "{folder}" && exec "{sys.executable}" -c "$0" "{library}"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, program],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert f"EROFS (Read-only file system): none (tmpfs) is mounted read-only on {folder} (" in done.stderr
