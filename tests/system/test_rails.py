# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two rails in one subnet, on a real kernel, in network namespaces that are made for a test and go with it.

    node: rail0 10.77.0.1/24 – far0      far: both ends of the cables, which see what each rail sends
          rail1 10.77.0.2/24 – far1
          mgmt  192.0.2.1/24 – far2      carries the default route

What the library writes besides (its records, its lock) goes to a mount namespace, and never to this machine.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = "ansible_collections.mlnode.tuning.plugins.module_utils._mlnode"
CLONE_NEWNET = 0x40000000  # linux/sched.h
ETH_P_ALL, ETH_P_ARP, ETH_P_IP = 3, 0x0806, 0x0800  # linux/if_ether.h

RAILS = {"rail0": "10.77.0.1", "rail1": "10.77.0.2"}
PEER, PEER_MAC = "10.77.0.9", "02:00:00:00:00:09"

#: How long a frame is waited for: a cable of this machine takes no millisecond
SECONDS = 0.5

pytestmark = [pytest.mark.system, pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces")]

ARP = {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2}

#: Runs in the namespace of the node; its command line is JSON: what is declared, undone, or asked
SCRIPT = f"""
import json, sys
from ipaddress import IPv4Address
from {LIBRARY}.agent import mounts as drivers
from {LIBRARY}.engine import engine, transaction
from {LIBRARY}.linux import iproute
from {LIBRARY}.engine.engine import Request
from {LIBRARY}.model.errors import MlnodeError
from {LIBRARY}.host.host import Host
from {LIBRARY}.knobs.rail.kind import kind as rail
from {LIBRARY}.engine.origin import Origin
from {LIBRARY}.model.setting import Layer

host, steps = Host("/", drivers.ALL), json.loads(sys.argv[1])
answers = []
for spec in steps:
    host.forget()
    if spec == "undo":
        answers.append(list(transaction.roll_back(host, Origin.load(host).entries())))
        continue
    if spec == "addresses":
        known = iproute.interfaces(host).items()
        answers.append(
            {{name: [one.up, *(str(at.network) for at in one.addresses)] for name, one in known}}
        )
        continue
    if "from" in spec:
        answers.append(iproute.leaves_by(host, IPv4Address(spec["from"]), IPv4Address(spec["to"])))
        continue
    try:
        request = Request("system", rail, spec, (Layer.RUNTIME,))
        (done,) = engine.apply_together(host, lambda: [request]).outcomes
        answers.append([[row.setting.key, str(row.status), row.reason] for row in done.rows])
    except MlnodeError as error:
        answers.append(str(error))
print(json.dumps(answers))
"""


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=60).stdout


class Net:
    def __init__(self) -> None:
        self.node, self.far = (f"mlnode-rail-{os.getpid()}-{name}" for name in ("node", "far"))

    def make(self) -> None:
        for name in (self.node, self.far):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        for number, (name, address) in enumerate([*RAILS.items(), ("mgmt", "192.0.2.1")]):
            far = f"far{number}"
            ip("-n", self.node, "link", "add", name, "type", "veth", "peer", "name", far, "netns", self.far)
            ip("-n", self.far, "link", "set", far, "up")
            ip("-n", self.node, "link", "set", name, "up")
            ip("-n", self.node, "addr", "add", f"{address}/24", "dev", name)
        ip("-n", self.node, "route", "add", "default", "via", "192.0.2.254")
        for knob in ("arp_ignore", "arp_announce", "rp_filter"):
            for name in ("all", *RAILS):
                path = f"net.ipv4.conf.{name}.{knob}=0"
                ip("netns", "exec", self.node, "sysctl", "-qw", path)
        for rail in RAILS:  # of whom the packets are for, nobody has to be asked
            words = ["neigh", "add", PEER, "lladdr", PEER_MAC, "dev", rail, "nud", "permanent"]
            ip("-n", self.node, *words)

    def remove(self) -> None:
        for name in (self.node, self.far):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)

    def apply(self, *steps: Any) -> list[Any]:
        """What the library answers to these specs, one after the other."""
        private = (
            "mount -t tmpfs none /var/lib && mount -t tmpfs none /run && "
            'cp -a /etc /run/etc && mount --bind /run/etc /etc && exec "$@"'
        )
        command = ["ip", "netns", "exec", self.node, "unshare", "-m", "sh", "-c", private, "sh"]
        done = subprocess.run(
            [*command, sys.executable, "-c", SCRIPT, json.dumps(steps)],
            env={**os.environ, "PYTHONPATH": str(ROOT / ".ansible/collections")},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        answers: list[Any] = json.loads(done.stdout)
        return answers

    def inside(self, name: str, do: Callable[[], T]) -> T:
        """What do() returns in a namespace, which only its own thread enters."""
        libc = ctypes.CDLL(None, use_errno=True)

        def enter() -> T:
            with open(f"/run/netns/{name}") as namespace:
                assert libc.setns(namespace.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
            return do()

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(enter).result()

    # -- what goes over the cables -------------------------------------------------------

    @contextlib.contextmanager
    def taps(self) -> Iterator[list[socket.socket]]:
        """One for the far end of each rail's cable."""
        with contextlib.ExitStack() as stack:

            def tap(number: int) -> socket.socket:
                found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
                stack.enter_context(found)
                found.bind((f"far{number}", ETH_P_ALL))
                found.settimeout(SECONDS)
                return found

            yield self.inside(self.far, lambda: [tap(number) for number in range(len(RAILS))])

    def answers_to(self, asked: int, address: str) -> bool:
        """Whether a rail answers who asks over its cable for an address."""
        mac, owner = bytes.fromhex(PEER_MAC.replace(":", "")), socket.inet_aton(address)
        request = struct.pack("!HHBBH", 1, ETH_P_IP, 6, 4, 1) + mac + socket.inet_aton(PEER)

        def is_answer(frame: bytes) -> bool:
            kind = struct.unpack_from("!H", frame, 12)[0]
            return kind == ETH_P_ARP and frame[20:22] == b"\x00\x02" and frame[28:32] == owner

        with self.taps() as taps:
            taps[asked].send(b"\xff" * 6 + mac + struct.pack("!H", ETH_P_ARP) + request + bytes(6) + owner)
            return _seen(taps[asked], is_answer)

    def leaves_by(self, source: str, to: str = PEER) -> list[str]:
        """The rails over which a packet from an address comes."""

        def send() -> None:
            with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sender:
                sender.bind((source, 0))
                sender.sendto(b"x", (to, 9))

        def is_packet(frame: bytes) -> bool:
            kind = struct.unpack_from("!H", frame, 12)[0]
            return kind == ETH_P_IP and frame[26:30] == socket.inet_aton(source)

        with self.taps() as taps:
            self.inside(self.node, send)
            return [rail for rail, tap in zip(RAILS, taps) if _seen(tap, is_packet)]


def _seen(tap: socket.socket, fits: Callable[[bytes], bool]) -> bool:
    with contextlib.suppress(socket.timeout):
        for _turn in range(100):
            if fits(tap.recv(2048)):
                return True
    return False


@pytest.fixture
def net() -> Iterator[Net]:
    made = Net()
    try:
        made.make()
        yield made
    finally:
        made.remove()


def rule(name: str, *nics: str, **groups: Any) -> dict[str, Any]:
    return {"name": name, "nics": {"names": list(nics)}, **groups}


def statuses(rows: Any) -> set[str]:
    assert not isinstance(rows, str), rows
    return {status for _key, status, _reason in rows}


def test_a_rail_answers_for_its_own_address_only(net: Net) -> None:
    # As the kernel is by itself: whoever asks over the first cable is sent to the first rail for both.
    assert net.answers_to(0, RAILS["rail1"])
    assert net.answers_to(1, RAILS["rail1"])

    (rows,) = net.apply({"rules": [rule("rails", *RAILS, **ARP)]})
    assert statuses(rows) == {"changed"}

    assert not net.answers_to(0, RAILS["rail1"])
    assert net.answers_to(1, RAILS["rail1"])
    assert net.answers_to(0, RAILS["rail0"])


def test_the_kernel_is_asked_for_the_way_that_packets_then_take(net: Net) -> None:
    asked: list[Any] = [{"from": address, "to": PEER} for address in RAILS.values()]
    assert net.apply(*asked) == ["rail0", "rail0"]
    assert [net.leaves_by(address) for address in RAILS.values()] == [["rail0"], ["rail0"]]

    ip("-n", net.node, "rule", "add", "from", RAILS["rail1"], "lookup", "1001")
    ip("-n", net.node, "route", "add", "10.77.0.0/24", "dev", "rail1", "table", "1001")

    assert net.apply(*asked) == ["rail0", "rail1"]
    assert [net.leaves_by(address) for address in RAILS.values()] == [["rail0"], ["rail1"]]


def test_addresses_and_what_is_down(net: Net) -> None:
    ip("-n", net.node, "addr", "add", "10.3.0.7", "peer", "10.3.0.8/32", "dev", "rail1")
    ip("-n", net.node, "link", "set", "rail0", "down")
    assert net.apply("addresses") == [
        {
            "rail0": [False, "10.77.0.0/24"],
            "rail1": [True, "10.77.0.0/24", "10.3.0.8/32"],
            "mgmt": [True, "192.0.2.0/24"],
        }
    ]


def test_an_undo_leaves_nothing(net: Net) -> None:
    answers = net.apply({"rules": [rule("rails", *RAILS, **ARP)]}, "undo")
    assert statuses(answers[0]) == {"changed"}
    assert answers[1][1] == []
    assert net.answers_to(0, RAILS["rail1"])


def test_all_that_overrules_is_named_on_a_real_kernel(net: Net) -> None:
    ip("netns", "exec", net.node, "sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=2")
    (((_key, status, reason),),) = net.apply({"rules": [rule("rails", *RAILS, arp_ignore=1)]})
    assert status == "refused"
    assert "net.ipv4.conf.all.arp_ignore is 2, and the kernel takes the greater of both" in reason


def test_the_management_path_is_not_cut_off(net: Net) -> None:
    (((_key, status, reason),),) = net.apply({"rules": [rule("mgmt", "mgmt", rp_filter=1)]})
    assert status == "refused"
    assert "mgmt: it carries the default route" in reason
