# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report.names import few, folded, natural
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given, strategies


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], []),
        (["gpu001"], ["gpu001"]),
        (["gpu2", "gpu1"], ["gpu1", "gpu2"]),
        (["gpu001", "gpu002", "gpu003", "gpu003"], ["gpu[001:003]"]),
        (["gpu9", "gpu10", "gpu8"], ["gpu8", "gpu9", "gpu10"]),
        (["gpu08", "gpu09", "gpu10", "gpu12"], ["gpu[08:10]", "gpu12"]),
        (["gpu1.a", "gpu2.a", "gpu3.a", "gpu1.b"], ["gpu[1:3].a", "gpu1.b"]),
        (["r1n1", "r1n2", "r1n3", "r2n1"], ["r1n[1:3]", "r2n1"]),
        (["10.0.0.1", "10.0.0.2", "10.0.0.3"], ["10.0.0.[1:3]"]),
        (["gpu1.hall2", "gpu2.hall2", "gpu3.hall2", "gpu3.hall1"], ["gpu3.hall1", "gpu[1:3].hall2"]),
        (["n٣", "n٤", "n٥"], ["n٣", "n٤", "n٥"]),
        (["x" + "1" * 5000, "x" + "1" * 4999 + "2"], ["x" + "1" * 5000, "x" + "1" * 4999 + "2"]),
    ],
)
def test_runs_of_numbers_are_one_word(names: list[str], words: list[str]) -> None:
    assert sorted(run.text for run in folded(names)) == sorted(words)


def test_names_are_in_the_order_in_which_one_counts() -> None:
    assert sorted(["gpu10", "gpu9", "gpu1", "a"], key=natural) == ["a", "gpu1", "gpu9", "gpu10"]


def test_how_many_are_left_out_counts_hosts_and_not_words() -> None:
    names = [f"gpu{at:03d}" for at in range(1, 101)] + ["login", "store"]

    assert few(names, 2) == "gpu[001:100], login and 1 more"
    assert few(names, 3) == "gpu[001:100], login, store"
    assert few(["a[1:9]", "b", "c"], 1) == "a[1:9] and 2 more"


names = strategies.one_of(
    strategies.from_regex(r"\A[a-c]{0,2}[0-9]{1,3}(\.x|)\Z"), strategies.text(max_size=6)
)


def unfolded(words: list[str], known: set[str]) -> set[str]:
    found = set()
    for word in words:
        match = None if word in known else re.search(r"\[([0-9]+):([0-9]+)\]", word)
        if match is None:
            found.add(word)
            continue
        first, last = match.groups()
        for number in range(int(first), int(last) + 1):
            found.add(word.replace(match[0], str(number).zfill(len(first)), 1))
    return found


@quick
@given(strategies.lists(names, max_size=30))
def test_folding_loses_and_adds_nobody(given: list[str]) -> None:
    assert unfolded([run.text for run in folded(given)], {*given}) == {*given}


@quick
@given(strategies.lists(names, max_size=30), strategies.integers(1, 5))
def test_few_words_are_few(given: list[str], most: int) -> None:
    told = few(given, most)

    assert isinstance(told, str)
    if len(folded(given)) > most:
        assert re.search(r" and [0-9]+ more\Z", told)
