# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Path MTUs on real links between network namespaces, which are made for a test and go with it. No packet
leaves them.

    a – switch – b        10.9.0.0/24 and fd00:9::/64, all MTUs 9000 at first
    a – router – c        10.8.0.0/24 and 10.8.1.0/24, fd00:8::/64 and fd00:8:1::/64; the router has an MTU of
                          1400 towards c
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.system import namespaces
from mlnode.checks.model import Check, Verdict

SCRIPT = """
import json, sys
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks import path_mtu
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.host.host import Host
checks = path_mtu.measure(Host(), path_mtu.parse(*json.loads(sys.argv[1])))
print(json.dumps([check.document() for check in checks]))
"""

pytestmark = [pytest.mark.system, namespaces.needs_root]

B = ("10.9.0.2", "fd00:9::2")
C = ("10.8.1.3", "fd00:8:1::3")


class Net(namespaces.Net):
    def __init__(self) -> None:
        super().__init__("path")

    def add(self, name: str) -> None:
        super().add(name)
        # A link-local address could not be used for two seconds otherwise.
        self.sysctl(name, "net.ipv6.conf.default.accept_dad=0")

    def sysctl(self, name: str, setting: str) -> None:
        self.inside(name, "sysctl", "-qw", setting)

    def cable(self, one: str, device: str, other: str, port: str) -> None:
        words = f"link add {device} mtu 9000 type veth peer name {port} mtu 9000 netns {self.prefix + other}"
        self.ip(one, words)
        self.ip(one, f"link set {device} up")
        self.ip(other, f"link set {port} up")

    def switch_mtu(self, mtu: int) -> None:
        for device in ("pa", "pb", "br0"):
            self.ip("switch", f"link set {device} mtu {mtu}")

    def checks(
        self, *peers: Any, size: int | None = 9000, tries: int = 2, sender: str = "a", packets: int = 0
    ) -> list[Check]:
        # Half a second is a thousand times the way, and a busy machine still keeps up.
        asked = json.dumps([peers, size, tries, 0.5, packets])
        told = self.inside(sender, sys.executable, "-c", SCRIPT, asked)
        return [Check(**{**told, "verdict": Verdict(told["verdict"])}) for told in json.loads(told)]


@pytest.fixture(scope="module")
def ping() -> None:
    namespaces.need("ping", "iputils-ping")


@pytest.fixture
def net(ping: None) -> Iterator[Net]:
    made = Net()
    try:
        for name in ("a", "b", "c", "switch", "router"):
            made.add(name)
        made.ip("switch", "link add br0 mtu 9000 type bridge")
        made.ip("switch", "link set br0 up")
        for number, name in enumerate(("a", "b"), 1):
            made.cable(name, "eth0", "switch", f"p{name}")
            made.ip("switch", f"link set p{name} master br0")
            made.ip(name, f"addr add 10.9.0.{number}/24 dev eth0")
            made.ip(name, f"addr add fd00:9::{number}/64 dev eth0 nodad")
        for number, name in ((0, "a"), (1, "c")):
            made.cable(name, "eth1", "router", f"r{name}")
            made.ip(name, f"addr add 10.8.{number}.3/24 dev eth1")
            made.ip(name, f"addr add fd00:8:{number}::3/64 dev eth1 nodad")
            made.ip("router", f"addr add 10.8.{number}.1/24 dev r{name}")
            made.ip("router", f"addr add fd00:8:{number}::1/64 dev r{name} nodad")
            made.ip(name, f"route add 10.8.0.0/16 via 10.8.{number}.1")
            made.ip(name, f"route add fd00:8::/32 via fd00:8:{number}::1")
        for setting in ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"):
            made.sysctl("router", setting)
        made.ip("router", "link set rc mtu 1400")
        yield made
    finally:
        made.remove()


def verdicts(checks: list[Check]) -> list[Verdict]:
    return [check.verdict for check in checks]


def test_a_good_path_of_both_families_and_the_present_mtu(net: Net) -> None:
    for size in (9000, None):
        for check, here in zip(net.checks(*B, size=size), ("10.9.0.1", "fd00:9::1")):
            assert (check.verdict, check.found) == (Verdict.PASS, "packets of 9000 bytes arrive")
            assert check.source.endswith(f" from {here}")


def test_a_switch_that_drops_without_a_word(net: Net) -> None:
    net.switch_mtu(1500)

    for size in (9000, None):
        for check in net.checks(*B, size=size):
            expected = "packets of 9000 bytes do not arrive, 1500 do and 2044 do not"
            assert (check.verdict, check.found) == (Verdict.FAIL, expected)
    assert verdicts(net.checks(*B, size=1500)) == [Verdict.PASS] * 2


@pytest.mark.parametrize(
    ("mtu", "sizes"), [(1450, "1450 do and 1460 do not"), (4242, "4200 do and 8896"), (8999, "8950 do")]
)
def test_the_usual_sizes_around_it_are_named(net: Net, mtu: int, sizes: str) -> None:
    net.switch_mtu(mtu)

    for check in net.checks(*B):
        assert check.found.startswith(f"packets of 9000 bytes do not arrive, {sizes}")


def test_a_peer_with_a_smaller_interface(net: Net) -> None:
    net.ip("b", "link set eth0 mtu 1500")

    for check in net.checks(*B):
        assert check.found == "packets of 9000 bytes do not arrive, 1500 do and 2044 do not"
    for check in net.checks("10.9.0.1", "fd00:9::1", sender="b"):
        where = "do not leave this node, whose interface eth0 has an MTU of 1500; 1500 do"
        assert where in check.found


def test_a_router_with_a_smaller_link_is_named_and_then_remembered_by_the_kernel(net: Net) -> None:
    for check, router in zip(net.checks(*C, size=None), ("10.8.0.1", "fd00:8::1")):
        assert check.verdict is Verdict.FAIL
        assert check.found.startswith(
            "packets of 9000 bytes do not arrive, 1400 do and 1420 do not; " + router
        )
        assert "1400" in check.found.partition(" reports: ")[2]
    for check in net.checks(*C):
        assert "do not leave this node, which knows of an MTU of 1400 on the way; 1400 do" in check.found
        assert "ip route flush cache" in check.advice
    assert verdicts(net.checks(*C, size=1400)) == [Verdict.PASS] * 2


def test_peers_that_do_not_answer_icmp(net: Net) -> None:
    for setting in ("net.ipv4.icmp_echo_ignore_all=1", "net.ipv6.icmp.echo_ignore_all=1"):
        net.sysctl("b", setting)

    for check in net.checks(*B):
        expected = "no answer to packets of 9000 bytes, nor to small ones"
        assert (check.verdict, check.found) == (Verdict.UNKNOWN, expected)


def test_a_router_that_refuses(net: Net) -> None:
    net.ip("router", "route add prohibit 10.8.2.0/24")

    [check] = net.checks("10.8.2.3")

    assert check.verdict is Verdict.UNKNOWN
    assert check.found.endswith("nor to small ones; 10.8.0.1 reports: Packet filtered")


def test_interfaces_and_addresses_to_send_from(net: Net) -> None:
    found = net.checks(
        {"address": B[0], "interface": "eth0", "source": "10.9.0.1"},
        {"address": B[1], "interface": "eth0", "source": "fd00:9::1"},
        {"address": B[0], "interface": "eth1"},
        {"address": B[0], "interface": "eth7"},
        {"address": B[0], "source": "10.9.0.99"},
        {"address": B[0], "source": "fd00:9::1"},
        "10.9.0.77",
        "10.9.0.1",
        "10.9.0.255",
        "127.0.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "10.200.0.1",
        "fe80::1",
        "gpu.invalid",
        tries=8,  # the kernel looks three seconds for an address
    )
    assert [str(verdict) for verdict in verdicts(found)] == ["pass"] * 2 + ["unknown"] * 13
    words = (
        *("nor to small ones", 'Cannot find device "eth7"', "", "", "10.9.0.1 reports: Destination Host"),
        *(
            "a local address",
            "a broadcast address",
            "a local address",
            "a local address",
            "",
            "Network is unreachable",
        ),
        *("", "no such name"),
    )
    for check, word in zip(found[2:], words):
        assert word in check.found


def test_a_link_local_address_with_its_zone(net: Net) -> None:
    told = json.loads(net.inside("b", "ip", "-j", "addr", "show", "dev", "eth0"))[0]["addr_info"]
    [address] = [one["local"] for one in told if one["scope"] == "link"]

    found = net.checks(f"{address}%eth0", {"address": address, "interface": "eth0"})

    assert verdicts(found) == [Verdict.PASS] * 2


def test_a_rule_of_this_node_that_drops_echoes(net: Net) -> None:
    rule = ["iptables", "-A", "OUTPUT", "-p", "icmp", "-j", "DROP"]
    done = subprocess.run(["ip", "netns", "exec", f"{net.prefix}a", *rule], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("iptables does not work here")

    [check] = net.checks(B[0])

    assert check.verdict is Verdict.UNKNOWN
    assert "firewall" in check.advice


def test_a_fleet_is_measured_at_once(net: Net) -> None:
    peers = [f"10.9.{number // 250 + 1}.{number % 250 + 1}" for number in range(256)]
    batch = "".join(f"addr add {peer}/16 dev eth0\n" for peer in peers[:-1])
    with subprocess.Popen(
        ["ip", "-n", net.prefix + "b", "-batch", "-"], stdin=subprocess.PIPE, text=True
    ) as process:
        process.communicate(batch)
    net.ip("a", "addr add 10.9.250.250/16 dev eth0")

    found = net.checks(*peers)

    assert verdicts(found) == [Verdict.PASS] * 255 + [Verdict.UNKNOWN]


def test_lost_packets_are_counted(net: Net) -> None:
    good = net.checks(*B, packets=100)
    net.loses("b", 10)
    lossy = net.checks(*B, packets=100, tries=8)
    # The echo comes back by the same way.
    back = net.checks("10.9.0.1", sender="b", packets=100, tries=8)

    assert verdicts(good) == [Verdict.PASS] * 2
    assert verdicts([*lossy, *back]) == [Verdict.FAIL] * 3
    for check in (*lossy, *back):
        assert re.search(
            r"packets of 9000 bytes arrive; \d+ of \d+ packets of 9000 bytes were lost", check.found
        )


NODES = {"a": {"path_mtu_address": ["10.9.0.1", "fd00:9::1"]}, "b": {"ansible_host": "10.9.0.2"}}
PLAY = ("path_mtu.yml", "pair", NODES, "-e", "path_mtu_group=pair")


def test_the_playbook_names_every_path_of_two_nodes(net: Net, tmp_path: pathlib.Path) -> None:
    net.switch_mtu(1500)

    done = net.play(tmp_path, *PLAY)

    assert done.returncode == 2, done.stdout + done.stderr
    told = " ".join(done.stdout.split())
    for path in ("a -> b 10.9.0.2", "b -> a 10.9.0.1", "b -> a fd00:9::1"):
        assert f"path {path}: packets of 9000 bytes do not arrive, 1500 do and 2044 do not" in told
    assert "changed=1" not in told

    done = net.play(tmp_path, *PLAY, "-e", "path_mtu_size=1500")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "pass: 2 of 2 nodes sent packets, 3 of 3 ways are as expected" in done.stdout


def test_the_playbook_blames_a_node_before_paths(ping: None, tmp_path: pathlib.Path) -> None:
    net = namespaces.Net("path-fleet")
    names = [f"node{number}" for number in range(1, 6)]
    hosts = {name: {"path_mtu_address": f"10.9.0.{at}"} for at, name in enumerate(names, 1)}
    # One that cannot be managed is still sent to.
    hosts["node5"] = {**hosts["node5"], "ansible_shell_executable": "/nowhere"}
    try:
        net.switch(9000, names)
        net.ip("switch", "link set node2 mtu 1500")
        net.drops("node4", "ip saddr 10.9.0.3 meta length > 1600")
        done = net.play(tmp_path, "path_mtu.yml", "nodes", hosts, "-e", "path_mtu_group=nodes")
    finally:
        net.remove()

    assert done.returncode == 2, done.stdout + done.stderr
    told = " ".join(done.stdout.split())
    # An echo needs both ways, so that a packet which is dropped in one direction is missed by both ends.
    assert (
        "fail node node2 to 3 of 4 others, from 3 of 3" in told or "fail node node2 to 4 of 4 others" in told
    )
    assert "fail path node3 -> node4 10.9.0.4: packets of 9000 bytes do not arrive, 1500 do" in told
    assert "unknown node node5 not checked:" in told
