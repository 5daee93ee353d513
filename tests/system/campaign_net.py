# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of a campaign as network namespaces behind one switch.

Each sends through a class of htb at RATE. A slow node has a smaller rate, and a bad path a class of its
own, for packets to one other node."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

import jsonschema
from ansible_collections.mlnode.tuning.tests.system import namespaces
from ansible_collections.mlnode.tuning.tests.system.namespaces import ROOT, run

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


def document(folder: pathlib.Path) -> dict[str, Any]:
    [path] = [one for one in folder.glob("*.json") if one.name != "inventory.json"]
    content: dict[str, Any] = json.loads(path.read_text())
    jsonschema.validate(content, json.loads((ROOT / "docs/schema/campaign.schema.json").read_text()))
    return content


def slow_nodes(content: dict[str, Any]) -> list[str]:
    """Nodes that fail for a tenth or more: seconds of iperf3 at this rate are in steps of 5 %."""
    return [
        node["name"]
        for node in content["nodes"]
        if node["verdict"] == "fail" and (node["rails"][0]["loss_percent"] or 100) >= 10
    ]


def left(*nets: Net) -> Sequence[str]:
    """What a campaign must not leave behind."""
    return [one for net in nets for one in (*map(str, net.files(STATE)), *net.running("iperf3"))]


def made(nodes: int) -> Iterator[Net]:
    """For a fixture."""
    namespaces.need("iperf3", "iperf3")
    net = Net(nodes)
    try:
        net.make()
        yield net
    finally:
        net.remove()
