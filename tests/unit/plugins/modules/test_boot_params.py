# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import json
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import boot_params as boot_module
from ansible_collections.mlnode.tuning.plugins.modules import thp as thp_module
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import DROP_INS, GrubMachine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner

DECLARATION = "/etc/mlnode/declared.d/training.json"
DROP_IN = f"{DROP_INS}/zz-mlnode-training.cfg"

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


def test_the_menu_is_written_once_and_not_in_check_mode(machine: GrubMachine, boot: Runner) -> None:
    boot.ok(check=True, **FULL)
    assert machine.updates == 0

    done = boot.ok(**FULL)

    assert [*done.diff] == [DECLARATION, DROP_IN]
    assert {key: setting["boot"] for key, setting in done.settings.items()} == {
        "boot.isolcpus": "isolcpus=managed_irq,domain,2-3,6-7",
        "boot.nohz_full": "nohz_full=2-3,6-7",
        "boot.irqaffinity": "irqaffinity=0-1,4-5",
        "boot.transparent_hugepage": "transparent_hugepage=madvise",
        "boot.nosmt": "nosmt",
        "boot.console": "console=tty0 console=ttyS0",
        "boot.quiet": "absent",
    }
    assert machine.updates == 1


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


def test_the_declaration_is_kept_as_it_was_said(machine: GrubMachine, boot: Runner) -> None:
    boot.ok(**FULL)
    kept = json.loads(machine.read(DECLARATION))["kinds"]["boot"]
    said = FULL["parameters"]
    assert kept["parameters"] == {name: said[name] for name in said if said[name] is not None}
    assert kept["isolate"]["cpus"] == "2-3,6-7"
    assert kept["isolate"]["rcu_nocbs"] is False


def test_a_single_cpu_is_a_list_too(machine: GrubMachine, boot: Runner) -> None:
    done = boot.ok(isolate={"cpus": 7})
    assert done.settings["boot.isolcpus"]["want"] == "isolcpus=managed_irq,domain,7"


def test_what_is_allowed_is_done(machine: GrubMachine, boot: Runner) -> None:
    done = boot.ok(
        parameters={"mitigations": "off"}, isolate={"cpus": "1-7"}, allow=["housekeeping", "mitigations"]
    )
    assert {setting["status"] for setting in done.settings.values()} == {"pending_reboot"}


@pytest.mark.parametrize("empty", [{}, {"allow": ["mitigations"]}, {"parameters": {}, "absent": []}])
def test_a_declaration_of_nothing_leaves_the_node(
    machine: GrubMachine, boot: Runner, empty: dict[str, Any]
) -> None:
    boot.ok(**FULL)
    done = boot.ok(name="training", **empty)
    assert done.changed
    assert not machine.exists(DECLARATION)
    assert not machine.exists(DROP_IN)
    assert machine.line() == "root=UUID=1111 ro quiet"
    assert not boot.ok(name="training", **empty).changed


def test_a_parameter_that_another_kind_sets_at_run_time_is_no_conflict(
    machine: GrubMachine, boot: Runner, running: Make
) -> None:
    machine.enable_agent()
    boot.ok(name="training", parameters={"transparent_hugepage": "madvise"})
    machine.reboot()
    done = running(thp_module).ok(name="training", enabled="madvise")
    assert done.settings["thp.enabled"]["boot_source"] == (
        "kernel command line (transparent_hugepage=madvise)"
    )
    assert [*json.loads(machine.read(DECLARATION))["kinds"]] == ["boot", "thp"]


def test_an_image_build_reads_nothing_of_the_build_host_and_runs_nothing_there(
    machine: GrubMachine, boot: Runner
) -> None:
    machine.unreadable["/proc/cmdline"] = 5
    machine.enable_agent()
    done = boot.ok(layers=["boot"], **FULL)
    assert done.settings["boot.nosmt"]["status"] == "changed"
    assert done.settings["boot.isolcpus"]["boot_source"] == "mlnode-apply.service"
    assert machine.updates == 0
    machine.write_menu()
    assert "isolcpus" not in machine.line()
    assert "nosmt" in machine.line()
    assert not boot.ok(layers=["boot"], **FULL).changed
