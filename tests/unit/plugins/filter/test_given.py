# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.filter.given import FilterModule, given


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ({"a": None, "b": 0, "c": "", "d": False}, {"b": 0, "c": "", "d": False}),
        (
            {"rules": {"one": None, "two": {"mtu": None, "nics": {"rails": None, "names": ["a"]}}}},
            {"rules": {"two": {"nics": {"names": ["a"]}}}},
        ),
        ({26: 3, 48: None}, {26: 3}),
        ([1, None, [None]], [1, []]),
        ("text", "text"),
        (None, None),
    ],
)
def test_null_takes_away_and_nothing_else_is_lost(value: Any, left: Any) -> None:
    assert given(value) == left


def test_ansible_finds_it() -> None:
    assert [*FilterModule().filters()] == ["given"]
