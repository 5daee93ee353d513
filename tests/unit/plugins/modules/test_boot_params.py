# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import boot_params as boot_module
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import GrubMachine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner

FULL: dict[str, Any] = {
    "name": "training",
    "parameters": {
        "transparent_hugepage": "madvise",
        "nosmt": "",
        "console": ["tty0", "ttyS0"],
        "iommu": None,
    },
    "absent": ["quiet"],
    "isolate": {"cpus": "2-3,6-7", "rcu_nocbs": False},
}


@pytest.fixture
def machine(tmp_path: Any) -> GrubMachine:
    return GrubMachine.debian_with_grub(str(tmp_path / "node"))


@pytest.fixture
def boot(running: Make) -> Runner:
    return running(boot_module)


def test_a_reboot_is_required_until_there_was_one(machine: GrubMachine, boot: Runner) -> None:
    assert boot.ok(check=True, **FULL).result["reboot_required"], "as the run would say"
    first = boot.ok(**FULL)
    again = boot.ok(**FULL)
    for done in (first, again):
        assert done.result["reboot_required"]
        assert {setting["status"] for setting in done.settings.values()} == {"pending_reboot"}
        assert done.warnings == []
    assert not again.changed

    machine.reboot()
    after = boot.ok(**FULL)
    assert not after.result["reboot_required"]
    assert {setting["status"] for setting in after.settings.values()} == {"ok"}


def test_what_a_reboot_would_end_is_told_where_one_is_required(machine: GrubMachine, boot: Runner) -> None:
    assert boot.ok(**FULL).result["running"] == []
    machine.put("/proc/812/comm", "slurmstepd\n")
    machine.put("/proc/812/cmdline", "slurmstepd: [4711.0]\0")
    for check in (True, False):
        assert boot.ok(check=check, **FULL).result["running"] == ["Slurm job 4711"]

    machine.reboot()
    assert "running" not in boot.ok(**FULL).result, "nobody asks"


def test_processes_that_nobody_can_look_at_may_be_jobs(machine: GrubMachine, boot: Runner) -> None:
    machine.unreadable["/proc"] = errno.EACCES
    [running] = boot.ok(**FULL).result["running"]
    assert running.startswith("processes that cannot be looked at: ")
    assert "/proc" in running
