# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""perftest itself, between the Soft-RoCE devices of two machines on one cable.

How fast it is means nothing on emulated CPUs; that it is measured, judged and ended does.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import time
from collections.abc import Mapping
from typing import Any

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

#: Beside the seconds of a measurement and of waiting, see perftest.py
AROUND = 30


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

    def serving(self, collection: Collection, **options: Any) -> subprocess.Popen[str]:
        self.wake()
        arguments = {"device": "rxe0", "serve": True, "least": LITTLE, **options}
        return collection.start_task("rdma_bandwidth", self.peer, **arguments)

    def both(self, **of_the_node: Any) -> Hosts:
        """of_the_node: variables that the peer has not."""
        self.wake()
        ends = {"lab": (self.node, NODE, of_the_node), "peer": (self.peer, PEER, {})}
        return Hosts(
            self.node.folder,
            {
                name: {
                    **Hosts.of(machine).variables["lab"],
                    "campaign_addresses": [address],
                    **more,
                }
                for name, (machine, address, more) in ends.items()
            },
        )

    def assert_nothing_runs(self) -> None:
        for machine in (self.node, self.peer):
            assert machine.run("pgrep -a ib_write_bw", check=False).stdout == ""


def packets(machine: Machine) -> int:
    """That rxe0 has sent so far."""
    return int(machine.read("/sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts"))


@pytest.fixture(scope="module")
def bare(baremetal: Machine, peer: Machine) -> Pair:
    """Without an agent, so that they compile the library for each task."""
    return Pair(baremetal, peer)


@pytest.fixture(scope="module")
def pair(bare: Pair, collection: Collection) -> Pair:
    """With the agent, as tuned nodes are."""
    assert collection.task("agent", bare.both()).status == 0
    return bare


def the_check(result: Mapping[str, Any]) -> dict[str, Any]:
    [check] = result["checks"]
    return dict(check)


# -- without an agent, so before those that install it -----------------------------------


def test_nothing_is_measured_under_what_runs(bare: Pair, collection: Collection) -> None:
    bare.node.run("sh -c 'exec 9<>/dev/infiniband/uverbs0; exec sleep 600' >/dev/null 2>&1 &")
    played = collection.task("rdma_bandwidth", bare.node, device="rxe0", peer=PEER, least=LITTLE)
    bare.node.run("pkill -x sleep")
    assert played.status != 0
    assert "this takes the whole link, under what runs here: pid " in played.result["msg"]
    assert (
        "(sleep) holds /dev/infiniband/uverbs0; to do it all the same: allow: [busy]" in played.result["msg"]
    )


def test_a_server_ends_although_nobody_comes_and_its_module_was_killed(
    bare: Pair, collection: Collection
) -> None:
    server = bare.serving(collection, timeout=0)
    began = time.monotonic()
    facts.until(lambda: bare.peer.run("pgrep ib_write_bw", check=False).returncode == 0, "it serves")
    # The module is the parent of timeout(1), which is that of the program.
    bare.peer.run("kill -9 $(ps -o ppid= -p $(ps -o ppid= -p $(pgrep ib_write_bw)))")
    server.communicate(timeout=120)
    assert server.returncode != 0
    facts.until(
        lambda: bare.peer.run("pgrep ib_write_bw", check=False).returncode != 0, "it has ended", AROUND + 60
    )
    assert time.monotonic() - began > 5 + AROUND - 10


# -- with the agent ------------------------------------------------------------------------


def test_bandwidth_is_measured_and_judged(pair: Pair, collection: Collection) -> None:
    """Against little; against much, and against nothing, a playbook does it below."""
    server = pair.serving(collection)
    played = collection.task("rdma_bandwidth", pair.node, device="rxe0", peer=PEER, least=LITTLE)
    output, _nothing = server.communicate(timeout=300)
    print(output)
    check = the_check(played.result)
    assert (played.status, check["verdict"]) == (0, "pass"), check
    assert played.result["gbits"] > 0
    assert f"{played.result['gbits']:g} Gb/s" in check["found"]
    # The second entry is that of the IPv4 address: the first is link-local.
    assert " -x 1 " in check["source"]
    assert server.returncode == 0
    pair.assert_nothing_runs()


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


def test_nobody_serves(pair: Pair, collection: Collection) -> None:
    played = collection.task("rdma_bandwidth", pair.node, device="rxe0", peer=PEER, least=LITTLE, timeout=3)
    assert played.status != 0
    check = the_check(played.result)
    assert check["verdict"] == "unknown"
    assert f"Couldn't connect to {PEER}:18515" in check["found"]
    assert "start the other side first" in check["advice"]


def test_a_gid_that_is_not_there(pair: Pair, collection: Collection) -> None:
    server = pair.serving(collection)
    arguments = {"device": "rxe0", "peer": PEER, "least": LITTLE, "gid_index": 9}
    played = collection.task("rdma_bandwidth", pair.node, **arguments)
    server.communicate(timeout=300)
    assert played.status != 0
    check = the_check(played.result)
    assert (check["verdict"], "gbits" in played.result) == ("unknown", False)
    assert check["found"] == "ib_write_bw: Found Incompatibility issue with GID types."
    assert "compare GID index" in check["advice"]
    pair.assert_nothing_runs()
