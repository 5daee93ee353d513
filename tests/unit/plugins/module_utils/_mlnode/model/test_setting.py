# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.model.setting import Setting, Value


@cases.table
def test_absent_and_unreadable_are_different_answers(value: list[Any], shown: str, problem: str) -> None:
    assert str(Value(*value)) == shown
    assert Value(*value).problem == problem


def test_no_layer_edits_anothers_words() -> None:
    setting = Setting("sysctl", "vm.swappiness", "/proc/sys/vm/swappiness", "1", "1")
    with pytest.raises(AttributeError):
        setting.__setattr__("want", "2")
