# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tests/unit/test_toml_oracle.py compares with Python's own reader, which Python 3.8 does not have."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.linux import toml


@cases.table
def test_entries(text: str, found: list[Any]) -> None:
    assert [[".".join(entry.path), entry.value, entry.line] for entry in toml.entries(text)] == found


@cases.table
def test_a_mistake_is_named_with_its_line(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        [*toml.entries(text)]


def test_lists_in_lists_end_somewhere() -> None:
    with pytest.raises(ValueError, match="at most 20 levels"):
        [*toml.entries("a = " + "[" * 5000)]
