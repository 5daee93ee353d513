# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module shows of settings that rule many files or wait for a boot."""

from __future__ import annotations

from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode import engine, revert
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.setting import Part
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.transaction import KernelWrite
from ansible_collections.mlnode.tuning.plugins.modules import node_revert
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils.mlnode import test_parts
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils.mlnode.test_parts import (
    CONFIG,
    MADE,
    Vectors,
    applied,
    request,
    vector,
)

many, told = test_parts.many, test_parts.told


def test_a_diff_shows_many_files_in_one_line(many: Machine, told: list[str]) -> None:
    many.put(vector(41), "2-3\n")
    many.put(vector(42), "1-2\n")
    plan = engine.evaluate(many, request(Vectors()))
    (runtime, declaration) = tuning_module.diff(plan.steps)
    assert runtime["before"] == "vectors.all = 0-7: 40,43; 1-2: 42\n"
    assert runtime["after"] == "vectors.all = 2-3\n"
    assert declaration["before"] == ""
    engine.apply(many, request(Vectors()))
    (runtime, *_files) = node_revert._diff(revert.pending(many))
    assert runtime["after"] == "vectors.all = 0-7 (2 files)\nvectors.all = 1-2\n"
    assert told == []


def test_a_diff_says_that_somebody_has_to_be_told_again(many: Machine, told: list[str]) -> None:
    kind = Vectors(at_boot=True)
    applied(many, kind)
    many.put(MADE, "by hand\n")
    (pair,) = tuning_module.diff(engine.evaluate(many, request(kind)).steps)
    assert pair["before_header"] == CONFIG
    assert pair["after"] == "as it should be; the thing reads it once more\n"
    assert told == ["2-3"]


def test_a_diff_counts_files_whose_numbers_say_nothing() -> None:
    parts = [
        Part(number, f"/sys/{nic}/{number}", "0", str(number + 1), ()) for nic in "ab" for number in (0, 1)
    ]
    (pair,) = tuning_module.diff([KernelWrite.of("irq.nics.rps", part) for part in parts])
    assert pair["before"] == "irq.nics.rps = 0 (4 files)\n"
    assert pair["after"] == "irq.nics.rps = 1 (2 files); 2 (2 files)\n"


def test_a_check_says_that_the_run_would_wait_for_a_boot(many: Machine, told: list[str]) -> None:
    kind = Vectors(at_boot=True)
    (row,) = engine.evaluate(many, request(kind)).rows
    assert tuning_module._waits_for_boot(row)
    assert tuning_module._waits_for_boot(applied(many, kind))
    for number in range(40, 44):
        many.put(vector(number), "2-3\n")
    (row,) = engine.evaluate(many, request(kind)).rows
    assert not tuning_module._waits_for_boot(row)
    assert told == ["2-3"]
