# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the files of the boot layer are in memory, they are lost before the boot that they are for."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
import time
from typing import Any, Protocol

import pytest
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import GrubMachine
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import node as whole_node
from mlnode.engine import lasting
from mlnode.model.setting import Status

DISK = "20 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
ETC = "31 20 0:44 / /etc rw,relatime - tmpfs tmpfs rw\n"
RUN = "22 20 0:22 / /run rw - tmpfs tmpfs rw\n"
LIVE = "20 1 0:20 / / rw - overlay overlay rw,lowerdir=/run/live/fs,upperdir=/run/live/rw,workdir=/run/w\n"

KINDS: dict[str, Any] = {
    "sysctl": {"settings": {"vm.swappiness": 1}},
    "thp": {"enabled": "madvise"},
    "limits": {"nofile": {"login": "65536:1048576"}},
    "boot": {"parameters": {"iommu": "pt"}},
}
KEYS = ("agent.boot", "vm.swappiness", "thp.enabled", "limits.login.*.nofile", "boot.iommu")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A node on which all is applied, and that has booted with it since."""
    machine = GrubMachine.debian_with_grub(str(tmp_path_factory.mktemp("made")))
    machine.put("/etc/pam.d/login", "session required pam_limits.so\n")
    machine.put("/proc/sys/fs/nr_open", "1048576\n")
    machine.put("/run/systemd/system/.keep", "")
    machine.enable_agent()
    document = {"format": 1, "name": "site", "kinds": KINDS}
    machine.put("/etc/mlnode/declared.d/site.json", json.dumps(document))
    whole_node.apply_all(machine)
    machine.reboot()
    return machine.root


class Made(Protocol):
    def __call__(self, mounts: str) -> GrubMachine: ...


@pytest.fixture
def tuned(made: str, tmp_path: pathlib.Path) -> Made:
    def copied(mounts: str) -> GrubMachine:
        shutil.copytree(made, tmp_path / "node", symlinks=True)
        machine = GrubMachine(str(tmp_path / "node"))
        machine.put("/proc/1/mountinfo", mounts)
        return machine

    return copied


def statuses(machine: Machine) -> dict[str, Status]:
    machine.forget()
    rows = [item.row for item in whole_node.survey(machine).rows]
    return {row.setting.key: row.status for row in rows if row.setting.key in KEYS}


def test_on_a_disk_all_is_right(tuned: Made) -> None:
    assert statuses(tuned(DISK)) == dict.fromkeys(KEYS, Status.OK)


@pytest.mark.parametrize("mounts", [DISK.replace("ext4 /dev/sda1", "tmpfs rootfs"), LIVE + RUN])
def test_in_memory_no_row_is_right(tuned: Made, mounts: str) -> None:
    for item in whole_node.survey(tuned(mounts)).rows:
        if item.row.setting.key in KEYS:
            assert (item.row.status, item.row.reading.boot.value.text) == (Status.DRIFTED, None)
            assert "lost at the next boot" in item.row.reason


@pytest.mark.parametrize(
    ("more", "drifted"),
    [
        (ETC, {*KEYS} - {"boot.iommu"}),
        (ETC.replace("/etc", "/boot"), {"boot.iommu"}),
        (ETC.replace("/etc", "/usr/local"), {"agent.boot", "thp.enabled"}),
    ],
)
def test_each_file_counts_where_it_is(tuned: Made, more: str, drifted: set[str]) -> None:
    found = statuses(tuned(DISK + more))
    assert {key for key, status in found.items() if status is Status.DRIFTED} == drifted


def test_what_is_not_to_be_seen_is_unknown(tuned: Made) -> None:
    machine = tuned(LIVE)
    assert statuses(machine) == dict.fromkeys(KEYS, Status.UNKNOWN)
    path = "/etc/mlnode/declared.d/site.json"
    digest = hashlib.sha256(machine.read_bytes(path)).hexdigest()
    machine.put(lasting.IMAGE, f"{digest}  {path}\n")
    assert statuses(machine) == dict.fromkeys(KEYS, Status.OK)


def test_unchanged_files_of_an_overlay_are_the_images(tuned: Made) -> None:
    machine = tuned(LIVE + RUN)
    machine.put("/proc/stat", f"btime {int(time.time()) + 60}\n")  # booted after they were written
    machine.put("/run/systemd/notify", "")
    os.utime(f"{machine.root}/run/systemd/notify", (time.time() + 90,) * 2)
    assert statuses(machine) == dict.fromkeys(KEYS, Status.OK)


def test_an_image_says_which_declarations_it_has(tuned: Made) -> None:
    """As `sha256sum` prints it; a declaration that was changed since is lost as it is now."""
    machine = tuned(DISK + ETC)
    path = "/etc/mlnode/declared.d/site.json"
    digest = hashlib.sha256(machine.read_bytes(path)).hexdigest()
    machine.put(lasting.IMAGE, f"{digest}  {path}\n")
    assert statuses(machine) == dict.fromkeys(KEYS, Status.OK)
    machine.put(path, machine.read(path) + "\n")
    assert statuses(machine)["vm.swappiness"] is Status.DRIFTED
    machine.put(lasting.IMAGE, f"{digest}  /etc/mlnode/declared.d/another.json\n")
    assert statuses(machine)["agent.boot"] is Status.DRIFTED


def test_a_second_run_changes_nothing(tuned: Made) -> None:
    machine = tuned(LIVE + RUN)
    before, updates = machine.tree(), machine.updates
    assert not whole_node.apply_all(machine).changed
    assert (machine.tree(), machine.updates) == (before, updates)
