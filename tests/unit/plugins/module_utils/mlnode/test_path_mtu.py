# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The measurement on a simulated network with a clock of its own; tests/system has the real one."""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import dataclass, field
from typing import Any, Sequence

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode import path_mtu
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.errors import DeclarationError
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.icmp import (
    LONGEST,
    V4,
    V6,
    Answer,
    Event,
    Refusal,
    Target,
)
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.path_mtu import Check, Peer
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.path_search import Verdict

HERE = "10.0.0.1"
ROUTER = "10.0.0.254"


@dataclass
class Way:
    """What becomes of the packets to one peer."""

    mtu: int = LONGEST
    own: int = LONGEST
    router: int = LONGEST
    fragment: int = 0
    seconds: float = 0.001
    says: str = ""  # of every packet above this size
    says_above: int = 0
    by: str = ROUTER
    broken: int = 0  # errno of a send
    loses: frozenset[int] = frozenset()  # of the packets, by their number


@dataclass(eq=False)
class Line:
    network: Network
    way: Way
    source: str
    sent: list[int] = field(default_factory=list)
    coming: list[tuple[float, Event]] = field(default_factory=list)

    def send(self, size: int) -> Sequence[Event]:
        self.network.sent.append(self.network.time)
        self.sent.append(size)
        way = self.way
        if way.broken:
            raise OSError(way.broken, os.strerror(way.broken))
        if size > way.own:
            return [Refusal(size, "", "", way.own)]
        back = self.network.time + way.seconds
        if way.says and size > way.says_above:
            self.coming.append((back, Refusal(size, way.by, way.says)))
        elif size > way.router:
            self.coming.append((back, Refusal(size, way.by, "", way.router)))
        elif size <= way.mtu and len(self.sent) - 1 not in way.loses:
            self.coming.append((back, Answer(size, way.fragment if size > way.fragment else 0)))
        return []

    def receive(self) -> Sequence[Event]:
        found = [event for moment, event in self.coming if moment <= self.network.time]
        self.coming = [one for one in self.coming if one[0] > self.network.time]
        return found

    def close(self) -> None:
        self.network.open.remove(self)


class Network:
    """As many peers as wanted, and no waiting."""

    def __init__(self, **ways: Way | OSError) -> None:
        self.ways = {name.replace("_", "."): way for name, way in ways.items()}
        self.time = 0.0
        self.sent: list[float] = []
        self.lines: list[Line] = []
        self.open: list[Line] = []
        self.most_open = 0

    def find(self, address: str) -> Target:
        if address.endswith(".invalid"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        known = {"gpu7": "10.0.0.7", "self": HERE}.get(address, address)
        return Target(V6, (known, 0, 0, 0)) if ":" in known else Target(V4, (known, 0))

    def connect(self, target: Target, interface: str, source: Target | None) -> Line:
        way = self.ways.get(target.address.replace("10.0.0.", "n"), Way())
        if isinstance(way, OSError):
            raise way
        line = Line(self, way, source.address if source else HERE)
        self.lines.append(line)
        self.open.append(line)
        self.most_open = max(self.most_open, len(self.open))
        return line

    def now(self) -> float:
        return self.time

    def wait(self, seconds: float) -> Sequence[Line]:
        assert 0 <= seconds < 100
        end = self.time + seconds
        self.time = min([end, *(moment for line in self.open for moment, _event in line.coming)])
        return [line for line in self.open if any(moment <= self.time for moment, _event in line.coming)]


def measure(network: Network, *peers: Any, size: int | None = 9000, tries: int = 3) -> list[Check]:
    found = path_mtu.measure(path_mtu.parse(peers, size, tries, 1.0), network)
    assert network.open == []
    return found


def one(network: Network, peer: Any = "10.0.0.7", **more: Any) -> Check:
    [check] = measure(network, peer, **more)
    return check


# -- verdicts and words --------------------------------------------------------------------


def test_a_good_path() -> None:
    network = Network()
    assert one(network).document() == {
        "name": "path_mtu",
        "target": "10.0.0.7",
        "verdict": "pass",
        "expected": "packets of 9000 bytes arrive",
        "found": "packets of 9000 bytes arrive",
        "source": "ICMP echo, don't fragment, from 10.0.0.1",
        "advice": "",
    }


def test_a_black_hole_names_the_peer_the_largest_size_and_where_to_look() -> None:
    check = one(Network(n7=Way(mtu=1500)))

    assert str(check) == "10.0.0.7: packets of 9000 bytes do not arrive, 1500 do (the largest that passes)"
    assert check.verdict is Verdict.FAIL
    assert "every switch port" in check.advice


def test_a_router_is_named_with_its_mtu() -> None:
    check = one(Network(n7=Way(router=1400)))

    assert check.found == (
        "packets of 9000 bytes do not arrive, 1400 do (the largest that passes); "
        "10.0.0.254 says: its next link has an MTU of 1400"
    )
    assert ROUTER in check.advice


def test_a_router_that_refuses_large_packets_by_rule_is_named() -> None:
    check = one(Network(n7=Way(mtu=1500, says_above=1500, says="administratively prohibited")))

    assert check.found == (
        "packets of 9000 bytes do not arrive, 1500 do (the largest that passes); "
        "10.0.0.254 says: administratively prohibited"
    )
    assert ROUTER in check.advice


def test_what_was_said_before_the_address_was_found_is_no_reason() -> None:
    check = one(Network(n7=Way(mtu=1500, says_above=8000, says="host unreachable", by=HERE)))

    assert check.found == "packets of 9000 bytes do not arrive, 1500 do (the largest that passes)"
    assert "every switch port" in check.advice


def test_the_own_interface_is_blamed_where_it_is_to_blame() -> None:
    check = one(Network(n7=Way(own=1500)))

    assert check.verdict is Verdict.FAIL
    assert check.found == (
        "packets of 9000 bytes do not leave this node, whose interface has an MTU of 1500; "
        "1500 do (the largest that passes)"
    )
    assert check.advice == "raise the MTU of this node's interface to the peer"


def test_behind_an_own_interface_that_is_too_small_the_path_is_smaller_still() -> None:
    check = one(Network(n7=Way(own=4200, mtu=1500)))

    assert "has an MTU of 4200; 1500 do" in check.found
    assert "but before that: no router says why" in check.advice


def test_the_mtu_of_the_own_interface_is_proven_where_no_size_is_given() -> None:
    good, bad = measure(
        Network(n7=Way(own=9000), n8=Way(own=9000, mtu=1500)), "10.0.0.7", "10.0.0.8", size=None
    )

    assert str(good) == "10.0.0.7: packets of 9000 bytes arrive"
    assert str(bad).startswith("10.0.0.8: packets of 9000 bytes do not arrive, 1500 do")


def test_answers_in_fragments_tell_of_the_way_back() -> None:
    check = one(Network(n7=Way(fragment=1500)))

    assert check.verdict is Verdict.FAIL
    assert check.found == (
        "packets of 9000 bytes arrive, but their answers come in fragments of 1500 bytes; "
        "1500 come back whole (the largest that do)"
    )
    assert check.advice.startswith("raise the MTU of the peer's interface")


@pytest.mark.parametrize(
    ("way", "words"),
    [
        (Way(mtu=0), ""),
        (Way(says="administratively prohibited"), "; 10.0.0.254 says: administratively prohibited"),
        (Way(says="host unreachable", by=HERE), "; nobody on the link has this address"),
    ],
)
def test_a_peer_that_answers_nothing_is_unreachable_and_not_failed(way: Way, words: str) -> None:
    check = one(Network(n7=way))

    assert check.verdict is Verdict.UNREACHABLE
    assert check.found == "no answer to packets of 9000 bytes, nor to small ones" + words
    assert check.advice.startswith("nothing is proven")


@pytest.mark.parametrize(
    ("peer", "network", "words", "advice"),
    [
        ("gpu.invalid", Network(), "Name or service not known", "a name that resolves"),
        ("10.0.0.7", Network(n7=OSError(errno.ENETUNREACH, "unreachable")), "ENETUNREACH", "no route"),
        ("10.0.0.7", Network(n7=OSError(errno.EACCES, "Permission denied")), "EACCES", "ping_group_range"),
        ("10.0.0.7", Network(n7=Way(broken=errno.EPERM)), "EPERM", "firewall"),
        ("10.0.0.7", Network(n7=Way(broken=errno.ENETDOWN)), "ENETDOWN", "address of another node"),
        ("self", Network(), "this is the node itself", "another node"),
        ("127.0.0.1", Network(), "no address of another node", "another node"),
        ("::1", Network(), "no address of another node", "another node"),
        ("0.0.0.0", Network(), "no address of another node", "another node"),
        ("224.0.0.1", Network(), "no address of another node", "another node"),
        ("fe80::1%eth0", Network(n7=Way()), "", ""),
        ({"address": "10.0.0.7", "source": "fd00::1"}, Network(), "not of the same family", ""),
        ({"address": "10.0.0.7", "source": "gpu.invalid"}, Network(), "Name or service not known", ""),
    ],
)
def test_what_cannot_be_checked_is_an_error_of_this_peer(
    peer: Any, network: Network, words: str, advice: str
) -> None:
    check = one(network, peer)

    if words:
        assert check.verdict is Verdict.ERROR
        assert check.found.startswith("cannot be checked: ")
    assert words in check.found
    assert advice in check.advice
    assert check.expected == "packets of 9000 bytes arrive"


def test_a_name_is_shown_with_its_address_and_a_rail_with_its_interface() -> None:
    named, rail = measure(
        Network(), "gpu7", {"address": "10.0.0.8", "interface": "rail0", "source": "10.0.0.9"}
    )

    assert (named.target, rail.target) == ("gpu7 (10.0.0.7)", "10.0.0.8 on rail0")
    assert rail.source == "ICMP echo, don't fragment, from 10.0.0.9"


# -- time ----------------------------------------------------------------------------------


def test_lost_packets_are_sent_again_and_no_more_often_than_asked() -> None:
    assert one(Network(n7=Way(loses=frozenset({0, 1})))).verdict is Verdict.PASS
    network = Network(n7=Way(mtu=0))
    one(network, tries=2)
    assert network.lines[0].sent == [9000, 9000, 84, 84]
    assert network.time == pytest.approx(4.0, abs=0.1)


def test_a_slow_answer_still_counts_while_smaller_ones_are_tried() -> None:
    check = one(Network(n7=Way(seconds=2.5)), tries=1)
    assert check.verdict is Verdict.UNREACHABLE
    assert one(Network(n7=Way(seconds=1.5)), tries=1).verdict is Verdict.PASS


def test_an_answer_that_comes_while_the_peer_waits_for_its_turn_counts() -> None:
    peers = [f"10.0.0.{number}" for number in range(100, 200)]
    network = Network()
    network.ways = {peer.replace("10.0.0.", "n"): Way(seconds=0.06) for peer in peers}

    # Each is taken for lost after 0.05 s, and has to wait up to 0.05 s more to be sent again.
    checks = path_mtu.measure(path_mtu.parse(peers, 9000, 2, 0.05), network)

    assert {check.verdict for check in checks} == {Verdict.PASS}
    assert sum(len(line.sent) for line in network.lines) < 200


def test_a_refusal_by_the_network_does_not_wait_for_the_time_to_pass() -> None:
    network = Network(n7=Way(router=1400))
    one(network)
    assert network.time < 0.1


def test_a_thousand_dead_peers_take_two_rounds_and_packets_keep_their_distance() -> None:
    peers = [f"10.0.{number // 250 + 1}.{number % 250 + 1}" for number in range(1000)]
    network = Network()
    network.ways = {peer: Way(mtu=0 if number % 2 else 9000) for number, peer in enumerate(peers)}

    checks = measure(network, *peers, tries=2)

    assert [check.target for check in checks] == peers
    assert [check.verdict for check in checks] == [Verdict.PASS, Verdict.UNREACHABLE] * 500
    assert network.most_open == 512
    assert all(later - sooner > 0.00099 for sooner, later in zip(network.sent, network.sent[1:]))
    assert network.time < 12


def test_one_bad_peer_leaves_the_others_alone_and_closes_its_socket() -> None:
    network = Network(n7=Way(broken=errno.ENETDOWN), n8=OSError(errno.EINVAL, "Invalid argument"))
    checks = measure(network, "10.0.0.7", "10.0.0.8", "10.0.0.9")
    assert [check.verdict for check in checks] == [Verdict.ERROR, Verdict.ERROR, Verdict.PASS]


def test_an_interrupted_measurement_closes_its_sockets() -> None:
    class Interrupted(Network):
        def wait(self, seconds: float) -> Any:
            raise KeyboardInterrupt

    network = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        path_mtu.measure(path_mtu.parse(["10.0.0.7", "10.0.0.8"], 9000, 3, 1.0), network)
    assert network.open == []


# -- what is asked for ---------------------------------------------------------------------


def test_peers_are_told_by_address_or_in_full_and_once() -> None:
    rail = {"address": "gpu8", "interface": "rail0"}
    again = {"address": "10.0.0.7", "source": None}
    request = path_mtu.parse(["10.0.0.7", rail, "10.0.0.7", again], None, 3, 1.0)
    assert request.peers == (Peer("10.0.0.7"), Peer("gpu8", "rail0"))


@pytest.mark.parametrize(
    ("peers", "words"),
    [
        ([], "peers: name at least one"),
        ([7], "peers[0].address: 7 is no name"),
        ([None], "peers[0].address: missing"),
        ([""], "peers[0].address: missing"),
        ([[]], "peers[0].address: missing"),
        ([["10.0.0.7"]], "peers[0].address: ['10.0.0.7'] is no name"),
        (["10.0.0.7", "10.0.0"], "peers[1].address: '10.0.0' is no IPv4 address"),
        (["010.0.0.1"], "peers[0].address: '010.0.0.1' is no IPv4 address"),
        (["10.0.0.256"], "peers[0].address: '10.0.0.256' is no IPv4 address"),
        (["a b"], "peers[0].address: 'a b' is no name"),
        (["gpu\x1b[2J"], "peers[0].address: 'gpu\\x1b[2J' is no name"),
        ([{"interface": "eth0"}], "peers[0].address: missing"),
        ([{"address": "gpu7", "dev": "eth0"}], "peers[0].dev: unknown; known are address, interface, source"),
        ([{"address": "gpu7", 1: "eth0"}], "peers[0].1: unknown"),
        ([{"address": "gpu7", "interface": 0}], "peers[0].interface: 0 is no name"),
        ([{"address": "gpu7", "source": "10.1"}], "peers[0].source: '10.1' is no IPv4 address"),
    ],
)
def test_peers_that_are_none(peers: Any, words: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        path_mtu.parse(peers, None, 3, 1.0)
    assert str(raised.value).startswith(words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0, 3, 1.0), "size: 0"),
        ((575, 3, 1.0), "size: 575"),
        ((65536, 3, 1.0), "size: 65536"),
        ((9000, 0, 1.0), "tries: 0"),
        ((9000, 21, 1.0), "tries: 21"),
        ((9000, 3, 0.0), "timeout: 0.0"),
        ((9000, 3, float("nan")), "timeout: nan"),
        ((9000, 3, float("inf")), "timeout: inf"),
    ],
)
def test_numbers_out_of_range(arguments: tuple[int, int, float], words: str) -> None:
    with pytest.raises(DeclarationError, match="is not between") as raised:
        path_mtu.parse(["10.0.0.7"], *arguments)
    assert str(raised.value).startswith(words)
