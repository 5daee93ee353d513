# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import sysctl_ml
from ansible_collections.mlnode.tuning.plugins.modules import thp as thp_module
from ansible_collections.mlnode.tuning.tests.unit.machine import THP, Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner

DECLARATION = "/etc/mlnode/declared.d/training.json"

FULL: dict[str, Any] = {
    "enabled": "madvise",
    "defrag": "defer+madvise",
    "shmem_enabled": "advise",
    "use_zero_page": 0,
    "khugepaged": {"defrag": 0, "scan_sleep_millisecs": 60000, "max_ptes_none": 0},
    "sizes": {"64kB": {"enabled": "madvise"}, "2048kB": {"enabled": "inherit"}},
}


@pytest.fixture
def thp(running: Make, machine: Machine) -> Runner:
    machine.put(f"{THP}/khugepaged/max_ptes_none", "511\n")
    return running(thp_module)


def test_check_mode_predicts_what_the_run_then_does(machine: Machine, thp: Runner) -> None:
    machine.enable_agent()
    before = machine.tree()
    predicted = thp.ok(check=True, name="training", **FULL)
    assert machine.tree() == before

    done = thp.ok(name="training", **FULL)

    assert predicted.result["diff"] == done.result["diff"]
    assert [*predicted.settings] == [*done.settings]
    want = {key: setting["want"] for key, setting in predicted.settings.items()}
    assert want == {key: setting["runtime"] for key, setting in done.settings.items()}
    assert {key: setting["boot"] for key, setting in done.settings.items()} == want
    assert want == {
        "thp.enabled": "madvise",
        "thp.defrag": "defer+madvise",
        "thp.shmem_enabled": "advise",
        "thp.use_zero_page": "0",
        "thp.khugepaged.defrag": "0",
        "thp.khugepaged.scan_sleep_millisecs": "60000",
        "thp.khugepaged.max_ptes_none": "0",
        "thp.hugepages-64kB.enabled": "madvise",
        "thp.hugepages-2048kB.enabled": "inherit",
    }


def test_a_second_run_changes_nothing(machine: Machine, thp: Runner) -> None:
    machine.enable_agent()
    thp.ok(**FULL)
    tree, writes = machine.tree(), list(machine.writes)

    again = thp.ok(**FULL)

    assert not again.changed
    assert again.result["diff"] == []
    assert {setting["status"] for setting in again.settings.values()} == {"ok"}
    assert (machine.tree(), machine.writes) == (tree, writes)


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


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    "arguments, words",
    [
        (
            {"enabled": "sometimes"},
            ["thp.enabled", "'sometimes'", f"{THP}/enabled", "always, madvise, never"],
        ),
        (
            {"sizes": {"64kB": {"enabled": "sometimes"}}},
            ["thp.hugepages-64kB.enabled", "always, inherit, madvise, never"],
        ),
        ({"enabled": "madvise\nalways"}, ["thp.enabled", "does not print"]),
        ({"enabled": "../../etc/passwd"}, ["thp.enabled: must be a word such as madvise"]),
        (
            {"sizes": {"../../64kB": {"enabled": "never"}}},
            ["thp.sizes: the name '../../64kB'", "such as 2048kB"],
        ),
        (
            {"sizes": {"64kB": {"owner": "root"}}},
            ["thp.sizes.64kB.owner: unknown; known are enabled, shmem_enabled"],
        ),
        ({"sizes": {"64kB": {"enabled": True}}}, ["thp.sizes.64kB.enabled: must be a text, got True"]),
        ({"use_zero_page": -1}, ["thp.use_zero_page: must be at least 0, got -1"]),
        ({"use_zero_page": "yes"}, ["use_zero_page", "yes"]),
        ({"khugepaged": {"defrag": "madvise"}}, ["defrag", "khugepaged"]),
        ({"khugepaged": {"speed": 1}}, ["khugepaged.speed", "scan_sleep_millisecs"]),
        ({"enabled": "madvise", "layers": []}, ["layers"]),
        ({"enabled": "madvise", "name": "A"}, ["name 'A'"]),
    ],
)
def test_bad_input_is_named_before_anything_is_written(
    machine: Machine, thp: Runner, check: bool, arguments: dict[str, Any], words: list[str]
) -> None:
    before = machine.tree()

    msg = thp.msg(check, **arguments)

    for word in words:
        assert word in msg
    assert machine.tree() == before
    assert machine.writes == []


def test_two_declarations_that_disagree_are_both_named(machine: Machine, thp: Runner) -> None:
    thp.ok(name="training", enabled="madvise")

    msg = thp.msg(name="inference", enabled="never")

    assert msg.startswith(
        "thp inference: thp.enabled: declared as 'never' by inference and as 'madvise' by training "
    )


@pytest.mark.parametrize("on_unsupported", ["fail", "warn", "ignore"])
def test_a_size_that_this_kernel_does_not_have(machine: Machine, thp: Runner, on_unsupported: str) -> None:
    before = machine.tree()
    sizes = {"128kB": {"enabled": "madvise"}}

    done = thp(sizes=sizes, on_unsupported=on_unsupported)

    words = "does not exist; sizes here: 2048kB, 64kB"
    if on_unsupported == "fail":
        assert done.rc == 1
        assert words in done.result["msg"]
        assert machine.tree() == before
    else:
        assert done.settings["thp.hugepages-128kB.enabled"]["status"] == "unsupported"
        assert any(words in warning for warning in done.warnings) is (on_unsupported == "warn")


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


def test_zero_is_something(machine: Machine, thp: Runner) -> None:
    thp.ok(name="training", use_zero_page=0)

    assert json.loads(machine.read(DECLARATION))["kinds"] == {"thp": {"use_zero_page": 0}}


def test_an_image_build_reads_neither_command_line_nor_kernel(machine: Machine, thp: Runner) -> None:
    machine.put("/proc/cmdline", "ro transparent_hugepage=never\n")
    machine.enable_agent()

    thp.ok(name="training", enabled="madvise", layers=["boot"])
    done = thp.ok(name="training", enabled="madvise", layers=["boot"])

    setting = done.settings["thp.enabled"]
    assert (setting["status"], setting["runtime"], setting["boot"]) == ("ok", None, "madvise")
    assert machine.writes == []
