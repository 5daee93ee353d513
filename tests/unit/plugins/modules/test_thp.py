# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import sysctl_ml
from ansible_collections.mlnode.tuning.plugins.modules import thp as thp_module
from ansible_collections.mlnode.tuning.tests.unit.machine import THP, Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner

DECLARATION = "/etc/mlnode/declared.d/training.json"


@pytest.fixture
def thp(running: Make, machine: Machine) -> Runner:
    machine.put(f"{THP}/khugepaged/max_ptes_none", "511\n")
    return running(thp_module)


def test_what_is_not_named_is_left_untouched(machine: Machine, thp: Runner) -> None:
    done = thp.ok(name="training", defrag="never")

    assert [*done.settings] == ["thp.defrag"]
    assert json.loads(machine.read(DECLARATION))["kinds"] == {"thp": {"defrag": "never"}}
    assert machine.now(f"{THP}/enabled") == "[always] madvise never"


def test_the_diff_shows_the_chosen_words(machine: Machine, thp: Runner) -> None:
    done = thp.ok(name="training", enabled="madvise", khugepaged={"pages_to_scan": 8192})

    assert [*done.diff] == [DECLARATION, "runtime"]
    assert done.diff["runtime"] == (
        "thp.enabled = always\nthp.khugepaged.pages_to_scan = 4096\n",
        "thp.enabled = madvise\nthp.khugepaged.pages_to_scan = 8192\n",
    )


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


def test_one_declaration_holds_both_kinds(machine: Machine, thp: Runner, running: Make) -> None:
    thp.ok(name="training", enabled="madvise")
    running(sysctl_ml).ok(name="training", settings={"vm.swappiness": 1})
    thp.ok(name="training", enabled="never")

    assert json.loads(machine.read(DECLARATION))["kinds"] == {
        "thp": {"enabled": "never"},
        "sysctl": json.loads(machine.read(DECLARATION))["kinds"]["sysctl"],
    }


def test_a_declaration_of_nothing_leaves_the_node(machine: Machine, thp: Runner) -> None:
    thp.ok(name="training", enabled="madvise")
    content = machine.read(DECLARATION)

    done = thp.ok(name="training")

    assert done.diff == {
        DECLARATION: (content, ""),
        "runtime": ("thp.enabled = madvise\n", "thp.enabled = always\n"),
    }
    assert machine.now(f"{THP}/enabled") == "[always] madvise never"
    assert not machine.exists(DECLARATION)
    assert not thp.ok(name="training").changed


def test_the_other_kind_keeps_the_file(machine: Machine, thp: Runner, running: Make) -> None:
    running(sysctl_ml).ok(name="training", settings={"vm.swappiness": 1})
    thp.ok(name="training", enabled="madvise")

    thp.ok(name="training")

    assert [*json.loads(machine.read(DECLARATION))["kinds"]] == ["sysctl"]
