# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.tests.unit.campaign_machine import ASKED
from mlnode.checks.campaign import kinds, part


def test_rounds_begin_and_end_by_arithmetic() -> None:
    made = part.parse(ASKED)

    assert made.round_seconds == 1 + 2 * (3 + 1 + 1.5)
    assert [made.begin(slot) - 1000 for slot in made.slots] == [0, 2 * made.round_seconds]
    assert made.end == 1000 + 3 * made.round_seconds


@pytest.mark.parametrize("name", kinds.NAMES)
def test_a_kind_has_the_name_by_which_it_is_found(name: str) -> None:
    assert name == kinds.kind(name).NAME
