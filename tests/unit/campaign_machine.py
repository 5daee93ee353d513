# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with iperf3, whose peer says what a test wants, and a clock that runs when it is waited for."""

from __future__ import annotations

import copy
import json
import pathlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ansible_collections.mlnode.tuning.tests.unit.nic_machine import Nic
from ansible_collections.mlnode.tuning.tests.unit.rail_machine import RailMachine
from mlnode.checks.campaign.clock import Clock
from mlnode.host.system import Finished

FILES = pathlib.Path(__file__).parents[1] / "fixtures/iperf3"

#: When the tests begin, in seconds since 1970
NOW = 1_795_564_800.0

OWN, PEER = "10.9.0.1", "10.9.0.2"

#: A part of a campaign, as the module takes it
SLOT: dict[str, Any] = {"round": 0, "peer": "b", "serves": False, "rails": [["10.9.0.1", "10.9.0.2"]]}
ASKED: dict[str, Any] = {
    "id": "spring-1",
    "kind": "tcp",
    "start": 1000.0,
    "rounds": 3,
    "duration": 3,
    "streams": 4,
    "tcp_port": 18600,
    "addresses": ["10.9.0.1"],
    "slots": [SLOT, {**SLOT, "round": 2}],
}

REFUSED = Finished(0, (FILES / "refused.json").read_text(encoding="utf-8"), "")
NO_CLIENT = Finished(124, (FILES / "no_client.json").read_text(encoding="utf-8"), "")


class Time:
    """Seconds pass only where something sleeps."""

    def __init__(self) -> None:
        self.now = NOW
        self.lock = threading.Lock()
        self.on_sleep: Callable[[], None] = lambda: None

    def sleep(self, seconds: float) -> None:
        with self.lock:
            self.now += seconds
        self.on_sleep()

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.now, lambda: self.now, self.sleep)


class CampaignMachine(RailMachine):
    """says: what the program prints, given its words; None for what a good one does. mbit: of each stream."""

    @classmethod
    def made(cls, root: str) -> CampaignMachine:
        machine = cls.with_nics(root, eth0=Nic())
        assert isinstance(machine, CampaignMachine)
        machine.wire()
        machine.address("eth0", f"{OWN}/24")
        machine.says: Callable[[Sequence[str]], Finished | None] = lambda _words: None
        machine.commands: list[str] = []
        machine.crossing = 1.0
        machine.lock = threading.Lock()
        machine.link("/proc/self/ns/net", "net:[4026531840]")
        machine.put("/sys/class/net/eth0/speed", "100000\n")
        machine.count("tx", 0)
        machine.count("rx", 0)
        return machine

    def count(self, way: str, number: int) -> None:
        self.put(f"/sys/class/net/eth0/statistics/{way}_bytes", f"{number}\n")

    def cross(self, way: str, number: int) -> None:
        """More bytes have crossed. Streams run beside each other, and each adds its own."""
        with self.lock:
            before = int(self.read(f"/sys/class/net/eth0/statistics/{way}_bytes"))
            self.count(way, before + number)

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        words = [*command[3:]] if command[0] == "timeout" else [*command]
        if words[0] not in ("iperf3", "busctl", "ethtool"):
            return super().run(command, seconds)
        self.commands.append(" ".join(words))
        said = self.says(words)
        if said is not None:
            return said
        if words[0] != "iperf3" or words[1] == "--version":
            return Finished(0, "", "")
        return served(OWN, PEER) if "-s" in words else self._measured(words)

    def _measured(self, words: Sequence[str]) -> Finished:
        done = measured(words)
        way = "rx" if "-R" in words else "tx"
        carried = json.loads(done.out)["end"]["sum_received"]["bytes"]
        self.cross(way, int(self.crossing * carried))
        return done


def measured(words: Sequence[str], change: Callable[[Any], object] = lambda _document: None) -> Finished:
    """Of a client with these words: 50 Mbit/s."""
    backward = "-R" in words
    name = "backward" if backward else "forward"
    document = copy.deepcopy(json.loads((FILES / f"{name}.json").read_text(encoding="utf-8")))
    change(document)
    return Finished(0, json.dumps(document), "")


def served(here: str, client: str) -> Finished:
    document = json.loads((FILES / "served.json").read_text(encoding="utf-8"))
    document["start"]["accepted_connection"]["host"] = client
    document["start"]["connected"][0].update(local_host=here, remote_host=client)
    return Finished(0, json.dumps(document), "")
