# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.gpu_machine import GpuMachine
from ansible_collections.mlnode.tuning.tests.unit.nodes import disk
from mlnode.checks.model import Check, Verdict
from mlnode.host.host import Host
from mlnode.model.errors import HostError
from mlnode.model.setting import Severity

from .looking import look, one

OPTIONS = "rw,vers=4.2,rsize=1048576,wsize=1048576,hard,proto=tcp,nconnect=8,timeo=600"
TABLE = """\
27 1 259:1 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw
28 27 0:5 / /dev rw,nosuid - devtmpfs udev rw
29 27 259:2 / /scratch rw,noatime - xfs /dev/nvme1n1 rw,inode64
30 27 259:2 /jobs /var/jobs rw,noatime - xfs /dev/nvme1n1 rw,inode64
31 27 259:3 / /image ro,noatime - ext4 /dev/nvme2n1 ro
32 27 0:53 / /data rw,relatime - nfs4 server:/x rw
33 32 259:4 / /data/local rw,relatime - ext4 /dev/nvme3n1 rw
34 27 0:54 / /home rw,relatime - autofs /etc/auto.home rw
35 34 259:5 / /home/one rw,relatime - ext4 /dev/nvme4n1 rw
36 27 0:60 / /cloud rw,relatime - fuse.sshfs server: rw
"""
HERE = "/proc/self/mountinfo"


@pytest.fixture
def stored(node: GpuMachine) -> GpuMachine:
    """Two NVMe drives in a RAID, and a disk that turns."""
    for name in ("nvme0n1", "nvme1n1"):
        disk(node, name, "nvme")
    disk(node, "md127", "md", read_ahead_kb="4096", scheduler="")
    disk(node, "sda", "scsi", rotational="1", scheduler="none [mq-deadline]")
    disk(node, "loop0", "")
    disk(node, "sr0", "scsi")
    node.put("/sys/block/sr0/removable", "1\n")
    return node


def share(machine: GpuMachine, number: str, point: str, options: str = OPTIONS) -> None:
    table = "/proc/1/mountinfo"
    row = f"{number[2:]} 27 {number} / {point} rw,relatime - nfs4 server:/x {options}\n"
    machine.put(table, machine.text(table) + row)
    machine.put(f"/sys/class/bdi/{number}/read_ahead_kb", "15360\n")


# -- disks ---------------------------------------------------------------------------------


def test_disks_are_reported_and_those_that_are_alike_together(stored: GpuMachine) -> None:
    check = one(stored, "disks")
    assert check.verdict is Verdict.SKIP
    assert check.found == (
        "md127: md, read-ahead 4096 KiB; nvme0n1, nvme1n1: nvme, scheduler none, read-ahead 128 KiB; "
        "sda: scsi, rotational, scheduler mq-deadline, read-ahead 128 KiB"
    )


def test_a_scheduler_before_an_nvme_drive_is_a_warning(stored: GpuMachine) -> None:
    assert one(stored, "nvme_scheduler").verdict is Verdict.PASS
    stored.put("/sys/block/nvme1n1/queue/scheduler", "none [mq-deadline] kyber\n")
    check = one(stored, "nvme_scheduler")
    assert (check.verdict, check.severity) == (Verdict.WARN, Severity.LOW)
    assert check.found == "nvme0n1: none; nvme1n1: mq-deadline"


def test_a_drive_without_a_scheduler_to_choose_does_not_pass(stored: GpuMachine) -> None:
    for name in ("nvme0n1", "nvme1n1"):
        stored.remove(f"/sys/block/{name}/queue/scheduler")
    assert one(stored, "nvme_scheduler").verdict is Verdict.SKIP


@pytest.mark.parametrize("file", ["scheduler", "read_ahead_kb", "rotational"])
def test_a_disk_that_cannot_be_read_is_unknown(stored: GpuMachine, file: str) -> None:
    stored.unreadable[f"/sys/block/nvme0n1/queue/{file}"] = errno.EIO
    assert one(stored, "disks").verdict is Verdict.UNKNOWN
    assert one(stored, "nvme_scheduler").verdict is Verdict.UNKNOWN


# -- NFS -----------------------------------------------------------------------------------


def test_an_nfs_mount_is_shown_with_what_was_negotiated(stored: GpuMachine) -> None:
    share(stored, "0:53", "/data")
    share(stored, "0:53", "/scratch\\040space")
    check = one(stored, "nfs_mounts", "/data, /scratch space")
    assert check.verdict is Verdict.PASS
    assert check.found == (
        "vers 4.2, proto tcp, nconnect 8, rsize 1024 KiB, wsize 1024 KiB, read-ahead 15360 KiB"
    )


@cases.table
def test_nfs_is_judged_by_its_sizes_and_its_protocol(
    stored: GpuMachine, old: str, new: str, verdict: Verdict, found: str
) -> None:
    share(stored, "0:53", "/data", OPTIONS.replace(old, new))
    check = one(stored, "nfs_mounts", "/data")
    assert check.verdict == verdict
    assert found in check.found
    assert bool(check.advice) is (verdict == Verdict.WARN)


def test_what_is_not_readable_of_nfs_is_unknown_and_what_is_not_there_is_said(stored: GpuMachine) -> None:
    share(stored, "0:53", "/data")
    ahead = "/sys/class/bdi/0:53/read_ahead_kb"
    stored.unreadable[ahead] = errno.EACCES
    assert one(stored, "nfs_mounts", "/data").verdict is Verdict.UNKNOWN
    del stored.unreadable[ahead]
    stored.remove(ahead)
    assert "read-ahead absent" in one(stored, "nfs_mounts", "/data").found


def test_without_a_table_of_mounts_nothing_is_said_of_nfs(stored: GpuMachine) -> None:
    assert one(stored, "nfs_mounts").found == "/proc/1/mountinfo does not exist"
    stored.put(HERE, "27 1 259:1 / / rw - ext4 /dev/nvme0n1p1 ro\n")
    assert one(stored, "nfs_mounts").found == "no NFS is mounted"
    stored.unreadable[HERE] = errno.EIO
    assert one(stored, "nfs_mounts").verdict is Verdict.UNKNOWN
    assert one(stored, "file_systems").verdict is Verdict.UNKNOWN


# -- file systems --------------------------------------------------------------------------


def spaced(
    machine: GpuMachine, monkeypatch: pytest.MonkeyPatch, **left: tuple[int, int]
) -> tuple[dict[str, Check], list[str]]:
    """Checks by target, and what was asked. left: of 1000 blocks of 1 MiB and of 1000 inodes, 0 for gone."""
    asked: list[str] = []

    def space(path: str) -> os.statvfs_result:
        asked.append(path)
        blocks, inodes = left.get(path.strip("/").replace("/", "_") or "root", (500, 900))
        if not blocks:
            raise HostError("look at", path, inodes)
        return os.statvfs_result((1 << 20, 1 << 20, 1000, 600, blocks, 1000, 950, inodes, 0, 255))

    machine.put(HERE, TABLE)
    monkeypatch.setattr(machine, "space", space)
    found = {target: check for (name, target), check in look(machine).items() if name == "file_systems"}
    return found, asked


def test_only_local_file_systems_are_asked_for_what_is_left(
    stored: GpuMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, asked = spaced(stored, monkeypatch)
    assert asked == ["/", "/scratch"], "no NFS, no autofs, nothing on the way through one, and each once"
    assert [*found] == ["node"]
    assert found["node"].verdict is Verdict.PASS
    text = "50 % of 0.9766 GiB left, 90 % of inodes"
    assert found["node"].found == f"/: {text}; /scratch: {text}"


@pytest.mark.parametrize(("left", "short"), [((50, 50), False), ((49, 900), True), ((900, 49), True)])
def test_a_file_system_is_short_below_a_twentieth_of_blocks_or_inodes(
    stored: GpuMachine, monkeypatch: pytest.MonkeyPatch, left: tuple[int, int], short: bool
) -> None:
    found, _asked = spaced(stored, monkeypatch, scratch=left)
    assert [(target, check.verdict) for target, check in found.items()] == [
        ("/scratch", Verdict.WARN) if short else ("node", Verdict.PASS)
    ]


def test_a_file_system_that_cannot_be_asked_is_unknown_and_one_that_is_gone_is_left_out(
    stored: GpuMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _asked = spaced(stored, monkeypatch, scratch=(0, errno.EACCES))
    assert [(target, check.verdict) for target, check in found.items()] == [("/scratch", Verdict.UNKNOWN)]
    found, _asked = spaced(stored, monkeypatch, scratch=(0, errno.ENOENT))
    assert [(target, check.verdict) for target, check in found.items()] == [("node", Verdict.PASS)]


def test_of_a_captured_tree_the_build_machine_is_not_asked(stored: GpuMachine) -> None:
    stored.put(HERE, TABLE)
    check = one(stored, "file_systems", "/scratch")
    assert check.verdict is Verdict.UNKNOWN
    assert "was not captured" in check.found


def test_this_machine_is_asked() -> None:
    assert Host().space("/").f_blocks == os.statvfs("/").f_blocks
    with pytest.raises(HostError, match="/none: ENOENT"):
        Host().space("/none")
