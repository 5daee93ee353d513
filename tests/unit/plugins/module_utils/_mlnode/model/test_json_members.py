# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file of JSON that people write: Python's own reader is the oracle."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlnode.model import json_members as members

_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=4,
)
_NAMES = st.sampled_from(["a", "b", 'c"d', "{", ","])
_FILES = st.dictionaries(_NAMES, _VALUES, max_size=4)


@given(_FILES, st.dictionaries(_NAMES, _VALUES, max_size=3), st.sampled_from([None, 0, 4, "\t"]))
def test_only_the_changed_members_differ(
    before: dict[str, Any], changes: dict[str, Any], indent: Any
) -> None:
    text = json.dumps(before, indent=indent)
    after = members.changed(text, changes)
    expected = {
        name: value for name, value in {**before, **changes}.items() if changes.get(name, "") is not None
    }
    assert json.loads(after) == expected
    assert {name: member.value for name, member in members.read(after).items()} == expected
    assert members.changed(after, changes) == after
    kept = [member for name, member in members.read(text).items() if name not in changes]
    assert [text[one.start : one.end] in after for one in kept] == [True] * len(kept)


@given(_FILES, _NAMES, _VALUES.filter(lambda value: value is not None))
def test_a_new_member_goes_without_a_trace(before: dict[str, Any], name: str, value: Any) -> None:
    before.pop(name, None)
    text = json.dumps(before or {"z": 1}, indent=2)
    assert members.changed(members.changed(text, {name: value}), {name: None}) == text


@given(st.text('{}[]":,a1 \n\\', max_size=20))
def test_what_json_refuses_is_refused(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        expected = {} if not text.strip() else None
    if isinstance(expected, dict):
        return
    with pytest.raises(ValueError, match=r"."):
        members.read(text)


@pytest.mark.parametrize("text", ["", " \n", "{}", "{ }\n"])
def test_the_first_member(text: str) -> None:
    assert members.changed(text, {"a": "1g"}) == '{\n  "a": "1g"\n}\n'
    assert members.read(members.changed('{"a": 1}', {"a": None})) == {}


@pytest.mark.parametrize(
    ("saved", "wrote", "now", "after"),
    [
        # Whatever others have done to the rest, the result is JSON.
        ('{"d": 1}', '{"s": "2g", "d": 1}', '{"s": "2g"}', "{}"),
        ('{"d": 1}', '{"s": "2g", "d": 1}', '{"d": 1, "e": 2, "s": "2g"}', '{"d": 1, "e": 2}'),
        ('{"s": "1g"}', '{"s": "2g"}', '{"s": "2g", "e": 2}', '{"s": "1g", "e": 2}'),
        # Their value stays.
        ("{}", '{"s": "2g"}', '{"s": "3g"}', '{"s": "3g"}'),
        ("", '{"u": {"a": 1}}', '{"u": {"a": 1, "b": 2}}', '{"u": {"b": 2}}'),
        ('{"u": {"a": 0, "c": 3}}', '{"u": {"a": 1, "c": 3}}', '{"u": {"a": 1}}', '{"u": {"a": 0}}'),
        ("{}", '{"u": {"a": {"n": 1}}}', '{"u": {"a": {"n": 2}}}', '{"u": {"a": {"n": 2}}}'),
        ('{"u": {}}', '{"u": {"a": 1}}', '{"u": {"a": 1}, "e": 1}', '{"u": {}, "e": 1}'),
    ],
)
def test_only_what_was_written_goes(saved: str, wrote: str, now: str, after: str) -> None:
    assert members.undone(saved, [wrote], now) == after
