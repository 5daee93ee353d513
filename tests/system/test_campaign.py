# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign over network namespaces, which are made for a test and go with it: the playbook, iperf3, and
links that are slowed down by tc. No packet leaves them.

Each node is a namespace behind one switch, and sends through a class of htb at RATE. A slow node has a
smaller rate, and a bad path a class of its own, for packets to one other node.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.campaign.kind import FAILED
from ansible_collections.mlnode.tuning.tests.system import namespaces
from ansible_collections.mlnode.tuning.tests.system.namespaces import ROOT, command_of, run

pytestmark = [pytest.mark.system, namespaces.needs_root]

#: Mbit/s. So little that a busy machine with two cores carries it for all nodes at once
RATE = 40
#: A tenth less would be found too, and takes more time to measure with these few packets
SLOW, BAD = 28, 20


#: The file that a campaign leaves on a node until it is collected
STATE = "campaign-*.json"


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

    def remove(self) -> None:
        for path in self.files(STATE):
            path.unlink()
        super().remove()

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
    return [one for net in nets for one in (*map(str, net.files(STATE)), *net.running("iperf3"))]


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


#: What is said to a node: prepare with these options, begin at this time, or, with nothing, collect
SCRIPT = """
import json, sys
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.host.host import Host
asked = json.loads(sys.argv[1])
if isinstance(asked, dict):
    from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.campaign import part, run
    run.start(Host(mounts=run.MOUNTS), part.parse(asked), 300)
elif asked:
    from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.campaign import begin
    begin.begin(Host(), "spring", asked)
else:
    from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.campaign import collect
    print(json.dumps(collect.collect(Host(), "spring", 20)._asdict()))
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


# -- a controller, and nodes that fail on the way ----------------------------------------------------

#: Short rounds of a machine on which other things run as well
GIVEN = {"campaign_allow": ["busy"], "campaign_duration": 2, "campaign_streams": 2}


def begun(net: Net, timeout: float = 90) -> float:
    """The end of the campaign that nodes were told the start of."""
    end = time.time() + timeout
    while time.time() < end:
        files = [json.loads(path.read_text()) for path in net.files(STATE)]
        starts = [one["until"] for one in files if one["start"] is not None]
        if starts:
            return max(starts)
        time.sleep(0.3)
    raise AssertionError("no campaign has begun")


@pytest.mark.long
@pytest.mark.parametrize("net", [3], indirect=True)
def test_nothing_runs_on_the_nodes_when_their_controller_was_killed(net: Net, tmp_path: pathlib.Path) -> None:
    with ThreadPoolExecutor() as threads:
        played = threads.submit(net.campaign, tmp_path, "-e", json.dumps({**GIVEN, "campaign_rounds": 2}))
        until = begun(net)
        # All of the controller: its forks have its command line.
        for pid in controllers(tmp_path):
            os.kill(pid, signal.SIGKILL)
        assert played.result().returncode == -signal.SIGKILL
    assert net.pids(), "the nodes go on"
    time.sleep(max(0.0, until - time.time()) + 3)

    assert [command_of(pid) for pid in net.pids()] == []
    files = net.files(STATE)
    assert len(files) == 3
    assert all(json.loads(path.read_text())["done"] for path in files)
    # The next campaign takes their place.
    assert document_of(net.campaign(tmp_path, "-e", json.dumps({**GIVEN, "campaign_rounds": 2})), tmp_path)
    assert not left(net)


def controllers(folder: pathlib.Path) -> list[int]:
    """The processes of the playbook that has its inventory in this folder."""
    wanted = str(folder / "inventory.json").encode()
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if wanted in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def document_of(done: subprocess.CompletedProcess[str], folder: pathlib.Path) -> dict[str, Any]:
    assert done.returncode in (0, 2), done.stdout + done.stderr
    return document(folder)


def gbits(content: dict[str, Any]) -> dict[frozenset[str], float | None]:
    """Pair of nodes → its result in any look."""
    found: dict[frozenset[str], float | None] = {}
    for pair in content["pairs"]:
        names = frozenset(end["node"] for end in pair["ends"])
        found[names] = found.get(names) or pair["gbits"]
    return found


@pytest.mark.long
@pytest.mark.parametrize("net", [10], indirect=True)
def test_each_fault_of_ten_nodes_is_seen_and_none_passes(net: Net, tmp_path: pathlib.Path) -> None:
    net.shape("node02", 10, RATE * 85 // 100)
    net.ip("switch", "link set node04 mtu 1400")
    net.loses("node06", 3)
    net.drops("node08", "tcp dport 18600-18700")

    done = net.campaign(tmp_path, "-e", json.dumps({**GIVEN, "campaign_rounds": 6}))

    assert done.returncode == 2, done.stdout + done.stderr
    content = document(tmp_path)
    verdicts = {node["name"]: node["verdict"] for node in content["nodes"]}
    measured = gbits(content)
    bad = {"node02", "node04", "node06", "node08"}
    good = [value for names, value in measured.items() if not names & bad]
    assert all(good), done.stdout
    usual = statistics.median(value for value in good if value)
    assert verdicts["node04"] != "pass", done.stdout
    assert verdicts["node08"] != "pass", done.stdout
    slow = [value for names, value in measured.items() if "node02" in names and value]
    assert slow, done.stdout
    # 15 % less, with what a busy machine adds and takes
    assert statistics.median(slow) < 0.93 * usual, done.stdout
    assert all(not value for names, value in measured.items() if "node04" in names), done.stdout
    assert not left(net)


@pytest.mark.long
@pytest.mark.parametrize("net", [6], indirect=True)
def test_a_node_that_dies_in_the_third_round_blocks_no_other(net: Net, tmp_path: pathlib.Path) -> None:
    given = {**GIVEN, "campaign_rounds": 5, "campaign_timeout": 20, "campaign_second_look": False}
    with ThreadPoolExecutor() as threads:
        played = threads.submit(net.campaign, tmp_path, "-e", json.dumps(given))
        until = begun(net)
        time.sleep(max(0.0, until - 2.5 * 10 - time.time()))
        net.ip("node05", "link set eth0 down")
        for pid in run("ip", "netns", "pids", f"{net.prefix}node05").split():
            os.kill(int(pid), signal.SIGKILL)
        # Nor can it be managed.
        run("ip", "netns", "delete", f"{net.prefix}node05")
        net.names.remove("node05")
        done = played.result()

    assert done.returncode == 2, done.stdout + done.stderr
    content = document(tmp_path)
    [dead] = [node for node in content["nodes"] if node["name"] == "node05"]
    assert dead["verdict"] != "pass"
    assert dead["reason"]
    measured = gbits(content)
    assert all(value for names, value in measured.items() if "node05" not in names), done.stdout


@pytest.mark.long
@pytest.mark.parametrize("net", [3], indirect=True)
def test_a_node_whose_clock_is_wrong_takes_part(net: Net, tmp_path: pathlib.Path) -> None:
    """A time namespace has no other wall clock, so that the node's Python is given one."""
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    (wrong / "sitecustomize.py").write_text(
        "import time\nreal = time.time\ntime.time = lambda: real() + 40\n"
    )
    hosts = {name: {"campaign_addresses": [net.address(name)]} for name in net.nodes}
    shell = f"ip netns exec {net.prefix}node02 env PYTHONPATH={wrong} /bin/sh"
    hosts["node02"] = {**hosts["node02"], "ansible_shell_executable": shell}
    words = ("-e", json.dumps({**GIVEN, "campaign_rounds": 2, "campaign_results": str(tmp_path)}), "-f", "3")

    done = net.play(tmp_path, "campaign.yml", "training", hosts, *words, seconds=450)

    assert all(gbits(document_of(done, tmp_path)).values()), done.stdout
    assert re.search(r"node02: its clock is (39|40|41)\.", " ".join(done.stdout.split())), done.stdout
