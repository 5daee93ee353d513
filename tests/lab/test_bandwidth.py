# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""perftest itself, between the Soft-RoCE devices of two machines on one cable.

How fast it is means nothing on emulated CPUs; that it is measured, judged and ended does.
"""

from __future__ import annotations

import json
import pathlib
import time

import jsonschema  # type: ignore[import-untyped]  # it has no types
import pytest

from . import guest_facts as facts
from .collection import Collection, Hosts
from .machine import Machine

pytestmark = pytest.mark.long

SCHEMA = pathlib.Path(__file__).parents[2] / "docs/schema/campaign.schema.json"

NODE, PEER = "10.9.0.2", "10.9.0.1"

#: What any machine reaches, in Gb/s
LITTLE = 0.001


class Pair:
    """Two machines, each with rxe0 over the NIC at its end of the cable."""

    def __init__(self, node: Machine, peer: Machine) -> None:
        self.node = node
        self.peer = peer
        # On the same cable, and would answer for the address of another NIC (ip-sysctl.rst, arp_ignore).
        for driver in ("igb", "vmxnet3"):
            node.run(f"ip link set {facts.nic(node, driver)} down")
        node.run(f"ip address add {NODE}/24 dev {facts.nic(node, 'e1000e')}")
        nic = peer.out("ls -d /sys/class/net/*/device/driver | cut -d/ -f5 | tail -n 1")
        assert peer.read(f"/sys/class/net/{nic}/address") == "52:54:00:6c:61:09"
        peer.run(f"ip link set {nic} up && ip address add {PEER}/24 dev {nic}")
        peer.run(f"modprobe rdma_rxe && rdma link add rxe0 type rxe netdev {nic}")
        self.wake()
        reach = f"timeout 3 bash -c '</dev/tcp/{PEER}/22'"
        facts.until(lambda: node.run(reach, check=False).returncode == 0, "the peer is reached")

    def wake(self) -> None:
        self.node.resume()
        self.peer.resume()

    def both(self) -> Hosts:
        self.wake()
        ends = {"lab": (self.node, NODE), "peer": (self.peer, PEER)}
        return Hosts(
            self.node.folder,
            {
                name: {**Hosts.of(machine).variables["lab"], "campaign_addresses": [address]}
                for name, (machine, address) in ends.items()
            },
        )

    def assert_nothing_runs(self) -> None:
        for machine in (self.node, self.peer):
            assert machine.run("pgrep -a ib_write_bw", check=False).stdout == ""


def packets(machine: Machine) -> int:
    """That rxe0 has sent so far."""
    return int(machine.read("/sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts"))


@pytest.fixture(scope="module")
def pair(baremetal: Machine, peer: Machine, collection: Collection) -> Pair:
    """With the agent, as tuned nodes are."""
    made = Pair(baremetal, peer)
    assert collection.task("agent", made.both()).status == 0
    return made


def test_a_campaign_proves_that_it_was_rdma(pair: Pair, collection: Collection) -> None:
    """Of two nodes no limit is known, so that the fleet stays unknown; the pair is measured all the same."""
    hosts = pair.both()
    for machine in (pair.node, pair.peer):  # which have stood still while they were not needed
        machine.run(f"date --set @{time.time():.3f}")
    sent = packets(pair.node), packets(pair.peer)
    # An emulated machine compiles a module for a minute.
    options = {
        "campaign_group": "training",
        # Twice the usual duration: in five seconds perftest may take no sample at all.
        "campaign_duration": 10,
        "campaign_lead": 90,
        "campaign_timeout": 300,
    }
    options.update(campaign_second_look=False, campaign_results=str(hosts.folder))
    played = collection.play("rdma_bandwidth", hosts, **options)
    pair.assert_nothing_runs()
    [path] = hosts.folder.glob("2*-*.json")
    document = json.loads(path.read_text())
    jsonschema.validate(document, json.loads(SCHEMA.read_text(encoding="utf-8")))
    [measured] = document["pairs"]
    assert measured["reason"].endswith("no port has a rate, and fewer than 5 pairs are like this one")
    assert measured["gbits"] > LITTLE
    assert measured["evidence"]["interface"] == "rxe0/1"
    assert " -x 1 " in measured["evidence"]["command"]
    assert all(now > before for now, before in zip((packets(pair.node), packets(pair.peer)), sent))
    assert (played.status, document["verdict"]) == (2, "unknown")
