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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.tests.system import namespaces
from ansible_collections.mlnode.tuning.tests.system.namespaces import ROOT, run

pytestmark = [pytest.mark.system, namespaces.needs_root]

#: Mbit/s. So little that a busy machine with two cores carries it for all nodes at once
RATE = 40
#: A tenth less would be found too, and takes more time to measure with these few packets
SLOW, BAD = 28, 20


class Net(namespaces.Net):
    """Nodes node01, node02 ... at 10.9.0.1, 10.9.0.2 ..."""

    def __init__(self, nodes: int, name: str = "") -> None:
        super().__init__(f"campaign{name}")
        self.nodes = [f"node{number:02}" for number in range(1, nodes + 1)]

    def make(self) -> None:
        self.switch(1500, self.nodes)
        for name in self.nodes:
            self.tc(name, "qdisc add dev eth0 root handle 1: htb default 10")
            self.shape(name, 10, RATE)

    def tc(self, name: str, words: str) -> None:
        run("tc", "-n", self.prefix + name, *words.split())

    def shape(self, name: str, number: int, rate: int) -> None:
        self.tc(name, f"class replace dev eth0 parent 1: classid 1:{number} htb rate {rate}mbit burst 8k")
        # Behind the usual thousand packets, a message would wait for a third of a second.
        self.tc(name, f"qdisc replace dev eth0 parent 1:{number} handle {number}: pfifo limit 50")

    def address(self, name: str) -> str:
        return f"10.9.0.{self.nodes.index(name) + 1}"

    def slow(self, name: str) -> None:
        self.shape(name, 10, SLOW)

    def bad(self, one: str, other: str) -> None:
        number = 20 + self.nodes.index(other)
        self.shape(one, number, BAD)
        match = f"u32 match ip dst {self.address(other)}/32 flowid 1:{number}"
        self.tc(one, f"filter add dev eth0 parent 1: protocol ip prio 1 {match}")

    def campaign(self, folder: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
        """The playbook, with each namespace as a node."""
        hosts = {name: {"campaign_addresses": [self.address(name)]} for name in self.nodes}
        more = ("-e", f"campaign_results={folder}", "-f", str(len(hosts)))
        return self.play(folder, "campaign.yml", "training", hosts, *words, *more, seconds=450)


@pytest.fixture(scope="module")
def iperf3() -> None:
    namespaces.need("iperf3", "iperf3")


@pytest.fixture
def net(iperf3: None, request: pytest.FixtureRequest) -> Iterator[Net]:
    made = Net(request.param)
    try:
        made.make()
        yield made
    finally:
        made.remove()


def document(folder: pathlib.Path) -> dict[str, Any]:
    [path] = [one for one in folder.glob("*.json") if one.name != "inventory.json"]
    content: dict[str, Any] = json.loads(path.read_text())
    jsonschema.validate(content, json.loads((ROOT / "docs/schema/campaign.schema.json").read_text()))
    return content


def slow_nodes(content: dict[str, Any]) -> list[str]:
    return [node["name"] for node in content["nodes"] if node["verdict"] == "fail"]


def left(*nets: Net) -> Sequence[str]:
    """What a campaign must not leave behind."""
    files = [str(path) for path in pathlib.Path("/run/mlnode").glob("campaign-*")]
    return [*files, *(pid for net in nets for pid in net.running("iperf3"))]


@pytest.mark.parametrize("net", [8], indirect=True)
def test_exactly_the_slow_node_and_the_bad_path_are_named(net: Net, tmp_path: pathlib.Path) -> None:
    net.slow("node03")
    net.bad("node01", "node05")

    given = {
        # What a test machine runs besides is none of these nodes' business.
        "campaign_allow": ["busy"],
        # The least. A second more is two for each of the eight rounds.
        "campaign_duration": 2,
        "campaign_streams": 2,
        # Of seven. The nodes of the bad path meet in them, and most pairs are good.
        "campaign_rounds": 5,
        # All nodes are asked at once, by a controller that is all of them, and may be busy with other tests.
        "campaign_lead": 25,
    }
    done = net.campaign(tmp_path, "-e", json.dumps(given))

    assert done.returncode == 2, done.stdout + done.stderr
    content = document(tmp_path)
    assert slow_nodes(content) == ["node03"], done.stdout
    # What this machine has slowed down for a moment is measured again, and may stay probable if it is busy.
    found = {frozenset(end["node"] for end in path["ends"]): path["certainty"] for path in content["paths"]}
    bad = frozenset({"node01", "node05"})
    assert found.get(bad) in ("certain", "probable"), done.stdout
    assert {path for path, certainty in found.items() if certainty == "certain"} <= {bad}, done.stdout
    assert content["coverage"]["nodes_never_measured"] == []
    assert "fail, certain node node03" in " ".join(done.stdout.split())
    assert not left(net)


@pytest.mark.parametrize("net", [2], indirect=True)
def test_check_mode_and_a_machine_on_which_something_runs(net: Net, tmp_path: pathlib.Path) -> None:
    done = net.campaign(tmp_path, "--check", "-e", json.dumps({"campaign_allow": ["busy"]}))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 nodes, 1 rounds of 14 s" in " ".join(done.stdout.split())
    assert not [*tmp_path.glob("2*.json")]
    assert not left(net)


SCRIPT = """
import json, sys, time
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.campaign import collect, part, run
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.host.host import Host
host = Host(mounts=run.MOUNTS)
asked = json.loads(sys.argv[1])
if asked:
    run.start(host, part.parse(asked))
else:
    print(json.dumps(collect.collect(host, "spring", 20)._asdict()))
"""


class Pair:
    """Two nodes that have one round, without a playbook: node01 measures, and node02 serves."""

    #: From the beginning of the round on, until it is over whatever happens in it
    SECONDS = 12.0

    def __init__(self, net: Net) -> None:
        self.net = net
        self.start = time.time() + 6
        for name, peer, serves in (("node01", "node02", False), ("node02", "node01", True)):
            rails = [[net.address(name), net.address(peer)]]
            slot = {"round": 0, "peer": peer, "serves": serves, "rails": rails}
            self.script(name, {
                "id": "spring", "kind": "tcp", "start": self.start, "rounds": 1, "duration": 2, "streams": 2,
                "tcp_port": 18600, "addresses": [net.address(name)], "slots": [slot], "allow": ["busy"],
            })  # fmt: skip

    def script(self, name: str, asked: dict[str, Any]) -> str:
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
        found: dict[str, Any] = json.loads(self.script(name, {}))
        assert found["done"], found
        answer: dict[str, Any] = found["answer"]
        return answer


class Pairs(NamedTuple):
    """What the two nodes of each pair had to say. running: iperf3 that ran when all rounds were over. left:
    what was there when all was collected."""

    answers: dict[str, list[dict[str, Any]]]
    nets: dict[str, Net]
    running: list[str]
    left: list[str]


#: What happens to a pair, and how many nodes its network has
HAPPENS: dict[str, tuple[Callable[[Pair], None] | None, int]] = {
    "nothing": (None, 2),
    "stranger": (Pair.stranger, 3),
    "dies": (Pair.dies, 2),
}


@pytest.fixture(scope="module")
def pairs(iperf3: None) -> Iterator[Pairs]:
    """All at the same time, as a round is waited for."""
    nets = {name: Net(nodes, f"-{name}") for name, (_happens, nodes) in HAPPENS.items()}
    try:
        for net in nets.values():
            net.make()
        with ThreadPoolExecutor() as threads:
            made = dict(zip(nets, threads.map(Pair, nets.values()), strict=True))
            given = [(happens, made[name]) for name, (happens, _nodes) in HAPPENS.items() if happens]
            happened = [threads.submit(happens, pair) for happens, pair in given]
        for one in happened:
            one.result()
        for pair in made.values():
            pair.wait(Pair.SECONDS)
        running = [one for net in nets.values() for one in net.running("iperf3")]
        answers = {
            name: [pair.collected(node) for node in ("node01", "node02")] for name, pair in made.items()
        }
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
