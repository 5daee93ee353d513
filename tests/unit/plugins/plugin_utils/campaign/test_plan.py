# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import time
import tracemalloc
from collections import Counter

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign import plan, schedule


@pytest.mark.parametrize("nodes", [*range(2, 24), 63, 64])
def test_all_meet_once_and_no_node_is_in_two_pairs_of_a_round(nodes: int) -> None:
    made = plan.of(nodes, None)
    rounds = [[*made.pairs(number)] for number in range(made.rounds)]

    for pairs in rounds:
        assert len({node for pair in pairs for node in pair}) == 2 * len(pairs) == nodes // 2 * 2
    met = Counter(pair for pairs in rounds for pair in pairs)
    assert len(met) == nodes * (nodes - 1) // 2
    assert {*met.values()} == {1}


@pytest.mark.parametrize("nodes", [2, 5, 20, 101])
def test_both_of_a_pair_agree_who_serves(nodes: int) -> None:
    made = plan.of(nodes, 6)
    for number in range(made.rounds):
        for node in range(nodes):
            peer = made.peer(node, number)
            if peer is not None:
                assert made.peer(peer, number) == node
                assert made.serves(node, peer, number) != made.serves(peer, node, number)


def test_some_rounds_are_different_ones_and_another_seed_has_others() -> None:
    turns = [[plan.of(200, 8, seed).turn(number) for number in range(8)] for seed in (0, 1)]

    assert all(len({*some}) == 8 for some in turns)
    assert turns[0] != turns[1]


def test_4096_nodes_take_less_than_a_second_and_a_megabyte() -> None:
    def count() -> int:
        made = plan.of(4096, 8)
        return sum(1 for number in range(8) for _pair in made.pairs(number))

    begin = time.process_time()
    assert count() == 8 * 2048
    seconds = time.process_time() - begin
    # Which takes several times as long
    tracemalloc.start()
    count()
    _now, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert seconds < 1
    assert most < 1 << 20


def test_the_peers_of_each_node_are_spread_over_the_leaves() -> None:
    leaves = {f"gpu{number:03}": f"leaf{number % 8}" for number in range(256)}
    names = plan.ordered(leaves)
    made = plan.of(256, 16)

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
        plan.of(nodes, rounds)


def test_a_second_look_has_each_node_in_one_pair_of_a_round() -> None:
    good = [f"good{number}" for number in range(20)]
    paths = [("good1", "good2"), ("good1", "good3")]
    met = [("slow1", "good0"), ("slow1", "good1")]

    rounds = plan.again(["slow1", "slow2"], paths, good, met, 8)

    pairs = [pair for some in rounds for pair in some]
    for some in rounds:
        names = [name for pair in some for name in pair]
        assert len(names) == len({*names})
    assert {*paths} <= {*pairs}
    assert not {*met} & {*pairs}
    assert Counter(name for name, _other in pairs if name.startswith("slow")) == {"slow1": 3, "slow2": 3}


def test_where_all_were_met_the_same_good_nodes_are_met_again() -> None:
    rounds = plan.again(["slow"], [], ["a", "b"], [("slow", "a"), ("b", "slow")], 8)

    assert sorted(pair for some in rounds for pair in some) == [("slow", "a"), ("slow", "b")]


def test_what_does_not_fit_into_the_rounds_is_left_out() -> None:
    assert len(plan.again([], [("hub", f"n{number}") for number in range(9)], [], [], 4)) == 4


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


@pytest.mark.parametrize(
    ("addresses", "said"),
    [
        ([], "dictionary"),
        ({"a": []}, "a: there is no list of its addresses"),
        ({"a": "10.0.0.1"}, "a: there is no list of its addresses"),
        (
            {"a": ["gpu001"]},
            "a: 'gpu001' does not appear to be an IPv4 or IPv6 address: give campaign_addresses",
        ),
        ({"a": ["10.0.0.1"], "b": ["10.0.0.1"]}, "10.0.0.1 is an address of a and of b: is it one machine?"),
    ],
)
def test_addresses_that_cannot_be_measured_are_refused(addresses: object, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("?", r"\?")):
        schedule.nodes(addresses, {})
