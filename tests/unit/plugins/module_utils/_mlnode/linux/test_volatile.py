# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
import subprocess

import pytest
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.host import mountinfo
from mlnode.linux import volatile
from mlnode.model.errors import HostError

DISK = "20 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
TMPFS = "31 20 0:44 / /etc rw,relatime - tmpfs tmpfs rw\n"
RUN = "22 20 0:22 / /run rw - tmpfs tmpfs rw\n"
LIVE = "20 1 0:20 / / rw - overlay overlay rw,lowerdir=/run/live/fs,upperdir=/run/live/rw,workdir=/run/w\n"
#: A disk of its own for the changes of the overlay
STICK = "23 22 8:2 / /run/live/rw rw - ext4 /dev/sda2 rw\n"


@pytest.mark.parametrize(
    ("mounts", "words"),
    [
        ("", ""),
        (DISK, ""),
        (DISK.replace("ext4 /dev/sda1", "nfs4 server:/root"), ""),
        (DISK + TMPFS, "/etc is in memory (tmpfs tmpfs)"),
        (DISK + TMPFS.replace("/etc", "/home"), ""),
        (DISK + TMPFS + "32 31 8:1 /x /etc/mlnode rw - ext4 /dev/sda1 rw\n", ""),
        (DISK.replace("ext4 /dev/sda1", "tmpfs rootfs"), "/ is in memory (tmpfs rootfs)"),
        (DISK.replace("ext4 /dev/sda1", "ramfs none"), "/ is in memory (ramfs none)"),
        ("1 1 0:1 / / rw - rootfs rootfs rw\n" + DISK, ""),  # the real root over the initramfs
        (DISK.replace("/dev/sda1", "/dev/zram1"), "/ is in memory (ext4 /dev/zram1)"),
        (DISK.replace("/dev/sda1", "/dev/ram0"), "/ is in memory (ext4 /dev/ram0)"),
        (
            LIVE + RUN,
            "/ is an overlay that keeps its changes in /run/live/rw, and /run is in memory (tmpfs tmpfs)",
        ),
        (LIVE + RUN + STICK, ""),
        (DISK.replace("ext4 /dev/sda1 rw", "overlay composefs ro,lowerdir=/x"), ""),  # without changes
        (
            DISK + TMPFS.replace("tmpfs tmpfs rw", "overlay overlay rw,lowerdir=/etc,upperdir=/var/lib/etc"),
            "",  # as MicroOS has it, on its disk
        ),
    ],
)
def test_where_a_folder_is(tmp_path: pathlib.Path, mounts: str, words: str) -> None:
    machine = Machine(str(tmp_path))
    machine.put("/proc/1/mountinfo", mounts)
    assert volatile.in_memory(machine, "/etc/mlnode") == words


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("/run/image/root.img", "/ is on /dev/loop0p1, that is /run/image/root.img, and /run is in memory"),
        ("/host/root.disk", ""),
    ],
)
def test_a_disk_that_is_a_file(tmp_path: pathlib.Path, file: str, words: str) -> None:
    machine = Machine(str(tmp_path))
    host = "40 20 8:3 / /host rw - ext4 /dev/sda3 rw\n"
    machine.put("/proc/1/mountinfo", DISK.replace("/dev/sda1", "/dev/loop0p1") + RUN + host)
    machine.put("/sys/block/loop0/loop/backing_file", f"{file}\n")
    found = volatile.in_memory(machine, "/etc/mlnode")
    assert found.startswith(words) if words else found == ""


@pytest.mark.parametrize(
    "mounts",
    [
        LIVE,
        DISK.replace("/dev/sda1", "/dev/mapper/live-rw"),
        DISK.replace("/dev/sda1", "/dev/loop0"),  # whose file the initramfs has mounted
        DISK.replace("ext4 /dev/sda1", "aufs aufs"),
    ],
)
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
    host, known = Machine(str(tmp_path / "host")), tuple(mountinfo.parse(done.stdout))
    inner = f"{tmp_path} is in memory (tmpfs mem)"
    assert volatile._found(host, known, f"{tmp_path}/low/x", "x", 0) == inner
    outer = f"{tmp_path}/all is an overlay that keeps its changes in {tmp_path}/up, and {inner}"
    assert volatile._found(host, known, f"{tmp_path}/all/x", "x", 0) == outer
