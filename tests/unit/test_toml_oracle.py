# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of TOML for nodes beside the one of Python 3.11: the same values, and the same texts refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tomllib
from hypothesis import given
from hypothesis import strategies as st
from mlnode.linux import toml

_NAMES = st.sampled_from(["a", "b-1", '"c d"', "'e.f'", "g.h"])
_TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=8)


def _basic(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


_SCALARS = st.one_of(
    _TEXTS.map(_basic),
    _TEXTS.filter(lambda text: "'" not in text).map(lambda text: f"'{text}'"),
    st.text("ab\"'\\# \n", max_size=8).map(lambda text: f'"""\n{text}"""'),
    st.text("ab\"'\\# \n", max_size=8).map(lambda text: f"'''{text}'''"),
    st.sampled_from(["1", "-0.5", "true", "1979-05-27", r'"\u00e9\t\U0001F600"', r'"\x"', '"a\nb"']),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda values: "[ # c\n" + ",\n ".join(values) + "]"),
        st.dictionaries(_NAMES, inner, max_size=2).map(
            lambda pairs: "{" + ", ".join(f"{name} = {value}" for name, value in pairs.items()) + "}"
        ),
    ),
    max_leaves=4,
)


def _flat(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(inner, (*path, name))
    else:
        yield path, value


def _texts(value: Any) -> Any:
    """Texts of a value; of numbers and dates the own reader has only the spelling."""
    if isinstance(value, list):
        return [_texts(item) for item in value]
    if isinstance(value, dict):
        return {name: _texts(item) for name, item in value.items()}
    return value if isinstance(value, str) and not isinstance(value, toml.Word) else "-"


@given(st.dictionaries(_NAMES, _VALUES, max_size=3), st.sampled_from(["", "[t]\n", "[t.'u v'] # c\n"]))
def test_both_readers_agree(pairs: dict[str, str], head: str) -> None:
    text = head + "".join(f"{name} = {value}\n" for name, value in pairs.items())
    try:
        expected = sorted((path, _texts(value)) for path, value in _flat(tomllib.loads(text)))
    except tomllib.TOMLDecodeError:
        expected = None
    try:
        own = sorted((entry.path, _texts(entry.value)) for entry in toml.entries(text))
    except ValueError:
        own = None
    assert own == expected


_PATHS = st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map(".".join)
_LINES = st.one_of(
    _PATHS.map(lambda path: f"{path} = 1\n"),
    _PATHS.map(lambda path: f"{path} = {{b = 1}}\n"),
    _PATHS.map(lambda path: f"[{path}]\n"),
    _PATHS.map(lambda path: f"[[{path}]]\n"),
)


@given(st.lists(_LINES, max_size=6))
def test_both_readers_refuse_a_second_definition(lines: list[str]) -> None:
    text = "".join(lines)
    try:
        tomllib.loads(text)
        expected = True
    except tomllib.TOMLDecodeError:
        expected = False
    try:
        list(toml.entries(text))
        own = True
    except ValueError:
        own = False
    assert own == expected
