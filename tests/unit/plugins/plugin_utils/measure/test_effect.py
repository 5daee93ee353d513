# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of an effect that no run could obey. Ansible takes `nan` and `inf` for numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure.effect import Effect
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure.nodes import MeasureError

FIT = {"effect_least": 1.0, "effect_precision": None, "effect_budget": 0.0}


def validate(**given: Any) -> None:
    effect = Effect.__new__(Effect)
    effect._given, effect._kinds, effect._blocks = {**FIT, **given}, ["command"], 6
    effect._validate()


@pytest.mark.parametrize("number", [math.nan, math.inf, -1.0])
@pytest.mark.parametrize("option", FIT)
def test_a_limit_that_is_no_number_is_named(option: str, number: float) -> None:
    with pytest.raises(MeasureError, match=f"^{option}: expected .*, got {number:g}"):
        validate(**{option: number})


def test_numbers_are_fit() -> None:
    validate(effect_precision=2.0, effect_budget=30.0)
