# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is named of groups in which it is known which nodes and paths are slow, and in how many runs."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.model import Verdict
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign.blame import Certainty, State
from ansible_collections.mlnode.tuning.plugins.plugin_utils.nccl_tests import bisect
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given, strategies

Path = frozenset[str]


class Fleet:
    """Measures what is asked for until nothing is."""

    def __init__(
        self, number: int, slow: Collection[int] = (), paths: Collection[Collection[int]] = ()
    ) -> None:
        self.nodes = [f"n{one:03}" for one in range(number)]
        self.slow = {self.nodes[one] for one in slow}
        self.paths = [frozenset(self.nodes[one] for one in path) for path in paths]
        self.states: dict[tuple[str, ...], State] = {}
        wanted: tuple[tuple[str, ...], ...] = (tuple(self.nodes),)
        while wanted:
            for group in wanted:
                assert group not in self.states
                self.states[group] = self.measure(group)
            self.found = bisect.search(self.nodes, self.states)
            wanted = self.found.wanted

    def measure(self, group: tuple[str, ...]) -> State:
        low = self.slow & {*group} or any(path <= {*group} for path in self.paths)
        return State.LOW if low else State.GOOD

    @property
    def named(self) -> set[str]:
        return {*self.found.blame.slow}

    @property
    def named_paths(self) -> set[Path]:
        return {frozenset(path) for path in self.found.blame.paths}


def test_a_good_group_is_measured_once() -> None:
    fleet = Fleet(16)

    assert len(fleet.states) == 1
    assert not fleet.named
    assert not fleet.named_paths


@given(strategies.integers(4, 130), strategies.data())
@quick
def test_one_slow_node_is_named_for_certain(number: int, data: strategies.DataObject) -> None:
    slow = data.draw(strategies.integers(0, number - 1))
    fleet = Fleet(number, [slow])

    assert fleet.named == fleet.slow
    assert not fleet.named_paths
    found = fleet.found.blame.ends[fleet.nodes[slow]]
    assert (found.verdict, found.certainty) == (Verdict.FAIL, Certainty.CERTAIN)
    # Two for each time that it is halved, and the pairs of the last ones
    assert len(fleet.states) <= 2 * number.bit_length() + 10


@given(strategies.integers(4, 66), strategies.data())
@quick
def test_a_slow_path_is_told_from_its_nodes(number: int, data: strategies.DataObject) -> None:
    ends = data.draw(strategies.sets(strategies.integers(0, number - 1), min_size=2, max_size=2))
    fleet = Fleet(number, paths=[ends])

    assert not fleet.named
    assert fleet.named_paths == {*fleet.paths}
    assert len(fleet.states) <= 6 * number.bit_length() + 10


@pytest.mark.parametrize("slow", [(0, 1), (0, 63), (5, 6, 40)])
def test_several_slow_nodes_are_named(slow: tuple[int, ...]) -> None:
    assert Fleet(64, slow).named == Fleet(64, slow).slow


@pytest.mark.parametrize("number", [2, 3])
def test_two_nodes_that_are_low_together_blame_none(number: int) -> None:
    fleet = Fleet(number, range(number))

    assert not fleet.named_paths
    assert all(one.certainty is not Certainty.CERTAIN for one in fleet.found.blame.ends.values())


def test_where_all_are_low_it_ends_early() -> None:
    fleet = Fleet(64, range(64))

    assert len(fleet.states) == 7
    assert not fleet.named
    assert not fleet.named_paths


def test_a_group_without_a_result_is_not_measured_again() -> None:
    nodes = ["a", "b", "c", "d"]
    states = {("a", "b", "c", "d"): State.LOW, ("a", "b"): State.UNKNOWN, ("c", "d"): State.GOOD}

    assert not bisect.search(nodes, states).wanted


def test_what_is_slow_only_as_a_whole_is_said() -> None:
    fleet = Fleet(8, paths=[range(8)])

    assert fleet.found.rest == (tuple(fleet.nodes),)
    assert not fleet.named
