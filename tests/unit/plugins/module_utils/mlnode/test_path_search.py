# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.icmp import LONGEST, Answer, Event, Refusal
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.path_search import Search, Verdict
from hypothesis import given
from hypothesis import strategies as st

ROUTER = "10.0.0.254"


def walk(search: Search, mtu: int, own: int = LONGEST, router: int = LONGEST) -> list[int]:
    """What a search sends over a path whose links take so much."""
    sent = []
    while True:
        size = search.next()
        if size is None:
            return sent
        sent.append(size)
        assert len(sent) < 100
        if size > own:
            search.take(Refusal(size, "", "", own))
        elif size > router:
            search.take(Refusal(size, ROUTER, "", router))
        elif size > mtu:
            search.lost(size)
        else:
            search.take(Answer(size))


def test_a_good_path_takes_one_packet() -> None:
    search = Search(9000, 3, 20)
    assert walk(search, 9000) == [9000]
    assert search.verdict is Verdict.PASS


def test_a_switch_that_nobody_has_touched_is_found_at_once() -> None:
    search = Search(9000, 3, 20)
    assert walk(search, 1500) == [9000] * 3 + [84, 1500] + [1501] * 3
    assert (search.largest, search.verdict, search.refusal) == (1500, Verdict.FAIL, None)


def test_a_router_is_believed_and_proven() -> None:
    search = Search(9000, 3, 20)
    assert walk(search, 9000, router=1400) == [9000, 84, 1400, 1401]
    assert (search.largest, search.verdict) == (1400, Verdict.FAIL)
    assert search.refusal == Refusal(1401, ROUTER, "", 1400)


@pytest.mark.parametrize("lie", [0, 1, 84, 9000, 9001, 0xFFFFFFFF])
def test_a_router_that_lies_costs_packets_only(lie: int) -> None:
    search = Search(9000, 1, 20)
    search.take(Refusal(9000, ROUTER, "", lie))
    walk(search, 4000)
    assert search.largest == 4000


def test_the_own_interface_is_asked_for_its_mtu() -> None:
    search = Search(None, 3, 20)
    assert walk(search, 9000, own=1500) == [LONGEST, 1500]
    assert (search.wanted, search.own, search.verdict) == (1500, None, Verdict.PASS)


def test_an_own_interface_that_is_too_small_is_not_taken_for_the_path() -> None:
    search = Search(9000, 3, 20)
    assert walk(search, 9000, own=4200) == [9000, 84, 4200]
    assert (search.largest, search.own, search.verdict) == (4200, 4200, Verdict.FAIL)


def test_an_interface_that_takes_everything_is_measured_with_the_longest_packet() -> None:
    search = Search(None, 3, 20)
    assert walk(search, LONGEST) == [LONGEST]
    assert search.verdict is Verdict.PASS


def test_a_silent_peer_is_unreachable_and_does_not_fail() -> None:
    search = Search(9000, 2, 40)
    assert walk(search, 0) == [9000, 9000, 104, 104]
    assert search.verdict is Verdict.UNREACHABLE


def test_a_packet_lost_by_chance_does_not_count() -> None:
    search = Search(9000, 2, 20)
    search.lost(9000)
    assert search.next() == 9000
    search.take(Answer(9000))
    assert search.verdict is Verdict.PASS


def test_an_answer_that_comes_late_counts() -> None:
    search = Search(9000, 1, 20)
    search.lost(9000)
    assert search.next() == 84
    search.take(Answer(9000))
    assert (search.next(), search.verdict) == (None, Verdict.PASS)


def test_answers_in_fragments_fail_and_tell_where_to_look() -> None:
    search = Search(9000, 1, 20)
    search.take(Answer(9000, 1500))
    assert walk(search, 1500) == [84, 1500, 1501]
    assert (search.largest, search.fragment, search.verdict) == (1500, 1500, Verdict.FAIL)


def test_a_nic_that_takes_somewhat_more_than_its_mtu_does_not_raise_it() -> None:
    search = Search(9000, 1, 20)
    search.lost(9000)
    search.take(Answer(84))
    search.take(Answer(1504, 1500))
    assert walk(search, 1500) == [1500, 1501]
    assert (search.largest, search.fragment, search.verdict) == (1500, 0, Verdict.FAIL)


def test_a_small_packet_has_arrived_however_its_answer_comes() -> None:
    search = Search(9000, 1, 20)
    search.lost(9000)
    search.take(Answer(84, 68))
    assert walk(search, 84)[0] == 1500
    assert search.verdict is Verdict.FAIL


def test_a_refusal_of_another_kind_is_one_packet_lost() -> None:
    search = Search(9000, 2, 20)
    search.take(Refusal(9000, ROUTER, "host unreachable"))
    assert search.next() == 9000
    search.take(Refusal(9000, ROUTER, "host unreachable"))
    assert search.next() == 84


SIZES = st.integers(576, LONGEST)


@given(
    size=st.one_of(st.none(), SIZES),
    mtu=st.integers(104, LONGEST),
    own=st.integers(576, LONGEST),
    router=st.integers(104, LONGEST),
    tries=st.integers(1, 3),
    header=st.sampled_from([20, 40]),
)
def test_the_largest_is_exact(
    size: int | None, mtu: int, own: int, router: int, tries: int, header: int
) -> None:
    search = Search(size, tries, header)

    sent = walk(search, mtu, own, router)

    wanted = size or own
    assert search.wanted == wanted
    assert search.largest == min(wanted, mtu, own, router)
    assert search.verdict is (Verdict.PASS if search.largest == wanted else Verdict.FAIL)
    # 2^16 sizes: the first, the small one, and no more than two steps for each bit
    assert len(set(sent)) <= 2 + 2 * 16


EVENTS = st.one_of(
    st.builds(Answer, st.integers(1, LONGEST), st.sampled_from([0, 1500])),
    st.builds(
        Refusal,
        st.integers(1, LONGEST),
        st.just(ROUTER),
        st.just("host unreachable"),
        st.one_of(st.none(), st.integers(0, 0xFFFFFFFF)),
    ),
)


@given(size=st.one_of(st.none(), SIZES), events=st.lists(EVENTS), tries=st.integers(1, 3))
def test_whatever_the_network_says_a_search_ends(size: int | None, events: list[Event], tries: int) -> None:
    search = Search(size, tries, 20)
    for event in events:
        search.take(event)
        assert search.next() is None or 84 <= (search.next() or 0) <= LONGEST
    for _number in range(200):
        left = search.next()
        if left is None:
            break
        search.lost(left)
    assert search.next() is None
