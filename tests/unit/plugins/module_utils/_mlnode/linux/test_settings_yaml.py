# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.tests.unit import cases
from hypothesis import given
from hypothesis import strategies as st
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


_ITEMS = ["a", "a b  # c", "a:b", "a: b", "-1", "- a", "-", "", "'c' # d", '"e f"', "*", "a, b", "#", "a#"]


@given(st.sampled_from(["- ", "  - ", "  x: ", "[", "{x: "]), st.lists(st.sampled_from(_ITEMS), max_size=3))
def test_no_form_is_taken_for_another_one(form: str, items: list[str]) -> None:
    text = "key:\n" + "".join(f"{form}{item}\n" for item in items)
    if form[0] in "[{":
        text = f"key: {form}{', '.join(items)}{']' if form == '[' else '}'}\n"
    try:
        own = settings_yaml.find(text, "key")
        expected = yaml.load(text, yaml.BaseLoader)["key"]
    except (ValueError, yaml.YAMLError):
        return
    assert own is not None
    assert (own.value or "") == (expected or "")
