# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign over network namespaces, which are made for a test and go with it: the playbook, iperf3, and
links that are slowed down by tc. No packet leaves them.

Each node is a namespace behind one switch, and sends through a class of htb at RATE. A slow node has a
smaller rate, and a bad path a class of its own, for packets to one other node.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.tests.system import packages

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    **os.environ,
    "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".ansible/collections"),
    "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
}

pytestmark = [pytest.mark.system, pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces")]

#: Mbit/s. So little that a busy machine with two cores carries it for all nodes at once
RATE = 40
#: A tenth less would be found too, and takes more time to measure with these few packets
SLOW, BAD = 28, 20


def run(*words: str) -> str:
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


class Net:
    """Nodes node01, node02 ... at 10.9.0.1, 10.9.0.2 ..."""

    def __init__(self, nodes: int) -> None:
        self.prefix = f"mlnode-campaign-{os.getpid()}-"
        self.names: list[str] = []
        self.nodes = [f"node{number:02}" for number in range(1, nodes + 1)]

    def make(self) -> None:
        self.add("switch")
        self.ip("switch", "link add br0 type bridge")
        self.ip("switch", "link set br0 up")
        for number, name in enumerate(self.nodes, 1):
            self.add(name)
            self.ip("switch", f"link add {name} type veth peer name eth0 netns {self.prefix}{name}")
            self.ip("switch", f"link set {name} master br0 up")
            self.ip(name, "link set eth0 up")
            self.ip(name, f"addr add 10.9.0.{number}/24 dev eth0")
            self.tc(name, "qdisc add dev eth0 root handle 1: htb default 10")
            self.shape(name, 10, RATE)

    def add(self, name: str) -> None:
        run("ip", "netns", "add", self.prefix + name)
        self.names.append(name)
        self.ip(name, "link set lo up")

    def ip(self, name: str, words: str) -> None:
        run("ip", "-n", self.prefix + name, *words.split())

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

    def remove(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", self.prefix + name], check=False)

    def play(self, folder: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
        """The playbook, with each namespace as a node."""
        hosts = {name: self.host(folder, name) for name in self.nodes}
        inventory = folder / "inventory.json"
        inventory.write_text(json.dumps({"all": {"children": {"training": {"hosts": hosts}}}}))
        command = [
            str(pathlib.Path(sys.executable).with_name("ansible-playbook")),
            "-i",
            str(inventory),
            *words,
        ]
        command += [
            "-e",
            f"campaign_results={folder}",
            "-f",
            str(len(hosts)),
            str(ROOT / "playbooks/campaign.yml"),
        ]
        return subprocess.run(
            command, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=450,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def host(self, folder: pathlib.Path, name: str) -> dict[str, Any]:
        python = folder / f"python-{name}"
        python.write_text(f'#!/bin/sh\nexec ip netns exec {self.prefix}{name} {sys.executable} "$@"\n')
        python.chmod(0o755)
        return {
            "ansible_connection": "local",
            "ansible_python_interpreter": str(python),
            "ansible_become": False,
            "campaign_addresses": [self.address(name)],
        }


@pytest.fixture(scope="module")
def iperf3() -> None:
    if not shutil.which("iperf3") and not (packages.install("iperf3") and shutil.which("iperf3")):
        pytest.skip("no iperf3 here, and none could be installed (apt-get install iperf3)")


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


def left() -> Sequence[str]:
    """What a campaign must not leave behind."""
    files = [str(path) for path in pathlib.Path("/run/mlnode").glob("campaign-*")]
    running = subprocess.run(
        ["pgrep", "-x", "iperf3"], check=False, capture_output=True, text=True
    ).stdout.split()
    return [*files, *running]


@pytest.mark.parametrize("net", [8], indirect=True)
def test_exactly_the_slow_node_and_the_bad_path_are_named(net: Net, tmp_path: pathlib.Path) -> None:
    net.slow("node03")
    net.bad("node01", "node05")

    # What a test machine runs besides is none of these nodes' business.
    done = net.play(
        tmp_path,
        "-e",
        json.dumps(
            {"campaign_allow": ["busy"], "campaign_duration": 3, "campaign_streams": 2, "campaign_rounds": 0}
        ),
    )

    assert done.returncode == 2, done.stdout + done.stderr
    content = document(tmp_path)
    assert slow_nodes(content) == ["node03"], done.stdout
    assert [(path["certainty"], {end["node"] for end in path["ends"]}) for path in content["paths"]] == [
        ("certain", {"node01", "node05"})
    ]
    assert content["coverage"]["nodes_never_measured"] == []
    assert "fail, certain  node node03" in " ".join(done.stdout.split(" "))
    assert not left()


@pytest.mark.parametrize("net", [2], indirect=True)
def test_check_mode_and_a_machine_on_which_something_runs(net: Net, tmp_path: pathlib.Path) -> None:
    done = net.play(tmp_path, "--check", "-e", json.dumps({"campaign_allow": ["busy"]}))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 nodes, 1 rounds of 14 s" in " ".join(done.stdout.split())
    assert not [*tmp_path.glob("2*.json")]
    assert not left()


SCRIPT = """
import json, sys, time
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.campaign import collect, part, run
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.host.host import Host
host = Host(mounts=run.MOUNTS)
asked = json.loads(sys.argv[1])
if asked:
    run.start(host, part.parse(asked), time.time())
else:
    print(json.dumps(collect.collect(host, "spring", 20)._asdict()))
"""


class Pair:
    """Two nodes that have one round, without a playbook: node01 measures, and node02 serves."""

    def __init__(self, net: Net) -> None:
        self.net = net
        self.start = time.time() + 4
        for name, peer, serves in (("node01", "node02", False), ("node02", "node01", True)):
            rails = [[net.address(name), net.address(peer)]]
            slot = {"round": 0, "peer": peer, "serves": serves, "rails": rails}
            self.script(name, {
                "id": "spring", "kind": "tcp", "start": self.start, "rounds": 1, "duration": 2, "streams": 2,
                "tcp_port": 18600, "addresses": [net.address(name)], "slots": [slot], "allow": ["busy"],
            })  # fmt: skip

    def script(self, name: str, asked: dict[str, Any]) -> str:
        inside = ("ip", "netns", "exec", f"{self.net.prefix}{name}", sys.executable, "-c", SCRIPT)
        done = subprocess.run(
            [*inside, json.dumps(asked)], check=False, capture_output=True, text=True, timeout=60,
            env={**ENVIRONMENT, "PYTHONPATH": str(ROOT / ".ansible/collections")},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def wait(self, seconds: float) -> None:
        time.sleep(max(0.0, self.start + seconds - time.time()))

    def collected(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.script(name, {}))
        assert found["done"], found
        answer: dict[str, Any] = found["answer"]
        return answer


@pytest.mark.parametrize("net", [2], indirect=True)
def test_nodes_measure_without_a_controller_and_no_program_is_left(net: Net) -> None:
    pair = Pair(net)
    pair.wait(11)

    assert not [one for one in left() if one.isdigit()]
    [slot] = pair.collected("node01")["slots"]
    assert slot["reason"] == ""
    # Payload of packets of 1500 bytes, as htb counts them
    assert slot["forward_gbits"] == pytest.approx(RATE / 1000 * 1448 / 1514, rel=0.1)
    assert pair.collected("node02")["served"] == []
    assert not left()


@pytest.mark.parametrize("net", [3], indirect=True)
def test_a_stranger_that_comes_first_is_reported_by_the_server(net: Net) -> None:
    pair = Pair(net)
    pair.wait(0.4)
    words = f"iperf3 -c {net.address('node02')} -p 18600 -t 1".split()
    subprocess.run(
        ["ip", "netns", "exec", f"{net.prefix}node03", *words], check=False, capture_output=True, timeout=20
    )
    pair.wait(11)

    [entry] = pair.collected("node02")["served"]
    assert (
        entry["reason"] == f"{net.address('node03')} came to port 18600 in place of {net.address('node01')}"
    )
    assert pair.collected("node01")["slots"][0]["reason"]
    assert not left()


@pytest.mark.parametrize("net", [2], indirect=True)
def test_a_peer_that_dies_on_the_way(net: Net) -> None:
    pair = Pair(net)
    pair.wait(3)
    net.ip("node02", "link set eth0 down")
    pair.wait(12)

    [slot] = pair.collected("node01")["slots"]
    assert slot["reason"]
    pair.collected("node02")
    assert not left()
