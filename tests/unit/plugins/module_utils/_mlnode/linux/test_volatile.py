# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import pathlib
import subprocess

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.host import mountinfo
from mlnode.linux import volatile
from mlnode.model.errors import HostError

DISK = "20 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
RUN = "22 20 0:22 / /run rw - tmpfs tmpfs rw\n"
LIVE = "20 1 0:20 / / rw - overlay overlay rw,lowerdir=/run/live/fs,upperdir=/run/live/rw,workdir=/run/w\n"


@cases.table
def test_where_a_folder_is(tmp_path: pathlib.Path, mounts: str, words: str) -> None:
    machine = Machine(str(tmp_path))
    machine.put("/proc/1/mountinfo", mounts)
    assert volatile.in_memory(machine, "/etc/mlnode") == words


@cases.table
def test_a_disk_that_is_a_file(tmp_path: pathlib.Path, file: str, words: str) -> None:
    machine = Machine(str(tmp_path))
    host = "40 20 8:3 / /host rw - ext4 /dev/sda3 rw\n"
    machine.put("/proc/1/mountinfo", DISK.replace("/dev/sda1", "/dev/loop0p1") + RUN + host)
    machine.put("/sys/block/loop0/loop/backing_file", f"{file}\n")
    found = volatile.in_memory(machine, "/etc/mlnode")
    assert found.startswith(words) if words else found == ""


@cases.table
def test_what_the_initramfs_alone_knows_is_unknown(tmp_path: pathlib.Path, mounts: str) -> None:
    machine = Machine(str(tmp_path))
    machine.put("/proc/1/mountinfo", mounts)
    with pytest.raises(HostError, match="not known"):
        volatile.in_memory(machine, "/etc")


def test_the_files_of_a_container_are_its_hosts_matter(tmp_path: pathlib.Path) -> None:
    machine = Machine(str(tmp_path))
    machine.put("/proc/1/mountinfo", LIVE)
    machine.put("/run/systemd/container", "podman\n")
    assert volatile.in_memory(machine, "/etc") == ""


@cases.table
def test_devices_below_devices(
    tmp_path: pathlib.Path, row: str, devices: dict[str, str], files: dict[str, str], words: str | None
) -> None:
    """devices: name or number → its folder in sysfs; None as words: unknown."""
    machine = Machine(str(tmp_path))
    machine.put("/proc/1/mountinfo", f"20 1 {row}\n{RUN}")
    for name, folder in devices.items():
        machine.link(f"/sys/{'dev' if ':' in name else 'class'}/block/{name}", f"../../devices/{folder}")
    for path, text in files.items():
        machine.put(f"/sys/{path}", text)
    if words is None:
        with pytest.raises(HostError, match="not known"):
            volatile.in_memory(machine, "/etc/mlnode/x")
    else:
        assert volatile.in_memory(machine, "/etc/mlnode/x") == words


def test_a_file_counts_and_not_its_folder(tmp_path: pathlib.Path) -> None:
    machine = Machine(str(tmp_path))
    machine.put("/proc/1/mountinfo", f"{DISK}{RUN}31 20 0:44 /x /etc/bound rw - tmpfs mem rw\n")
    machine.link("/etc/linked", "/run/file")
    assert volatile.in_memory(machine, "/etc/other") == ""
    assert volatile.in_memory(machine, "/etc/bound") == "/etc/bound is in memory (tmpfs mem)"
    assert volatile.in_memory(machine, "/etc/linked") == "/run is in memory (tmpfs tmpfs)"


def test_another_etc_than_the_systems_is_unknown(tmp_path: pathlib.Path) -> None:
    """Of a service with mounts of its own. A bind mount of the same folder changes nothing."""
    machine = Machine(str(tmp_path))
    machine.put("/proc/1/mountinfo", DISK)
    machine.put(mountinfo.TABLE, f"{DISK}31 20 8:1 /etc /etc ro - ext4 /dev/sda1 rw\n")
    assert volatile.in_memory(machine, "/etc/x") == ""
    machine.put(mountinfo.TABLE, f"{DISK}31 20 0:44 / /etc rw - tmpfs mem rw\n")
    machine.forget()
    with pytest.raises(HostError, match=r"on mem here .*/proc/self/mountinfo:2.*, and on /dev/sda1"):
        volatile.in_memory(machine, "/etc/x")


@pytest.mark.parametrize(
    "text", [DISK[:-20], f"{DISK}31 20 0:44 / /etc", f"{DISK}\xff\n", "\0" * 5000, "x " * 9]
)
def test_a_table_that_is_not_understood_is_unknown(tmp_path: pathlib.Path, text: str) -> None:
    machine = Machine(str(tmp_path))
    machine.put("/proc/1/mountinfo", text)
    with pytest.raises(HostError):
        volatile.in_memory(machine, "/etc/x")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
@pytest.mark.parametrize("path", [mountinfo.TABLE, "/sys/block/loop0/loop/backing_file"])
def test_files_that_cannot_be_read_are_unknown(tmp_path: pathlib.Path, number: int, path: str) -> None:
    machine = Machine(str(tmp_path))
    machine.put(mountinfo.TABLE, DISK.replace("sda1", "loop0"))
    machine.put("/sys/block/loop0/loop/backing_file", "/disk\n")
    machine.unreadable[path] = number
    with pytest.raises(HostError):
        volatile.in_memory(machine, "/etc/x")


def test_real_mounts_of_a_kernel(tmp_path: pathlib.Path) -> None:
    """A tmpfs, and an overlay with its changes there, in a mount namespace of their own."""
    script = (
        'mount -t tmpfs mem "$1" && mkdir "$1/low" "$1/up" "$1/work" "$1/all" && '
        'mount -t overlay over -o "lowerdir=$1/low,upperdir=$1/up,workdir=$1/work" "$1/all" && '
        "cat /proc/self/mountinfo"
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
    host = Machine(str(tmp_path / "host"))
    host.put("/proc/1/mountinfo", done.stdout)
    inner = f"{tmp_path} is in memory (tmpfs mem)"
    assert volatile.in_memory(host, f"{tmp_path}/low/x") == inner
    outer = f"{tmp_path}/all is an overlay that keeps its changes in {tmp_path}/up, and {inner}"
    assert volatile.in_memory(host, f"{tmp_path}/all/x") == outer


def test_a_partition_that_is_mounted_when_it_is_used(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As systemd-gpt-auto-generator mounts the EFI system partition, and unmounts it after two minutes."""
    machine = Machine(str(tmp_path))
    idle = f"{DISK}30 20 0:30 / /efi rw - autofs systemd-1 rw\n"
    machine.put("/proc/1/mountinfo", idle)
    machine.put("/proc/self/mountinfo", idle)
    entry = "/efi/loader/entries/x.conf"
    with pytest.raises(HostError, match="kind autofs"):
        volatile.in_memory(machine, entry)
    usual = machine.exists

    def exists(path: str) -> bool:
        if path == entry:
            for table in ("/proc/1/mountinfo", "/proc/self/mountinfo"):
                machine.put(table, f"{idle}31 30 8:2 / /efi rw - vfat /dev/sda2 rw\n")
        return usual(path)

    monkeypatch.setattr(machine, "exists", exists)
    assert volatile.in_memory(machine, entry) == ""
