# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from mlnode.model.setting import Setting, Value


@pytest.mark.parametrize(
    ("value", "shown", "problem"),
    [
        (Value(text="1"), "1", ""),
        (Value(text=""), "", ""),  # an empty list is a value
        (Value(absent="/proc/x does not exist"), "absent", "/proc/x does not exist"),
        (Value(unreadable="EIO"), "unreadable", "EIO"),
    ],
)
def test_absent_and_unreadable_are_different_answers(value: Value, shown: str, problem: str) -> None:
    assert str(value) == shown
    assert value.problem == problem


def test_no_layer_edits_anothers_words() -> None:
    setting = Setting("sysctl", "vm.swappiness", "/proc/sys/vm/swappiness", "1", "1")
    with pytest.raises(AttributeError):
        setting.__setattr__("want", "2")
