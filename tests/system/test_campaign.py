# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign over network namespaces, which are made for a test and go with it: the playbook, iperf3, and
links that are slowed down by tc. No packet leaves them.

Each node is a namespace behind one switch, and sends through a class of htb at RATE. A slow node has a
smaller rate, and a bad path a class of its own, for packets to one other node.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.campaign.kind import FAILED
from ansible_collections.mlnode.tuning.tests.system import namespaces
from ansible_collections.mlnode.tuning.tests.system.campaign_net import (
    RATE,
    Net,
    document,
    left,
    made,
    slow_nodes,
)
from ansible_collections.mlnode.tuning.tests.system.namespaces import command_of

pytestmark = [pytest.mark.system, namespaces.needs_root]


@pytest.fixture(scope="module")
def iperf3() -> None:
    namespaces.need("iperf3", "iperf3")


@pytest.fixture
def net(request: pytest.FixtureRequest) -> Iterator[Net]:
    yield from made(request.param)


def in_calm(
    net: Net, folder: pathlib.Path, given: dict[str, Any]
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """A campaign that saw all nodes, of three at most: a busy machine hides some, and the report says so."""
    for number in range(3):
        own = folder / str(number)
        own.mkdir()
        done = net.campaign(own, "-e", json.dumps(given))
        content = document(own)
        if not any(node["verdict"] == "unknown" for node in content["nodes"]):
            break
    return done, content


UPLINKS = pathlib.Path(__file__).parents[1] / "fixtures/ibdiags"
#: At the second of two readings, two of four uplinks have sent 8 GB more
PERFQUERY = """
case "$*" in -x*) ;; *) exec cat {fixtures}/uplinks/first-leaf1.narrow;; esac
for lid in "$@"; do case $lid in [0-9]) break;; esac; done
if mkdir {folder}/$lid 2>/dev/null; then
    exec cat {fixtures}/uplinks/first-leaf1.wide
fi
rmdir {folder}/$lid
exec sed '/ port [34] /,/Rcv/ s/\\(XmitData:.*\\)50/\\152/' {fixtures}/uplinks/first-leaf1.wide
"""


def with_uplinks(net: Net, folder: pathlib.Path) -> None:
    """Tools of infiniband-diags, which report a subnet where nodes 1 to 4 are at two leaves."""
    folder.mkdir()
    shown = {"ibnetdiscover": "uplinks.nodes", "iblinkinfo": "uplinks.links"}
    scripts = {tool: f"exec sed s/gpu00/node0/g {UPLINKS}/{name}" for tool, name in shown.items()}
    net.tools(folder, {**scripts, "perfquery": PERFQUERY.format(folder=folder, fixtures=UPLINKS)})


@pytest.mark.parametrize("net", [8], indirect=True)
def test_exactly_the_slow_node_and_the_bad_path_are_named(net: Net, tmp_path: pathlib.Path) -> None:
    net.slow("node03")
    net.bad("node01", "node05")
    with_uplinks(net, tmp_path / "tools")

    given = {
        # What a test machine runs besides is none of these nodes' business.
        "campaign_allow": ["busy"],
        # The least. A second more is two for each of the eight rounds.
        "campaign_duration": 2,
        "campaign_streams": 2,
        # Of seven. The nodes of the bad path meet in them, and most pairs are good.
        "campaign_rounds": 5,
        "campaign_balance": True,
        "campaign_balance_names": ["node01", "node03"],
    }
    done, content = in_calm(net, tmp_path, given)

    assert done.returncode == 2, done.stdout + done.stderr
    assert slow_nodes(content) == ["node03"], done.stdout
    # What this machine has slowed down for a moment is measured again, and may stay probable if it is busy.
    found = {frozenset(end["node"] for end in path["ends"]): path["certainty"] for path in content["paths"]}
    bad = frozenset({"node01", "node05"})
    assert found.get(bad) in ("certain", "probable"), done.stdout
    assert {path for path, certainty in found.items() if certainty == "certain"} <= {bad}, done.stdout
    assert content["coverage"]["nodes_never_measured"] == []
    said = " ".join(done.stdout.split())
    assert "fail, certain node node03" in said
    for leaf in ("leaf1", "leaf2"):
        assert f"{leaf}: balance fail: up: the busiest is" in said
    assert "not checked" not in said
    assert not left(net)


@pytest.mark.parametrize("net", [2], indirect=True)
def test_check_mode_and_a_machine_on_which_something_runs(net: Net, tmp_path: pathlib.Path) -> None:
    done = net.campaign(tmp_path, "--check", "-e", json.dumps({"campaign_allow": ["busy"]}))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 nodes, 1 rounds of 14 s" in " ".join(done.stdout.split())
    assert not [*tmp_path.glob("2*.json")]
    assert not left(net)


#: What is said to a node: prepare with these options, begin at this time, or, with nothing, collect
SCRIPT = """
import json, sys
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.host.host import Host
asked = json.loads(sys.argv[1])
if isinstance(asked, dict):
    from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.campaign import part, run
    run.start(Host(mounts=run.MOUNTS), part.parse(asked), 300)
elif asked:
    from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.campaign import store
    store.begin(Host(), "spring", asked)
else:
    from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.campaign import store
    print(json.dumps(store.collect(Host(), "spring", 20)._asdict()))
"""


class Pair:
    """Two nodes that have one round, without a playbook: node01 measures, and node02 serves, unless it was
    never prepared."""

    #: From the beginning of the round on, until it is over whatever happens in it
    SECONDS = 12.0

    def __init__(self, net: Net, alone: bool = False) -> None:
        self.net = net
        self.start = 0.0
        self.nodes = ["node01", *([] if alone else ["node02"])]
        for name, peer in zip(self.nodes, ("node02", "node01"), strict=False):
            rails = [[net.address(name), net.address(peer)]]
            slot = {"round": 0, "peer": peer, "serves": name == "node02", "rails": rails}
            self.script(name, {
                "id": "spring", "kind": "tcp", "rounds": 1, "duration": 2, "streams": 2, "tcp_port": 18600,
                "addresses": [net.address(name)], "slots": [slot], "allow": ["busy"],
            })  # fmt: skip

    def begin(self, start: float) -> None:
        self.start = start
        for name in self.nodes:
            self.script(name, start)

    def script(self, name: str, asked: dict[str, Any] | float) -> str:
        return self.net.inside(name, sys.executable, "-c", SCRIPT, json.dumps(asked))

    def wait(self, seconds: float) -> None:
        time.sleep(max(0.0, self.start + seconds - time.time()))

    def stranger(self) -> None:
        """Before the client, from a third node."""
        self.wait(0.4)
        words = f"iperf3 -c {self.net.address('node02')} -p 18600 -t 1".split()
        inside = ["ip", "netns", "exec", f"{self.net.prefix}node03", *words]
        subprocess.run(inside, check=False, capture_output=True, timeout=20)

    def dies(self) -> None:
        self.wait(3)
        self.net.ip("node02", "link set eth0 down")

    def collected(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.script(name, 0.0))
        assert found["done"], found
        answer: dict[str, Any] = found["answer"]
        return answer

    @property
    def answers(self) -> list[dict[str, Any]]:
        return [self.collected(node) for node in self.nodes]


class Pairs(NamedTuple):
    """What the two nodes of each pair had to say. running: processes that ran when all rounds were over.
    left: what was there when all was collected."""

    answers: dict[str, list[dict[str, Any]]]
    nets: dict[str, Net]
    running: list[str]
    left: list[str]


def hole(net: Net) -> None:
    """A switch port with a smaller MTU."""
    net.ip("switch", "link set node02 mtu 1400")


def closed(net: Net) -> None:
    """A firewall that drops without a word."""
    net.drops("node02", "tcp dport 18600-18700")


#: What is wrong with the network of a pair
WRONG: dict[str, Callable[[Net], None]] = {
    "hole": hole,
    "closed": closed,
    "loses": lambda net: net.loses("node02", 3),
}

#: What happens in the round of a pair
HAPPENS: dict[str, Callable[[Pair], None]] = {"stranger": Pair.stranger, "dies": Pair.dies}

#: How many nodes the network of a pair has. The peer of the last one is not prepared.
SIZES = {"nothing": 2, "stranger": 3, "dies": 2, "hole": 2, "loses": 2, "closed": 2, "refused": 2}


@pytest.fixture(scope="module")
def pairs(iperf3: None) -> Iterator[Pairs]:
    """All at the same time, as a round is waited for."""
    nets = {name: Net(nodes, f"-{name}") for name, nodes in SIZES.items()}
    try:
        for name, net in nets.items():
            net.make()
            WRONG.get(name, lambda _net: None)(net)
        with ThreadPoolExecutor() as threads:
            alone = [name == "refused" for name in nets]
            made = dict(zip(nets, threads.map(Pair, nets.values(), alone), strict=True))
            start = time.time() + 12
            [*threads.map(lambda pair: pair.begin(start), made.values())]
            happened = [threads.submit(happens, made[name]) for name, happens in HAPPENS.items()]
        for one in happened:
            one.result()
        for pair in made.values():
            pair.wait(Pair.SECONDS)
        running = [f"{net.prefix} {command_of(pid)}" for net in nets.values() for pid in net.pids()]
        answers = {name: pair.answers for name, pair in made.items()}
        yield Pairs(answers, nets, running, [*left(*nets.values())])
    finally:
        for net in nets.values():
            net.remove()


def test_nodes_measure_without_a_controller_and_no_program_is_left(pairs: Pairs) -> None:
    client, server = pairs.answers["nothing"]

    [slot] = client["slots"]
    assert slot["reason"] == ""
    # Payload of packets of 1500 bytes, as htb counts them. On a busy machine iperf3 is late by some 0.2 s of
    # the two of the measurement, and counts in what came before.
    assert slot["forward_gbits"] == pytest.approx(RATE / 1000 * 1448 / 1514, rel=0.25)
    assert server["served"] == []
    # The queue of a link loses some packets by itself.
    assert all(0 <= loss < 0.05 for loss in slot["loss"])
    assert not pairs.running
    assert not pairs.left


def test_a_stranger_that_comes_first_is_reported_by_the_server(pairs: Pairs) -> None:
    client, server = pairs.answers["stranger"]

    [entry] = server["served"]
    here, there = (pairs.nets["stranger"].address(name) for name in ("node03", "node01"))
    assert entry["reason"] == f"{here} came to port 18600 in place of {there}"
    assert client["slots"][0]["reason"]


def test_a_peer_that_dies_on_the_way(pairs: Pairs) -> None:
    client, _server = pairs.answers["dies"]

    [slot] = client["slots"]
    assert slot["reason"]
    assert slot["failed"] in FAILED


def failed(pairs: Pairs, name: str) -> dict[str, Any]:
    [slot] = pairs.answers[name][0]["slots"]
    assert slot["reason"]
    assert "forward_gbits" not in slot
    found: dict[str, Any] = slot
    return found


def test_a_hole_in_the_path_mtu_is_named(pairs: Pairs) -> None:
    slot = failed(pairs, "hole")

    assert slot["failed"] in ("nothing", "timeout")
    # The usual size below the 1400 of the switch port
    assert slot["probe"]["mtu"] == 1280
    assert slot["probe"]["lost"] == 0


def test_a_path_that_loses_is_named_whether_it_has_a_result_or_not(pairs: Pairs) -> None:
    [slot] = pairs.answers["loses"][0]["slots"]

    if slot["reason"]:
        assert slot["failed"] in ("unreachable", "timeout", "nothing")
        assert slot["probe"]["mtu"] is None
        assert 0 < slot["probe"]["lost"] < slot["probe"]["sent"] / 5
    else:
        assert 0.01 < slot["loss"][0] < 0.1


def test_a_port_that_is_closed_by_a_firewall_is_no_bad_path(pairs: Pairs) -> None:
    slot = failed(pairs, "closed")

    assert slot["failed"] == "unreachable"
    assert slot["probe"]["sent"] > 0
    assert (slot["probe"]["lost"], slot["probe"]["mtu"]) == (0, None)


def test_a_peer_that_does_not_listen_refuses(pairs: Pairs) -> None:
    slot = failed(pairs, "refused")

    assert slot["failed"] == "refused"
    assert "probe" not in slot
