# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import thp as thp_module
from ansible_collections.mlnode.tuning.tests.unit.machine import THP, Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner


@pytest.fixture
def thp(running: Make, machine: Machine) -> Runner:
    machine.put(f"{THP}/khugepaged/max_ptes_none", "511\n")
    return running(thp_module)


def test_without_the_agent_the_boot_layer_is_a_warning(machine: Machine, thp: Runner) -> None:
    done = thp.ok(enabled="madvise")

    words = "boot: nothing brings it back, as mlnode-apply.service is not enabled (install the agent)"
    assert done.warnings == [f"thp.enabled is drifted: {words}"]
    assert machine.now(f"{THP}/enabled") == "always [madvise] never"


def test_the_kernel_command_line_that_wins_is_a_warning(machine: Machine, thp: Runner) -> None:
    machine.put("/proc/cmdline", "ro transparent_hugepage=never\n")

    done = thp.ok(enabled="madvise")

    source = "kernel command line (transparent_hugepage=never)"
    assert done.settings["thp.enabled"]["boot_source"] == source
    assert done.warnings == [f"thp.enabled is overridden: boot: {source} sets never"]
