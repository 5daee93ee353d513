# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Sequence

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign import plan, schedule
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.work import is_linear


@pytest.mark.parametrize("nodes", [*range(2, 24), 63, 64])
def test_all_meet_once_and_no_node_is_in_two_pairs_of_a_round(nodes: int) -> None:
    made = plan.round_robin(nodes, None)
    rounds = [[*made.pairs(number)] for number in range(made.rounds)]

    for pairs in rounds:
        assert len({node for pair in pairs for node in pair}) == 2 * len(pairs) == nodes // 2 * 2
    met = Counter(pair for pairs in rounds for pair in pairs)
    assert len(met) == nodes * (nodes - 1) // 2
    assert {*met.values()} == {1}


Leaves = dict[str, str]


def fleet(*sizes: int, unknown: int = 0) -> Leaves:
    """Leaves with so many nodes each, and nodes of which no leaf is known."""
    known = {f"leaf{leaf}-{node}": f"leaf{leaf}" for leaf, size in enumerate(sizes) for node in range(size)}
    return {**known, **{f"node{number}": "" for number in range(unknown)}}


FLEETS = {
    "two nodes": fleet(unknown=2),
    "odd": fleet(unknown=5),
    "no leaf": fleet(unknown=40),
    "one leaf": fleet(40),
    "even": fleet(8, 8, 8, 8),
    "odd leaves": fleet(7, 5, 3, 9),
    "leaves of one node": fleet(*[1] * 24),
    "some leaves of one node": fleet(1, 12, 1, 12, 1),
    "one large": fleet(2, 60),
    "some unknown": fleet(9, 9, unknown=13),
}


def inside(leaves: Leaves, pair: tuple[str, str]) -> bool:
    return bool(leaves[pair[0]]) and leaves[pair[0]] == leaves[pair[1]]


@pytest.mark.parametrize("rounds", [1, 3, 4, 8, 12, None])
@pytest.mark.parametrize("leaves", FLEETS.values(), ids=[*FLEETS])
def test_no_pair_is_measured_twice_and_no_node_is_in_two_of_a_round(
    leaves: Leaves, rounds: int | None
) -> None:
    planned = plan.rounds_of(leaves, rounds)

    for pairs in planned:
        names = [name for pair in pairs for name in pair]
        assert len(names) == len({*names})
    met = Counter(frozenset(pair) for pairs in planned for pair in pairs)
    assert {*met.values()} == {1}
    # Nobody is left out, if two rounds give a node that rests in one of them another one.
    if rounds is None or rounds > 1:
        assert frozenset().union(*met) == leaves.keys()


@pytest.mark.parametrize("leaves", FLEETS.values(), ids=[*FLEETS])
def test_with_as_many_rounds_as_there_are_all_have_met(leaves: Leaves) -> None:
    turns = len(leaves) - 1 if len(leaves) % 2 == 0 else len(leaves)
    everyone = len(leaves) * (len(leaves) - 1) // 2

    for rounds in (turns, turns + 5, None):
        planned = plan.rounds_of(leaves, rounds)
        assert len(planned) == turns
        assert sum(map(len, planned)) == everyone


@pytest.mark.parametrize(("rounds", "expected"), [(3, 0), (4, 1), (8, 2), (12, 3)])
def test_a_quarter_of_the_rounds_is_inside_of_leaves(rounds: int, expected: int) -> None:
    leaves = fleet(8, 8, 8, 8)

    planned = plan.rounds_of(leaves, rounds)

    assert [all(inside(leaves, pair) for pair in pairs) for pairs in planned] == [
        number < expected for number in range(rounds)
    ]
    for pairs in planned[:expected]:
        assert len(pairs) == 16


@pytest.mark.parametrize("name", ["no leaf", "one leaf", "leaves of one node"])
def test_without_two_leaves_of_two_nodes_no_round_is_inside_of_leaves(name: str) -> None:
    made = plan.round_robin(len(FLEETS[name]), 8)
    names = plan.ordered(FLEETS[name])

    for number, pairs in enumerate(plan.rounds_of(FLEETS[name], 8)):
        circle = {frozenset((names[one], names[other])) for one, other in made.pairs(number)}
        assert {frozenset(pair) for pair in pairs} == circle


def test_nodes_of_unknown_leaves_rest_while_leaves_measure_inside() -> None:
    leaves = FLEETS["some unknown"]

    planned = plan.rounds_of(leaves, 8)

    for pairs in planned[:2]:
        assert {leaves[name] for pair in pairs for name in pair} == {"leaf0", "leaf1"}
    partners = Counter(name for pairs in planned for pair in pairs for name in pair)
    # Six rounds are for all, in one of which a node of 31 rests; a pair that has met inside does not again.
    assert min(partners.values()) >= 4


@pytest.mark.parametrize("leaves", FLEETS.values(), ids=[*FLEETS])
def test_the_same_seed_makes_the_same_plan_and_another_one_another(leaves: Leaves) -> None:
    first, same, other = (plan.rounds_of(leaves, 4, seed) for seed in (0, 0, 1))

    assert first == same
    if len(leaves) > 6:
        assert first != other


def test_each_node_serves_about_as_often_as_it_measures() -> None:
    leaves = fleet(16, 16, 16, 16)

    serves = Counter(pair[0] for pairs in plan.rounds_of(leaves, 12) for pair in pairs)

    assert {*serves} == {*leaves}
    assert max(serves.values()) <= 11


def test_some_rounds_are_different_ones_and_another_seed_has_others() -> None:
    turns = [[plan.round_robin(200, 8, seed).turn(number) for number in range(8)] for seed in (0, 1)]

    assert all(len({*some}) == 8 for some in turns)
    assert turns[0] != turns[1]


def test_each_node_more_is_the_same_work_and_4096_take_less_than_a_megabyte() -> None:
    def count(nodes: int) -> int:
        made = plan.round_robin(nodes, 8)
        return sum(1 for number in range(8) for _pair in made.pairs(number))

    assert is_linear((256, 512, 1024), count)
    tracemalloc.start()
    assert count(4096) == 8 * 2048
    _now, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 1 << 20


def test_the_peers_of_each_node_are_spread_over_the_leaves() -> None:
    leaves = {f"gpu{number:03}": f"leaf{number % 8}" for number in range(256)}
    names = plan.ordered(leaves)
    made = plan.round_robin(256, 16)

    assert [leaves[name] for name in names] == sorted(leaves.values())
    for node in range(256):
        peers = [made.peer(node, number) for number in range(16)]
        seen = Counter(leaves[names[peer]] for peer in peers if peer is not None)
        # Two of 16 in each of 8 leaves; a part of the circle may lie across the border of two.
        assert max(seen.values()) <= 5
        assert len(seen) >= 6


def test_leaves_and_names_are_sorted_by_their_numbers() -> None:
    assert plan.ordered({"n10": "leaf2", "n9": "leaf10", "n2": "leaf2"}) == ["n2", "n10", "n9"]


@pytest.mark.parametrize(("nodes", "rounds"), [(1, 8), (0, None), (4, 0), (4, -1)])
def test_what_is_no_tournament_is_refused(nodes: int, rounds: int | None) -> None:
    with pytest.raises(ValueError, match=str(min(nodes, rounds if rounds is not None else nodes))):
        plan.round_robin(nodes, rounds)


def asked(
    suspects: Sequence[str], pairs: Sequence[plan.Pair], good: Sequence[str], met: Sequence[plan.Pair]
) -> plan.Again:
    return plan.Again(suspects, pairs, good, met, {})


def test_a_second_look_has_each_node_in_one_pair_of_a_round() -> None:
    good = [f"good{number}" for number in range(20)]
    paths = [("good1", "good2"), ("good1", "good3")]
    met = [("slow1", "good0"), ("slow1", "good1")]

    rounds = plan.again(asked(["slow1", "slow2"], paths, good, met), 8)

    pairs = [pair for some in rounds for pair in some]
    for some in rounds:
        names = [name for pair in some for name in pair]
        assert len(names) == len({*names})
    assert {*paths} <= {*pairs}
    assert not {*met} & {*pairs}
    assert Counter(name for name, _other in pairs if name.startswith("slow")) == {"slow1": 3, "slow2": 3}


def test_one_witness_is_on_the_leaf_of_the_suspect() -> None:
    """A slow leaf is low with all others as well."""
    leaf = {"slow": "1", "near": "1", **{f"far{number}": "2" for number in range(5)}}
    good = [name for name in leaf if name != "slow"]

    [*rounds] = plan.again(plan.Again(["slow"], [], good[1:] + good[:1], [], leaf), 8)

    partners = [other for some in rounds for _one, other in some]
    assert len(partners) == 3
    assert partners.count("near") == 1


def test_where_all_were_met_the_same_good_nodes_are_met_again() -> None:
    rounds = plan.again(asked(["slow"], [], ["a", "b"], [("slow", "a"), ("b", "slow")]), 8)

    assert sorted(pair for some in rounds for pair in some) == [("slow", "a"), ("slow", "b")]


def test_what_does_not_fit_into_the_rounds_is_left_out() -> None:
    assert len(plan.again(asked([], [("hub", f"n{number}") for number in range(9)], [], []), 4)) == 4


def test_slots_of_a_plan_name_own_address_first_and_the_rails_that_both_have() -> None:
    nodes = schedule.nodes({"a": ["10.0.0.1", "10.1.0.1"], "b": ["10.0.0.2"]}, {"a": "leaf1"})

    made = schedule.document(nodes, "tcp", None, 0, 4)

    assert made["rounds"] == 1
    assert made["slots"] == {
        "b": [{"round": 0, "peer": "a", "serves": True, "rails": [["10.0.0.2", "10.0.0.1"]]}],
        "a": [{"round": 0, "peer": "b", "serves": False, "rails": [["10.0.0.1", "10.0.0.2"]]}],
    }


@pytest.mark.parametrize(("kind", "rounds"), [("tcp", 8), ("rdma_bw", 8), ("rdma_lat", 8), ("gpudirect", 3)])
def test_rounds_of_232_nodes_with_eight_rails_take_less_than_three_minutes(kind: str, rounds: int) -> None:
    addresses = {f"gpu{at}": [f"10.{rail}.0.{at}" for rail in range(8)] for at in range(1, 233)}

    made = schedule.document(schedule.nodes(addresses, {}, kind=kind), kind, rounds, 0, 4)

    assert {len(slots) for slots in made["slots"].values()} == {rounds}
    assert {len(slot["rails"]) for slots in made["slots"].values() for slot in slots} == {8}
    assert made["rounds"] * made["round_seconds"] <= 180


@cases.table
def test_addresses_that_cannot_be_measured_are_refused(addresses: object, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("?", r"\?")):
        schedule.nodes(addresses, {})
