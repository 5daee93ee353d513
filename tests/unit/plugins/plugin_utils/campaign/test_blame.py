# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from itertools import combinations

from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign.blame import (
    Certainty,
    Pair,
    State,
    blame,
)
from mlnode.checks.model import Verdict

GOOD, LOW, UNKNOWN = State.GOOD, State.LOW, State.UNKNOWN


def pairs(names: str, **states: State) -> list[Pair[str]]:
    """All pairs of these nodes, good unless something else is given: ab=LOW, a=LOW for all of a."""
    found = []
    for one, other in combinations(names, 2):
        state = states.get(one + other) or states.get(one) or states.get(other) or GOOD
        found.append(Pair(one, other, state))
    return found


def verdicts(names: str, **states: State) -> dict[str, str]:
    return {end: str(found.verdict) for end, found in blame(names, pairs(names, **states)).ends.items()}


def test_one_that_is_low_with_all_is_slow_and_its_partners_are_not() -> None:
    result = blame("abcd", pairs("abcd", a=LOW))

    assert result.slow == ["a"]
    assert {str(result.ends[one].verdict) for one in "bcd"} == {"pass"}
    assert not result.paths
    assert result.ends["a"].certainty is Certainty.PROBABLE


def test_a_partner_of_two_slow_nodes_is_not_a_third() -> None:
    assert verdicts("abcd", a=LOW, b=LOW) == {"a": "fail", "b": "fail", "c": "pass", "d": "pass"}


def test_a_low_pair_of_good_nodes_is_a_path() -> None:
    result = blame("abcdef", pairs("abcdef", ab=LOW))

    assert not result.slow
    assert result.paths == {("a", "b"): Certainty.PROBABLE}


def test_of_two_nodes_it_is_not_known_which() -> None:
    result = blame("ab", pairs("ab", ab=LOW))

    assert {str(one.verdict) for one in result.ends.values()} == {"unknown"}
    assert [*result.paths] == [("a", "b")]


def test_low_with_exactly_half_is_slow() -> None:
    assert verdicts("abcde", ab=LOW, ac=LOW)["a"] == "fail"


def test_a_node_of_which_half_is_missing_is_unknown_though_the_rest_is_good() -> None:
    assert verdicts("abcde", ab=UNKNOWN, ac=UNKNOWN)["a"] == "unknown"
    assert verdicts("abcdef", ab=UNKNOWN, ac=UNKNOWN)["a"] == "pass"


def test_a_node_without_a_pair_is_unknown() -> None:
    assert str(blame(["a"], []).ends["a"].verdict) == "unknown"


def test_missing_and_low_together_are_no_pass() -> None:
    assert verdicts("abcde", ab=UNKNOWN, ac=LOW)["a"] == "unknown"


def test_a_node_that_was_spoilt_by_a_slow_partner_alone_is_unknown() -> None:
    measured = [Pair("a", "b", LOW), Pair("a", "c", LOW), Pair("a", "d", LOW)]

    result = blame("abcd", measured)

    assert result.slow == ["a"]
    assert {str(result.ends[one].verdict) for one in "bcd"} == {"unknown"}


def test_low_again_with_good_ones_is_certain() -> None:
    again = [Pair("a", "x", LOW), Pair("a", "y", LOW), Pair("a", "z", GOOD)]

    found = blame("abcdxyz", pairs("abcdxyz", a=LOW), again).ends["a"]

    assert (found.verdict, found.certainty) == (Verdict.FAIL, Certainty.CERTAIN)


def test_one_witness_is_not_enough() -> None:
    found = blame("abcd", pairs("abcd", a=LOW), [Pair("a", "x", LOW), Pair("a", "y", UNKNOWN)]).ends["a"]

    assert found.certainty is Certainty.PROBABLE


def test_not_low_again_is_a_warning_and_the_pairs_become_paths() -> None:
    again = [Pair("a", "x", GOOD), Pair("a", "y", GOOD)]

    result = blame("abcdxy", pairs("abcdxy", ab=LOW, ac=LOW, ad=LOW), again)

    assert (result.ends["a"].verdict, result.ends["a"].certainty) == (Verdict.WARN, Certainty.CLEARED)
    assert not result.slow
    assert {*result.paths} == {("a", "b"), ("a", "c"), ("a", "d")}


def test_a_path_is_certain_when_it_is_low_again_and_a_warning_when_it_is_not() -> None:
    measured = pairs("abcdefgh", ab=LOW, cd=LOW, ef=LOW)

    result = blame("abcdefgh", measured, [Pair("b", "a", LOW), Pair("c", "d", GOOD), Pair("e", "f", UNKNOWN)])

    assert result.paths == {
        ("a", "b"): Certainty.CERTAIN,
        ("c", "d"): Certainty.CLEARED,
        ("e", "f"): Certainty.PROBABLE,
    }
