# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlnode.model.errors import paragraphs
from mlnode.model.setting import Status
from mlnode.report.paint import painted, paragraphs_between


@pytest.mark.parametrize("status", Status)
def test_every_status_has_a_colour_and_keeps_its_word(status: Status) -> None:
    shown = painted(str(status))

    assert shown.startswith("\x1b[")
    assert shown.endswith(f"m{status}\x1b[0m")
    assert paragraphs_between(shown) == shown


def test_drift_is_never_green() -> None:
    assert not [status for status in Status if status.is_drift and "\x1b[32m" in painted(str(status))]


def test_another_word_stays_as_it_is() -> None:
    assert painted("why") == "why"


@pytest.mark.parametrize(
    "sequence", ["\x1b[2J", "\x1b]0;x\x07", "\x1b[31;1m", "\x1b[38;5;1m", "\x9b31m", "\x1b[8m"]
)
def test_all_other_sequences_are_spelled(sequence: str) -> None:
    text = f"{painted('ok')} {sequence}"

    assert paragraphs_between(text) == f"{painted('ok')} {paragraphs(sequence)}"


@given(st.text(st.sampled_from("\x1b[]0123m;J\x07\x9b\n a")))
def test_no_text_gets_more_past_than_a_colour(text: str) -> None:
    left = paragraphs_between(text)
    for code in ("0", "2", *(f"3{number}" for number in range(1, 7))):
        left = left.replace(f"\x1b[{code}m", "")

    assert "\x1b" not in left
    assert "\x9b" not in left
