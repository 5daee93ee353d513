# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st
from mlnode.checks import pcie_values
from mlnode.checks.pcie_values import LinkWanted
from mlnode.model.errors import DeclarationError

KEYS = {**pcie_values.DEVICE_KEYS, **pcie_values.NODE_KEYS}

_ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["speed", "width", "x"]), inner, max_size=3),
    ),
    max_leaves=4,
)


def test_every_key_has_a_default_that_is_valid() -> None:
    assert {*pcie_values.DEFAULTS} == {*KEYS}
    for key in KEYS:
        assert pcie_values.wanted({}, key)[1] is False
        assert pcie_values.wanted({key: pcie_values.DEFAULTS[key]}, key)[1] is True


@pytest.mark.parametrize(
    "raw, expected",
    [
        ("max", LinkWanted()),
        ({"speed": 32}, LinkWanted(32.0)),
        ({"speed": "2.5", "width": 16}, LinkWanted(2.5, 16)),
        ({"speed": "32.0 GT/s PCIe", "width": "x8"}, LinkWanted(32.0, 8)),
        ({"speed": "Gen5", "width": None}, LinkWanted(32.0)),
        ({"speed": 64.0}, LinkWanted(64.0)),
    ],
)
def test_links(raw: Any, expected: LinkWanted) -> None:
    assert pcie_values.link("pcie", raw) == expected


@cases.table
def test_what_cannot_be(key: str, raw: Any) -> None:
    with pytest.raises(DeclarationError, match=rf"here\.{key}"):
        KEYS[key](f"here.{key}", raw)


@quick
@given(st.sampled_from([*KEYS]), _ANYTHING)
def test_never_anything_but_an_answer_or_a_refusal(key: str, raw: Any) -> None:
    with contextlib.suppress(DeclarationError):
        KEYS[key]("here", raw)
