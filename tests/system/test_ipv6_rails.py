# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reasons for a rail without an IPv6 address, against a real kernel that is sent router advertisements.

    node: rail0 – far: sends the advertisement of a prefix

Files of sysctl.d are in a mount namespace of the process, and never on this machine.
"""

from __future__ import annotations

import ctypes
import ipaddress
import itertools
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from ansible_collections.mlnode.tuning.tests.system import namespaces

LIBRARY = "ansible_collections.mlnode.tuning.plugins.module_utils._mlnode"
CLONE_NEWNET = 0x40000000  # linux/sched.h
PREFIX = "2001:db8:7::"
#: A cable of this machine takes no millisecond; a busy machine may take longer
SECONDS = 5.0

USUAL = {"disable_ipv6": 0, "addr_gen_mode": 0, "forwarding": 0, "accept_ra": 1, "autoconf": 1}

pytestmark = [pytest.mark.system, namespaces.needs_root]

SCRIPT = f"""
import json, sys
from {LIBRARY}.checks.rdma import ipv6
from {LIBRARY}.host.host import Host
lack = ipv6.explain(Host("/"), "rail0")
print(json.dumps(None if lack is None else [lack.words, lack.remedy]))
"""


class Rail(namespaces.Net):
    """rail0 of the node, at whose other end the far node is."""

    def make(self) -> None:
        for name in ("node", "far"):
            self.add(name)
        self.ip("node", f"link add rail0 type veth peer name far netns {self.prefix}far")
        self.write("far", "far", {"accept_dad": 0})
        self.ip("far", "link set far up")
        self.write("node", "rail0", {"accept_dad": 0})

    def write(self, name: str, interface: str, values: dict[str, int]) -> None:
        words = [f"net.ipv6.conf.{interface}.{key}={value}" for key, value in values.items()]
        self.inside(name, "sysctl", "-qw", *words)

    def restart(self, **changed: int) -> None:
        """Set the values and make the addresses again."""
        self.ip("node", "link set rail0 down")
        self.ip("node", "addr flush dev rail0")
        self.write("node", "rail0", {**USUAL, **changed})
        self.ip("node", "link set rail0 up")

    def addresses(self, *words: str) -> str:
        return self.inside("node", "ip", "-6", "-j", "addr", "show", "dev", "rail0", *words)

    def explain(self, drop_in: str = "") -> list[str] | None:
        """What the library says of rail0. drop_in: the only file of sysctl.d."""
        private = 'mount -t tmpfs none /etc/sysctl.d && cat > /etc/sysctl.d/50-site.conf && exec "$@"'
        command = ["ip", "netns", "exec", f"{self.prefix}node", "unshare", "-m", "sh", "-c", private, "sh"]
        done = subprocess.run(
            [*command, sys.executable, "-c", SCRIPT],
            env=namespaces.ENVIRONMENT,
            input=drop_in,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        answer: list[str] | None = json.loads(done.stdout)
        return answer

    def advertise(self) -> None:
        """Send a router advertisement (RFC 4861, 4.2 and 4.6.2) to all nodes on the cable."""
        prefix = struct.pack("!BBBBIII", 3, 4, 64, 0xC0, 3600, 3600, 0) + ipaddress.IPv6Address(PREFIX).packed
        message = struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0) + prefix
        libc = ctypes.CDLL(None, use_errno=True)

        def send() -> None:
            with open(f"/run/netns/{self.prefix}far") as namespace:
                assert libc.setns(namespace.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
            with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as router:
                router.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
                router.sendto(message, ("ff02::1", 0, 0, socket.if_nametoindex("far")))

        with ThreadPoolExecutor(1) as pool:  # only its own thread enters the namespace
            pool.submit(send).result()

    def has_address(self) -> bool:
        shown = json.loads(self.addresses("scope", "global") or "[]")
        return any(entry.get("addr_info") for entry in shown)

    def gets_address(self, expected: bool) -> bool:
        """True if an advertisement makes an address. A wait ends early only with the expected answer."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            self.advertise()
            time.sleep(0.05)
            if self.has_address():
                return True
            if not expected and time.monotonic() > end - SECONDS + 0.5:
                return False
        return False


@pytest.fixture(scope="module")
def net() -> Iterator[Rail]:
    made = Rail("ipv6")
    try:
        made.make()
        yield made
    finally:
        made.remove()


#: Each value alone, and those that depend on each other
CHANGED: list[dict[str, int]] = [
    {},
    {"disable_ipv6": 1},
    {"addr_gen_mode": 3},
    {"autoconf": 0},
    *({"accept_ra": ra, "forwarding": on} for ra, on in itertools.product((0, 1, 2), (0, 1))),
]


@pytest.mark.parametrize("changed", CHANGED, ids=str)
def test_a_reason_is_named_if_and_only_if_the_kernel_makes_no_address(
    net: Rail, changed: dict[str, int]
) -> None:
    net.restart(**changed)
    lack = net.explain()
    assert net.gets_address(expected=lack is None) == (lack is None), lack
    if lack is not None:
        assert any(f"net.ipv6.conf.rail0.{key} is {value}" in lack[0] for key, value in changed.items())


def test_without_a_link_local_address_the_kernel_waits_for_an_advertisement(net: Rail) -> None:
    net.restart(addr_gen_mode=1)
    lack = net.explain()
    assert lack is not None
    assert "net.ipv6.conf.rail0.addr_gen_mode is 1" in lack[0]
    assert "fe80:" not in net.addresses()
    assert net.gets_address(expected=True)


@pytest.mark.parametrize("key", ["disable_ipv6", "accept_ra"])
def test_the_remedy_helps_and_the_file_is_named(net: Rail, key: str) -> None:
    line = f"net.ipv6.conf.rail0.{key} = {int(key == 'disable_ipv6')}"
    net.restart(**{key: int(line[-1])})
    lack = net.explain(f"# site\n{line}\n")
    assert lack is not None
    assert f"/etc/sysctl.d/50-site.conf:2 sets {line}" in lack[0]
    name, _equals, value = lack[1].rpartition(" set ")[2].partition(" = ")
    net.write("node", "rail0", {name.rpartition(".")[2]: int(value)})
    assert net.gets_address(expected=True)
