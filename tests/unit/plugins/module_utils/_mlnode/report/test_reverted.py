# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.engine import test_many_files
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.engine.test_many_files import (
    Vectors,
    request,
    vector,
)
from mlnode.engine import revert
from mlnode.engine.revert import Change
from mlnode.report import reverted

many = test_many_files.many


def pair(header: str, before: str, after: str) -> dict[str, str]:
    return {"before_header": header, "after_header": header, "before": before, "after": after}


@pytest.mark.parametrize(
    "changes, expected",
    [
        ([], []),
        (
            [Change("vm.swappiness", "1", "60")],
            [pair("runtime", "vm.swappiness = 1\n", "vm.swappiness = 60\n")],
        ),
        (
            [Change("vm.swappiness", None, "60"), Change("module tcp_bbr", "loaded", "not loaded")],
            [
                pair(
                    "runtime",
                    "vm.swappiness = -\nmodule tcp_bbr = loaded\n",
                    "vm.swappiness = 60\nmodule tcp_bbr = not loaded\n",
                )
            ],
        ),
        ([Change("/etc/a", "ours\n", None, is_file=True)], [pair("/etc/a", "ours\n", "")]),
        ([Change("/etc/a", None, "theirs\n", is_file=True)], [pair("/etc/a", "", "theirs\n")]),
        (
            [Change("/etc/a", "x\n", None, is_file=True), Change("vm.swappiness", "1", "60")],
            [pair("runtime", "vm.swappiness = 1\n", "vm.swappiness = 60\n"), pair("/etc/a", "x\n", "")],
        ),
    ],
)
def test_diff_of_a_revert(changes: list[Change], expected: list[dict[str, str]]) -> None:
    assert reverted.diff(changes) == expected


def test_many_files_of_a_setting_are_counted(many: Machine) -> None:
    many.put(vector(41), "2-3\n")
    many.put(vector(42), "1-2\n")
    door.apply(many, request(Vectors()))
    (runtime, *_files) = reverted.diff(revert.pending(many))
    assert runtime["after"] == "vectors.all = 0-7 (2 files)\nvectors.all = 1-2\n"
