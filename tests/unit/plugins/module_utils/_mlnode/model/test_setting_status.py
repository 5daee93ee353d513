# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.model.setting import Severity, Status


@cases.table
def test_drift_is_what_a_run_or_a_person_has_to_mend(status: str, drift: bool) -> None:
    assert Status(status).is_drift is drift


def test_every_status_is_in_the_table_above() -> None:
    assert len(Status) == 10


@pytest.mark.parametrize("word", [*Status, *Severity])
def test_words_are_written_as_they_are(word: Status | Severity) -> None:
    # In Python 3.11 and 3.12 format() of such an enum changed; tables and JSON must not.
    assert str(word) == f"{word}" == word.value
