# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.linux import settings_yaml


@cases.table
def test_forms(text: str, value: Any, line: int) -> None:
    assert settings_yaml.find(text, "key") == (value, line)


@cases.table
def test_other_forms_are_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        settings_yaml.find(text, "key")


def test_nothing() -> None:
    for text in ("", "# key: 1\n", "other:\n  key: 1\n", "{}", '{"other": {"key": 1}}'):
        assert settings_yaml.find(text, "key") is None
