# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ranks differ in one value, against the definition counted in another way; and names of ranks."""

from __future__ import annotations

from fractions import Fraction

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.jobs import names, odd
from ansible_collections.mlnode.tuning.plugins.plugin_utils.jobs.model import Rank
from ansible_collections.mlnode.tuning.plugins.plugin_utils.jobs.odd import ABSENT
from ansible_collections.mlnode.tuning.tests.unit.effort import examples
from hypothesis import given
from hypothesis import strategies as st


def rank(number: int | None, node: str = "n", local: int | None = None, pid: int = 1) -> Rank:
    return Rank(node, 0, (pid,), number, None, local, {}, {})


#: Value of a rank; ABSENT: it has none; None: it is unknown
VALUES = st.lists(st.sampled_from(["a", "a", "a", "a", "a", "b", "c", ABSENT, None]), min_size=1, max_size=40)


@examples(300)
@given(VALUES, st.integers(min_value=1, max_value=8))
def test_a_majority_of_two_thirds_makes_the_others_odd(values: list[str | None], per_node: int) -> None:
    ranks = [rank(at, f"n{at // per_node}") for at in range(len(values))]
    texts = {at: text for at, text in enumerate(values) if text not in (None, ABSENT)}
    unknown = frozenset(at for at, text in enumerate(values) if text is None)

    result = odd.compare("x", ranks, texts, unknown)

    known = [text for text in values if text is not None]
    majority = [text for text in {*known} if Fraction(known.count(text), len(known)) >= Fraction(2, 3)]
    if isinstance(result, list):
        found = {at: item for item in result for at in item.ranks}
        assert len(majority) == 1 or not texts
        assert {*found} == {at for at, text in enumerate(values) if text not in (None, *majority)}
        assert all((item.others, item.of) == (majority[0], known.count(majority[0])) for item in result)
        assert all(values[at] == item.text for at, item in found.items())
    else:
        assert len({*known}) > 1
        assert majority == []
    if isinstance(result, odd.Groups):
        groups = {text: [*members] for text, members in result.groups}
        assert groups == {text: [at for at, one in enumerate(values) if one == text] for text in {*known}}


@examples(200)
@given(st.sets(st.integers(min_value=0, max_value=60)))
def test_runs_are_the_numbers(numbers: set[int]) -> None:
    runs = names.runs(numbers)
    assert {number for first, last in runs for number in range(first, last + 1)} == numbers
    assert all(second[0] > first[1] + 1 for first, second in zip(runs, runs[1:]))


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ([rank(37, "gpu019")], "rank 37 on gpu019"),
        ([rank(at, "gpu002") for at in range(8, 16)], "ranks 8-15 on gpu002"),
        ([rank(9, "gpu010"), rank(1, "gpu9")], "rank 1 on gpu9, rank 9 on gpu010"),
        ([rank(None, "a", pid=42)], "pid 42 on a"),
        ([rank(None, "a", pid=42), rank(3, "a"), rank(None, "a", pid=7)], "rank 3 and pids 7, 42 on a"),
        ([rank(at, f"n{at // 8}") for at in range(64)], "ranks 0-63 on n[0:7]"),
        (
            [rank(8 * at + 5, f"gpu{at:03d}") for at in range(64)],
            "ranks 5, 13, 21, 29, 37, 45 and 58 more on gpu[000:063]",
        ),
        ([rank(3, "a"), rank(3, "a")], "rank 3 on a"),
    ],
)
def test_ranks_in_words(ranks: list[Rank], words: str) -> None:
    assert names.who(ranks) == words


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("limit memlock hard", "8388608", "8 MiB"),
        ("limit memlock hard", "unlimited", "unlimited"),
        ("limit nofile hard", "1048576", "1048576"),
        ("shm size", "67108864", "64 MiB"),
        ("memory limit", "540000000000", "502.9 GiB"),
        ("memory limit", "1023", "1023 B"),
        ("memory limit", "9" * 30, "9" * 30),
        ("memory numa nodes", "2", "2"),
        ("memory swappiness", "60", "60"),
        ("hugetlb 2MB limit", "2097152", "2 MiB"),
        ("env X", "", '""'),
    ],
)
def test_amounts_in_words(name: str, text: str, words: str) -> None:
    assert names.amount(name, text) == words


@pytest.mark.parametrize(
    ("name", "texts", "words"),
    [
        ("shm size", ("67108864", "540000000000"), ["64 MiB", "502.9 GiB"]),
        ("limit memlock hard", ("68719476735", "68719476736"), ["68719476735", "68719476736"]),
        ("env X", ("a" * 200, "b"), [f"{'a' * 97}...", "b"]),
        (
            "nccl NCCL_TOPO_FILE",
            (f"/{'d' * 200}/node7.xml", f"/{'d' * 200}/node12.xml"),
            [f"...{'d' * 15}/node7.xml", f"...{'d' * 15}/node12.xml"],
        ),
        ("env X", ("x" * 150, "x" * 151), [f"...{'x' * 20}", f"...{'x' * 21}"]),
        (
            "env X",
            ("y" * 200 + "1", "z", "y" * 200 + "2"),
            [f"...{'y' * 20}1", "z", f"...{'y' * 20}2"],
        ),
    ],
)
def test_different_values_look_different(name: str, texts: tuple[str, ...], words: list[str]) -> None:
    assert names.told_apart(name, texts) == words
