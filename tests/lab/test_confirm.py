# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that is managed over the very NIC that is changed, through a network that may drop large packets.

The node is `baremetal`, its igb the only way to it for Ansible. `peer` is the other end of that cable: a jump
host, and inside of it a switch whose ports take packets of 1500 bytes or of 9000. Both ends of a connection
know nothing of the switch: once the node has an MTU of 9000 as well, they agree on packets that never arrive.
The tests themselves look at the node over its other NIC, which has no part in it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest

from . import guest_facts as facts
from .collection import Collection, Hosts, Played
from .machine import Machine

SWITCH, NODE = "10.9.0.1", "10.9.0.2"
SMALL, LARGE = 1500, 9000

#: How long a change waits to be confirmed
SECONDS = 30
#: The same where it is to be confirmed: on a busy machine a play needs more than those for a new connection
PATIENT_SECONDS = 120

NAME = "lab"
DECLARED = f"/etc/mlnode/declared.d/{NAME}.json"
PENDING = "/var/lib/mlnode/confirm.json"
#: What is to undo a change that is not confirmed
UNDOES = "systemctl list-units --plain --no-legend 'mlnode-undo-*.timer'"

NETWORK = f"""\
[Match]
MACAddress=52:54:00:6c:61:01

[Network]
Address={NODE}/24
Gateway={SWITCH}
LinkLocalAddressing=no
"""

#: It is on the same cable, and would answer for the address of another NIC (ip-sysctl.rst, arp_ignore).
OTHER = """\
[Match]
MACAddress=52:54:00:6c:61:02

[Link]
ActivationPolicy=always-down
"""

#: A host is at one end of a veth, a switch of two ports in a namespace of its own at the other. Packets that
#: were joined, or are to be cut later, pass any port: so nothing joins or cuts them here, as no real switch
#: does.
CABLING = """
set -e
ip netns add switch
ip link add host type veth peer name port0 netns switch
ip link set {nic} netns switch name port1
ip -n switch link add bridge type bridge
for port in port0 port1; do
    ip -n switch link set $port master bridge up
    ip netns exec switch ethtool -K $port gro off gso off tso off
done
ip -n switch link set bridge up
ethtool -K host gso off tso off gro off
ip address add {switch}/24 dev host
ip link set host up
"""


class Network:
    """The node, and what it is reached through."""

    def __init__(self, node: Machine, peer: Machine) -> None:
        self.node = node
        self.peer = peer
        self.nic = facts.nic(node, "igb")
        node.write("/etc/systemd/network/20-path.network", NETWORK)
        node.write("/etc/systemd/network/20-other.network", OTHER)
        node.run("networkctl reload")
        nic = peer.out("ls -d /sys/class/net/*/device/driver | cut -d/ -f5 | tail -n 1")
        assert peer.read(f"/sys/class/net/{nic}/address") == "52:54:00:6c:61:09"
        peer.run(CABLING.format(nic=nic, switch=SWITCH))
        facts.until(self.carries, "the node is reached")

    def wake(self) -> None:
        """Machines sleep until they are spoken to."""
        self.node.resume()
        self.peer.resume()

    def takes(self, size: int) -> None:
        """What the switch lets through."""
        for port in ("port0", "port1"):
            self.peer.run(f"ip -n switch link set {port} mtu {size}")

    def offers(self, size: int) -> None:
        """What the host at the other end takes."""
        self.peer.run(f"ip link set host mtu {size}")

    @property
    def mtu(self) -> int:
        return int(self.node.read(f"/sys/class/net/{self.nic}/mtu"))

    @property
    def options(self) -> list[str]:
        """For an SSH connection over the network under test, which shares nothing with another one."""
        jump = shlex.join(self.peer.ssh("-W", "[%h]:%p", "root@127.0.0.1"))
        options = (
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
            "LogLevel=ERROR",
            "BatchMode=yes",
        )
        words = [word for option in (*options, f"ProxyCommand={jump}") for word in ("-o", option)]
        return ["-F", "none", "-i", str(self.node.folder / "key"), *words]

    def hosts(self) -> Hosts:
        """The node as Ansible has it by default, but for the jump host."""
        self.wake()
        node = {
            "ansible_host": NODE,
            "ansible_user": "root",
            "ansible_ssh_common_args": shlex.join(self.options),
            "ansible_python_interpreter": "/usr/bin/python3",
        }
        return Hosts(self.node.folder, {"lab": node})

    def both(self) -> Hosts:
        """Both ends, by the ways that always work; each is told where the other one is."""
        ends = {"lab": (self.node, NODE), "peer": (self.peer, SWITCH)}
        return Hosts(
            self.node.folder,
            {
                name: {**Hosts.of(machine).variables["lab"], "path_mtu_address": address}
                for name, (machine, address) in ends.items()
            },
        )

    def carries(self) -> bool:
        """Whether a connection of its own brings many full packets of the present MTU, both ways."""
        self.wake()
        sent = os.urandom(300_000)
        words = ["ssh", *self.options, "-o", "ConnectTimeout=10", f"root@{NODE}", "cat"]
        try:
            done = subprocess.run(words, input=sent, capture_output=True, timeout=20, check=False)
        except subprocess.TimeoutExpired:
            return False
        return done.stdout == sent

    def hang_up(self) -> None:
        """Connections that Ansible keeps for its next run, to a node that knows nothing of them any more."""
        shutil.rmtree(self.node.folder / "ansible/cp", ignore_errors=True)

    def assert_unchanged(self, declared: str = "") -> None:
        """Nothing is left of a change of the MTU, and nothing waits. declared: what was before."""
        assert self.mtu == SMALL
        for path, content in ((DECLARED, declared), (PENDING, "")):
            assert self.node.out(f"cat {path} 2>/dev/null || true") == content
        facts.until(self.carries, "the node is reached as before")


@pytest.fixture(scope="module")
def network(baremetal: Machine, peer: Machine) -> Network:
    return Network(baremetal, peer)


def arguments(network: Network, **knobs: Any) -> dict[str, Any]:
    rule = {"name": "path", "nics": {"names": [network.nic]}, **knobs}
    return {"name": NAME, "rules": [rule], "allow": ["management"], "confirm_seconds": SECONDS}


def declare(
    collection: Collection, network: Network, options: Mapping[str, Any] | None = None, **knobs: Any
) -> Played:
    """A rule for the NIC under test, over it. options: of the module, instead of those of arguments()."""
    return collection.task(
        "nic_ethtool", network.hosts(), **{**arguments(network, **knobs), **(options or {})}
    )


# -- before anything is changed ------------------------------------------------------------


def test_the_present_mtu_passes_both_ways(network: Network, collection: Collection) -> None:
    played = collection.play("path_mtu", network.both())
    assert played.status == 0
    assert "pass: 2 of 2 nodes sent packets" in played.output


def test_a_peer_that_offers_more_than_the_switch_takes_is_named(
    network: Network, collection: Collection
) -> None:
    network.offers(LARGE)
    played = collection.play("path_mtu", network.both())
    assert played.status != 0
    lines = " ".join(played.output.split())
    assert f"path peer -> lab {NODE}: packets of {LARGE} bytes do not arrive, {SMALL} do" in lines
    assert "path lab -> peer" not in played.output


def test_without_permission_nothing_is_changed(network: Network, collection: Collection) -> None:
    wanted = {**arguments(network, mtu=LARGE), "allow": []}
    played = collection.task("nic_ethtool", network.hosts(), **wanted)
    assert played.status != 0
    assert f"{network.nic}: it carries the default route" in played.result["msg"]
    assert "allow: [management]" in played.result["msg"]
    # It is declared all the same, and the agent would be refused it as well.
    assert network.mtu == SMALL
    assert json.loads(network.node.out(f"cat {DECLARED}"))["kinds"]["nic"]["rules"] == wanted["rules"]
    assert collection.task("nic_ethtool", network.hosts(), name=NAME).status == 0
    network.assert_unchanged()


def test_without_the_agent_nothing_is_changed_as_nothing_could_undo_it(
    network: Network, collection: Collection
) -> None:
    played = declare(collection, network, mtu=LARGE)
    assert played.status != 0
    assert "install the agent first" in played.result["msg"]
    network.assert_unchanged()
    assert collection.task("agent", network.hosts()).status == 0


# -- a path that does not bear it ----------------------------------------------------------


def test_a_change_that_cuts_the_path_undoes_itself(network: Network, collection: Collection) -> None:
    played = declare(collection, network, mtu=LARGE)
    assert played.status != 0
    message = " ".join(played.result["msg"].split())
    assert f"the change of {NAME} (nic.path.mtu from {SMALL} to {LARGE}) was undone at" in message
    assert f"it was not confirmed over a new connection within {SECONDS} s" in message
    assert "mlnode.tuning.path_mtu" in message
    network.assert_unchanged()


def test_the_next_run_tells_once_what_was_undone(network: Network, collection: Collection) -> None:
    assert "was undone at" in network.node.run("mlnode status", check=False).stderr
    played = declare(collection, network, tx_queue_len=900)
    assert played.status == 0
    assert any("was undone at" in words for words in played.result["warnings"])
    again = declare(collection, network, tx_queue_len=900)
    assert (again.status, again.changed) == (0, 0)
    assert "was undone at" not in again.output


@pytest.mark.long
def test_the_power_fails_before_it_is_confirmed(network: Network, collection: Collection) -> None:
    kept = network.node.read(DECLARED)
    wanted = arguments(network, tx_queue_len=900, mtu=LARGE)
    playing = collection.start_task("nic_ethtool", network.hosts(), **wanted)
    facts.until(lambda: network.node.read(DECLARED) != kept, "the change is made")
    assert network.mtu == LARGE
    assert network.node.run(f"test -s {PENDING}", check=False).returncode == 0
    assert network.node.out(UNDOES) != ""
    network.node.cut_power()
    network.node.start()
    playing.kill()
    playing.communicate()
    network.hang_up()
    network.assert_unchanged(kept)
    assert facts.wrong(network.node) == {}
    network.node.assert_no_unit_failed()
    assert network.node.out("systemctl is-system-running") == "running"
    assert "as the node was booted before it was confirmed" in network.node.run("mlnode status").stderr


# -- a path that does ----------------------------------------------------------------------


def test_a_change_that_works_is_confirmed_and_stays(network: Network, collection: Collection) -> None:
    network.takes(LARGE)
    patiently = {"confirm_seconds": PATIENT_SECONDS}
    played = declare(collection, network, patiently, mtu=LARGE)
    assert (played.status, played.result["confirmed"]) == (0, True)
    assert network.carries()
    # Both reset the link below the connection.
    more = {"mtu": LARGE, "rings": 1024, "channels": 2}
    played = declare(collection, network, patiently, **more)
    assert (played.status, played.result["confirmed"]) == (0, True)
    assert network.node.out(UNDOES) == "", "what would undo it later is stopped"
    assert network.mtu == LARGE
    knobs = facts.nics(network.node)[network.nic]
    assert [knobs[name] for name in ("rings.rx", "rings.tx", "channels.combined")] == ["1024", "1024", "2"]
    assert network.carries()
    assert network.node.run(f"test -e {PENDING}", check=False).returncode == 1
    again = declare(collection, network, patiently, **more)
    assert (again.status, again.changed, again.result["confirm"]) == (0, 0, {})


def test_after_the_change_all_of_it_is_proven(network: Network, collection: Collection) -> None:
    assert collection.play("path_mtu", network.both(), path_mtu_size=LARGE).status == 0
    network.takes(SMALL)
    played = collection.play("path_mtu", network.both(), path_mtu_size=LARGE)
    network.takes(LARGE)
    assert played.status != 0
    lines = " ".join(played.output.split())
    for path in (f"peer -> lab {NODE}", f"lab -> peer {SWITCH}"):
        assert f"path {path}: packets of {LARGE} bytes do not arrive, {SMALL} do" in lines
