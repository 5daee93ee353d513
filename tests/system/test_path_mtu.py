# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Path MTUs on real links between network namespaces, which are made for a test and go with it. No packet
leaves them.

    a – switch – b        10.9.0.0/24 and fd00:9::/64, all MTUs 9000 at first
    a – router – c        10.8.0.0/24 and 10.8.1.0/24, fd00:8::/64 and fd00:8:1::/64; the router has an MTU of
                          1400 towards c
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, TypeVar

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode import icmp, path_mtu
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.path_mtu import Check
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.path_search import Verdict

T = TypeVar("T")

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = "ansible_collections.mlnode.tuning.plugins.module_utils.mlnode"
CLONE_NEWNET = 0x40000000  # linux/sched.h

pytestmark = [pytest.mark.system, pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces")]

B = ("10.9.0.2", "fd00:9::2")
C = ("10.8.1.3", "fd00:8:1::3")


def run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout


class Net:
    def __init__(self) -> None:
        self.prefix = f"mlnode-path-{os.getpid()}-"
        self.names: list[str] = []

    def add(self, name: str) -> None:
        run("ip", "netns", "add", self.prefix + name)
        self.names.append(name)
        self.ip(name, "link set lo up")
        # A link-local address could not be used for two seconds otherwise.
        self.sysctl(name, "net.ipv6.conf.default.accept_dad=0")

    def ip(self, name: str, words: str) -> None:
        run("ip", "-n", self.prefix + name, *words.split())

    def sysctl(self, name: str, setting: str) -> None:
        run("ip", "netns", "exec", self.prefix + name, "sysctl", "-qw", setting)

    def cable(self, one: str, device: str, other: str, port: str) -> None:
        words = f"link add {device} mtu 9000 type veth peer name {port} mtu 9000 netns {self.prefix + other}"
        self.ip(one, words)
        self.ip(one, f"link set {device} up")
        self.ip(other, f"link set {port} up")

    def switch_mtu(self, mtu: int) -> None:
        for device in ("pa", "pb", "br0"):
            self.ip("switch", f"link set {device} mtu {mtu}")

    def inside(self, name: str, do: Callable[[], T]) -> T:
        """What do() returns in a namespace, which only its own thread enters."""
        libc = ctypes.CDLL(None, use_errno=True)

        def enter() -> T:
            with open(f"/run/netns/{self.prefix}{name}") as namespace:
                assert libc.setns(namespace.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
            return do()

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(enter).result()

    def checks(self, *peers: Any, size: int | None = 9000, tries: int = 2, sender: str = "a") -> list[Check]:
        def measure() -> list[Check]:
            with closing(icmp.Network()) as network:
                # Half a second is a thousand times the way, and a busy machine still keeps up.
                return path_mtu.measure(path_mtu.parse(peers, size, tries, 0.5), network)

        return self.inside(sender, measure)

    def remove(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", self.prefix + name], check=False)


@pytest.fixture
def net() -> Iterator[Net]:
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
        for check, peer, here in zip(net.checks(*B, size=size), B, ("10.9.0.1", "fd00:9::1")):
            assert str(check) == f"{peer}: packets of 9000 bytes arrive"
            assert (check.verdict, check.source) == (Verdict.PASS, f"ICMP echo, don't fragment, from {here}")


def test_a_switch_that_drops_without_a_word(net: Net) -> None:
    net.switch_mtu(1500)

    for size in (9000, None):
        for check, peer in zip(net.checks(*B, size=size), B):
            expected = f"{peer}: packets of 9000 bytes do not arrive, 1500 do (the largest that passes)"
            assert str(check) == expected
            assert check.verdict is Verdict.FAIL
    assert verdicts(net.checks(*B, size=1500)) == [Verdict.PASS] * 2


@pytest.mark.parametrize("mtu", [1450, 4242, 8999])
def test_the_largest_is_exact(net: Net, mtu: int) -> None:
    net.switch_mtu(mtu)

    for check in net.checks(*B, tries=1):
        assert f", {mtu} do (the largest that passes)" in check.found


def test_a_peer_with_a_smaller_interface(net: Net) -> None:
    net.ip("b", "link set eth0 mtu 1500")

    for check in net.checks(*B):
        assert check.found == "packets of 9000 bytes do not arrive, 1500 do (the largest that passes)"
    for check in net.checks("10.9.0.1", "fd00:9::1", sender="b"):
        assert "do not leave this node, whose interface has an MTU of 1500; 1500 do" in check.found


def test_a_router_with_a_smaller_link_is_named(net: Net) -> None:
    for size in (9000, None):
        for check, router in zip(net.checks(*C, size=size), ("10.8.0.1", "fd00:8::1")):
            assert check.verdict is Verdict.FAIL
            assert check.found == (
                "packets of 9000 bytes do not arrive, 1400 do (the largest that passes); "
                f"{router} says: its next link has an MTU of 1400"
            )
    assert verdicts(net.checks(*C, size=1400)) == [Verdict.PASS] * 2


def test_what_the_kernel_has_learned_of_a_mended_path_is_not_believed(net: Net) -> None:
    assert verdicts(net.checks(*C)) == [Verdict.FAIL] * 2
    net.ip("router", "link set rc mtu 9000")

    assert verdicts(net.checks(*C)) == [Verdict.PASS] * 2
    assert verdicts(net.checks(*C, size=None)) == [Verdict.PASS] * 2


def test_answers_that_come_back_in_fragments(net: Net) -> None:
    net.ip("b", "route add 10.9.0.1/32 dev eth0 mtu lock 1500")
    net.ip("b", "route add fd00:9::1/128 dev eth0 mtu lock 1500")

    for check in net.checks(*B):
        # Fragments have a multiple of 8 bytes.
        assert check.found.startswith(
            "packets of 9000 bytes arrive, but their answers come in fragments of 1"
        )
        assert check.found.endswith(" bytes; 1500 come back whole (the largest that do)")


def test_peers_that_do_not_answer_icmp(net: Net) -> None:
    for setting in ("net.ipv4.icmp_echo_ignore_all=1", "net.ipv6.icmp.echo_ignore_all=1"):
        net.sysctl("b", setting)

    for check in net.checks(*B):
        assert check.verdict is Verdict.UNREACHABLE
        assert check.found == "no answer to packets of 9000 bytes, nor to small ones"


def test_addresses_that_nobody_has(net: Net) -> None:
    [check] = net.checks("10.9.0.77", tries=4)  # the kernel gives up after three seconds

    assert check.verdict is Verdict.UNREACHABLE
    assert check.found.endswith("nobody on the link has this address")


def test_a_router_that_refuses(net: Net) -> None:
    net.ip("router", "route add prohibit 10.8.2.0/24")

    [check] = net.checks("10.8.2.3")

    assert check.verdict is Verdict.UNREACHABLE
    assert check.found.endswith("; 10.8.0.1 says: administratively prohibited")


def test_interfaces_and_addresses_to_send_from(net: Net) -> None:
    found = net.checks(
        {"address": B[0], "interface": "eth0", "source": "10.9.0.1"},
        {"address": B[0], "interface": "eth1"},
        {"address": B[0], "interface": "eth7"},
        {"address": B[0], "interface": "x" * 40},
        {"address": B[0], "source": "10.9.0.99"},
        "fe80::1",
        "10.9.0.1",
        "10.9.0.255",
        "10.200.0.1",
    )
    assert [str(verdict) for verdict in verdicts(found)] == ["pass", "unreachable", *["error"] * 7]
    assert "ENODEV" in found[2].found
    assert "EADDRNOTAVAIL" in found[4].found
    assert "the node itself" in found[6].found
    assert "ENETUNREACH" in found[8].found


def test_a_link_local_address_with_its_zone(net: Net) -> None:
    told = json.loads(run("ip", "-n", net.prefix + "b", "-j", "addr", "show", "dev", "eth0"))[0]["addr_info"]
    [address] = [one["local"] for one in told if one["scope"] == "link"]

    found = net.checks(f"{address}%eth0", {"address": address, "interface": "eth0"})

    assert verdicts(found) == [Verdict.PASS] * 2


def test_a_fleet_is_measured_at_once(net: Net) -> None:
    peers = [f"10.9.{number // 250 + 1}.{number % 250 + 1}" for number in range(512)]
    batch = "".join(f"addr add {peer}/16 dev eth0\n" for peer in peers[:-1])
    with subprocess.Popen(
        ["ip", "-n", net.prefix + "b", "-batch", "-"], stdin=subprocess.PIPE, text=True
    ) as process:
        process.communicate(batch)
    net.ip("a", "addr add 10.9.250.250/16 dev eth0")

    found = net.checks(*peers)

    assert verdicts(found) == [Verdict.PASS] * 511 + [Verdict.UNREACHABLE]


SCRIPT = f"""
import json, sys
from contextlib import closing
from {LIBRARY} import icmp, path_mtu
with closing(icmp.Network()) as network:
    request = path_mtu.parse(sys.argv[1:], 9000, 2, 0.5)
    print(json.dumps([check.document() for check in path_mtu.measure(request, network)]))
"""


def as_nobody(net: Net, *peers: str) -> list[dict[str, str]]:
    # 65534 is nobody on all distributions.
    setpriv = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    command = ["ip", "netns", "exec", f"{net.prefix}a", *setpriv, sys.executable, "-c", SCRIPT, *peers]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".ansible/collections")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, str]] = json.loads(done.stdout)
    return found


def lies(kind: int, request: tuple[int, int, int, bytes]) -> list[bytes]:
    """Answers to a request that are all not quite right."""
    _kind, identifier, sequence, data = request
    quoted = b"\x45" + bytes(8) + b"\x01" + bytes(2) + bytes([10, 9, 0, 1, 10, 9, 0, 2])
    other = (
        struct.pack("!BBHHH", 3, 4, 0, 0, 576) + quoted + icmp.pack(8, identifier ^ 1, sequence, data)[:100]
    )
    return [
        os.urandom(len(data)),
        bytes(4),
        icmp.pack(kind, identifier, sequence, data[:-1] + b"\1"),
        icmp.pack(kind, identifier, sequence, data[:-8]),
        icmp.pack(kind, identifier, sequence, b""),
        icmp.pack(kind, identifier ^ 1, sequence, data),
        icmp.pack(kind, identifier, sequence ^ 0x8000, data),
        icmp.pack(13, identifier, sequence, data),
        other[:2] + icmp.checksum(other).to_bytes(2, "big") + other[4:],  # of the packet of another program
    ]


@contextlib.contextmanager
def liar(net: Net) -> Iterator[None]:
    """b answers no echo itself, and a program on it lies; from another address it tells the truth."""
    for setting in ("net.ipv4.icmp_echo_ignore_all=1", "net.ipv6.icmp.echo_ignore_all=1"):
        net.sysctl("b", setting)
    net.ip("b", "addr add 10.9.0.99/24 dev eth0")
    done = threading.Event()
    heard: set[int] = set()

    def answer(family: icmp.Family, receiver: socket.socket, other: socket.socket | None) -> None:
        try:
            packet, sender = receiver.recvfrom(icmp.LONGEST)
        except TimeoutError:
            return
        request = icmp.unpack(icmp.without_header(packet) if family is icmp.V4 else packet)
        if not request or request[0] != family.request:
            return
        heard.add(family.number)
        for message in lies(family.reply, request):
            receiver.sendto(message, sender)
        if other:
            other.sendto(icmp.pack(family.reply, *request[1:]), sender)

    def lie() -> None:
        with contextlib.ExitStack() as stack:
            four, six, other = (
                stack.enter_context(socket.socket(family.number, socket.SOCK_RAW, family.protocol))
                for family in (icmp.V4, icmp.V6, icmp.V4)
            )
            four.bind(("10.9.0.2", 0))
            other.bind(("10.9.0.99", 0))
            for receiver in (four, six):
                receiver.settimeout(0.01)
            while not done.is_set():
                answer(icmp.V4, four, other)
                answer(icmp.V6, six, None)

    with ThreadPoolExecutor(1) as pool:
        lying = pool.submit(net.inside, "b", lie)
        try:
            yield
        finally:
            done.set()
            lying.result()
    assert heard == {icmp.V4.number, icmp.V6.number}


def test_nobody_is_fooled_by_lies(net: Net) -> None:
    with liar(net):
        expected = ["no answer to packets of 9000 bytes, nor to small ones"] * 2
        assert [check.found for check in net.checks(*B)] == expected
        net.sysctl("a", "net.ipv4.ping_group_range=0 2147483647")
        assert [check["found"] for check in as_nobody(net, *B)] == expected


@pytest.mark.parametrize("raw", [True, False])
def test_the_error_of_an_earlier_packet_is_not_taken_for_one_of_the_next(
    net: Net, monkeypatch: pytest.MonkeyPatch, raw: bool
) -> None:
    kind = socket.SOCK_RAW if raw else socket.SOCK_DGRAM
    net.sysctl("a", "net.ipv4.ping_group_range=0 2147483647")
    monkeypatch.setattr(
        icmp, "_open", lambda family: (socket.socket(family.number, kind, family.protocol), raw)
    )

    def twice(peer: str) -> list[icmp.Event]:
        with closing(icmp.Network()) as network:
            line = network.connect(network.find(peer), "", None)
            told = line.send(9000)
            time.sleep(0.3)  # long enough for the router's answer, which the next send meets
            told += line.send(1400)
            time.sleep(0.3)
            told += line.receive()
            line.close()
            return told

    for peer, router in zip(C, ("10.8.0.1", "fd00:8::1")):
        told = net.inside("a", functools.partial(twice, peer))
        assert told == [icmp.Refusal(9000, router, "", 1400), icmp.Answer(1400)]


def test_a_rule_of_this_node_that_drops_echoes(net: Net) -> None:
    rule = ["iptables", "-A", "OUTPUT", "-p", "icmp", "-j", "DROP"]
    done = subprocess.run(["ip", "netns", "exec", f"{net.prefix}a", *rule], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("iptables does not work here")

    [check] = net.checks(B[0])

    assert (check.verdict, "EPERM" in check.found, "firewall" in check.advice) == (Verdict.ERROR, True, True)


def test_without_root_ping_sockets_do_where_they_are_allowed(net: Net) -> None:
    net.sysctl("a", "net.ipv4.ping_group_range=1 0")
    for check in as_nobody(net, *B):
        assert check["verdict"] == "error"
        assert "ping_group_range" in check["advice"]

    net.sysctl("a", "net.ipv4.ping_group_range=0 2147483647")
    net.switch_mtu(1500)
    black_hole, black_hole6, router, router6 = as_nobody(net, *B, *C)
    for check in (black_hole, black_hole6):
        assert check["found"] == "packets of 9000 bytes do not arrive, 1500 do (the largest that passes)"
    assert "10.8.0.1 says: its next link has an MTU of 1400" in router["found"]
    assert "fd00:8::1 says: its next link has an MTU of 1400" in router6["found"]


def play(net: Net, folder: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The playbook, with each namespace as a node."""
    nodes: dict[str, dict[str, Any]] = {
        "a": {"path_mtu_address": ["10.9.0.1", "fd00:9::1"]},
        "b": {"ansible_host": "10.9.0.2"},
    }
    for name, node in nodes.items():
        python = folder / f"python-{name}"
        python.write_text(f'#!/bin/sh\nexec ip netns exec {net.prefix}{name} {sys.executable} "$@"\n')
        python.chmod(0o755)
        node.update(ansible_connection="local", ansible_python_interpreter=str(python), ansible_become=False)
    inventory = folder / "inventory.json"
    inventory.write_text(json.dumps({"all": {"children": {"pair": {"hosts": nodes}}}}))
    command = [pathlib.Path(sys.executable).with_name("ansible-playbook"), "-i", inventory, *words]
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".ansible/collections"),
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    }
    return subprocess.run(
        [*command, "-e", "path_mtu_group=pair", ROOT / "playbooks/path_mtu.yml"],
        env=environment, capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip


def test_the_playbook_names_every_pair_that_fails(net: Net, tmp_path: pathlib.Path) -> None:
    net.switch_mtu(1500)

    done = play(net, tmp_path)

    assert done.returncode == 2, done.stdout + done.stderr
    told = " ".join(done.stdout.split())
    for pair in ("a -> 10.9.0.2", "b -> 10.9.0.1", "b -> fd00:9::1"):
        assert f"{pair}: packets of 9000 bytes do not arrive, 1500 do (the largest that passes)" in told
    assert "changed=1" not in told

    done = play(net, tmp_path, "-e", "path_mtu_size=1500")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "the packets of 2 nodes arrive at all others of the group" in done.stdout
