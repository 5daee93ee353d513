# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import math
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from hypothesis import given
from hypothesis import strategies as st
from mlnode.model import strict_json
from mlnode.model.errors import StoreError

PATH = "/etc/mlnode/file.json"

REFUSED = {
    "nothing": ("", "Expecting value"),
    "half": ('{"a": ', "Expecting value"),
    "no UTF-8": (b'{"a": "\xff"}', "utf-8"),
    "deep lists": ("[" * 100_000 + "]" * 100_000, "nested"),
    "deep dictionaries": ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested"),
    "one level too deep": ("[" * 33 + "]" * 33, "nested deeper than 32 levels"),
    "half of a character": ('{"a": ["b", "\\ud800"]}', r"a\[1\].*half of a character"),
    "half of a character in a name": ('{"x": {"a\\udfff": 1}}', "in x.*half of a character"),
    "an escaped byte": ('{"a": "\\udcff"}', "half of a character"),
    "NUL": ('{"a": "eth0\\u0000"}', "NUL"),
    "NUL in a name": ('{"a\\u0000": 1}', "NUL"),
    "infinite": ('{"a": Infinity}', "Infinity"),
    "less than all": ('{"a": -Infinity}', "-Infinity"),
    "not a number": ('{"a": NaN}', "NaN"),
    "more than a double holds": ('{"a": 1e999}', "1e999"),
    "a fraction of 5,000 digits": (f'{{"a": 0.{"1" * 5000}}}', "5002 digits"),
    "5,000 digits": (f'{{"a": {"9" * 5000}}}', "5000 digits"),
    "65 bits": (f'{{"a": {1 << 64}}}', "a: a number of more than 64 bits"),
    "65 bits below zero": (f'{{"a": {-(1 << 64)}}}', "more than 64 bits"),
    "a name twice": ('{"a": 1, "b": 2, "a": 3}', "'a' is there twice"),
    "too long": ('"' + "x" * strict_json.MOST + '"', "characters"),
}


@pytest.mark.parametrize(("data", "words"), REFUSED.values(), ids=REFUSED)
def test_what_would_break_a_later_step_is_refused_with_the_file_and_the_place(
    data: str | bytes, words: str
) -> None:
    with pytest.raises(StoreError, match=words) as caught:
        strict_json.loads(data, PATH)
    assert str(caught.value).startswith(f"{PATH} is damaged (")
    assert len(str(caught.value)) < 300
    assert str(caught.value).isascii()


def test_bytes_of_the_kernel_are_texts_where_they_are_expected() -> None:
    assert strict_json.loads('"\\udc80\\udcff"', PATH, kernel_bytes=True) == "\udc80\udcff"
    for text in ("\\ud800", "\\udc7f", "\\udd00", "\\udfff", "\\u0000"):
        with pytest.raises(StoreError):
            strict_json.loads(f'"{text}"', PATH, kernel_bytes=True)


@pytest.mark.parametrize("value", [(1 << 64) - 1, -(1 << 63), 1.5, "ä\U0001f600", [], {}, None, True])
def test_all_that_is_sound_is_read(value: Any) -> None:
    assert strict_json.loads(json.dumps({"a": value}), PATH) == {"a": value}


@pytest.mark.parametrize(
    "value",
    [{1.5: 2}, {True: 1}, {1 << 64: 1}, {"a": b"x"}, {"a": {1}}, math.nan, math.inf, "\x00", "\ud800"],
)
def test_a_writer_is_told_what_no_reader_would_take(value: Any) -> None:
    with pytest.raises(ValueError, match=r"the document|^a"):
        strict_json.check(value)


@cases.table
def test_only_the_number_itself_is_the_format(found: Any, words: str) -> None:
    with pytest.raises(StoreError, match=words):
        strict_json.document(json.dumps({"format": found}), PATH, 1)
    assert strict_json.document('{"format": 1}', PATH, 1) == {"format": 1}
    with pytest.raises(StoreError, match="not a document"):
        strict_json.document("[]", PATH, 1)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 80), 1 << 80)
    | st.floats()
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_a_reader_takes_just_what_a_writer_may_write(value: Any) -> None:
    try:
        strict_json.check(value)
        sound = True
    except ValueError:
        sound = False
    text = json.dumps(value)
    if sound:
        assert strict_json.loads(text.encode(), PATH) == value
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    else:
        with pytest.raises(StoreError):
            strict_json.loads(text, PATH)


@given(st.text() | st.binary())
def test_no_input_ends_in_another_error(data: str | bytes) -> None:
    try:
        strict_json.loads(data, PATH)
    except StoreError:
        pass
