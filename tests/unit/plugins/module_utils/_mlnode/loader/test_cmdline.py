# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st
from mlnode.loader import cmdline
from mlnode.loader.cmdline import LOADER_QUOTES, merged, parameter, split


@cases.table
def test_words_are_what_the_kernel_takes_for_one(line: str, words: list[str]) -> None:
    assert [word.text for word in split(line)] == words


def test_a_loader_knows_single_quotes_too() -> None:
    found = split("a='b \" c' d=\"it's one\" e", LOADER_QUOTES)
    assert [word.text for word in found] == ["a='b \" c'", 'd="it\'s one"', "e"]


@cases.table
def test_the_words_of_one_parameter(line: str, name: str, words: tuple[str, ...]) -> None:
    assert parameter(line, name) == words


def test_what_is_not_there_is_shown_as_absent_and_read_back_as_nothing() -> None:
    assert cmdline.shown(()) == "absent"
    assert cmdline.wanted("absent") == ()
    assert cmdline.wanted(cmdline.shown(("console=tty0", "console=ttyS0"))) == (
        "console=tty0",
        "console=ttyS0",
    )


@cases.table
def test_a_merge_changes_the_named_parameters_and_nothing_else(
    lines: list[str], changes: dict[str, list[str]], result: list[str]
) -> None:
    assert merged(lines, changes) == result


_name = st.sampled_from(["quiet", "nohz_full", "nohz-full", "a", "console"])
_plain = st.builds(
    lambda name, value: f"{name}={value}" if value else name, _name, st.sampled_from(["", "1", "2-3"])
)
_other = st.sampled_from(["ro", 'x="a quiet b"', '"a-b=c d"', "quieter", "root=UUID=1", "a.b=1", "--x"])
_line = st.tuples(st.lists(st.one_of(_plain, _other), max_size=6), st.sampled_from([" ", "  ", "\t"])).map(
    lambda two: two[1].join(two[0])
)
_changes = st.dictionaries(
    st.sampled_from(["quiet", "nohz_full", "a"]),
    st.lists(st.sampled_from(["1", "2-3", "x"]), max_size=2),
    max_size=3,
).map(lambda found: {name: [f"{name}={value}" for value in given] for name, given in found.items()})


@quick
@given(st.lists(_line, min_size=1, max_size=3), _changes)
def test_after_a_merge_every_parameter_is_as_wanted_and_all_others_are_as_before(
    lines: list[str], changes: dict[str, list[str]]
) -> None:
    keys = {cmdline.key_of(name) for name in changes}
    result = merged(lines, changes)
    for name, words in changes.items():
        assert [word for line in result for word in parameter(line, name)] == words

    def others(some: list[str]) -> list[str]:
        return [word.text for line in some for word in split(line) if word.key not in keys]

    assert others(result) == others(lines)
    assert merged(result, changes) == result


@quick
@given(st.text(max_size=40), st.sampled_from(['"', LOADER_QUOTES]))
def test_no_line_is_too_strange(line: str, quotes: str) -> None:
    for word in split(line, quotes):
        assert line[word.start : word.end] == word.text
    assert parameter(merged([line], {"a": ["a=1"]}, quotes)[0], "a", quotes) == ("a=1",)
