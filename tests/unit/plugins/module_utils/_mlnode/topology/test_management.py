# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import ipaddress
import json
import os
import pathlib
import sys

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlnode.host.host import Host
from mlnode.model.errors import HostError
from mlnode.topology import management
from mlnode.topology.management import RECORD

HEADER = (
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT".ljust(127) + "\n"
)
BY_ROUTE = "it carries the default route"
#: The process that a test takes for its own
ME = 500


def route(nic: str, network: str, flags: int = 0x3, metric: int = 0) -> str:
    """A line of /proc/net/route, or of ipv6_route, as the kernel prints it."""
    net = ipaddress.ip_network(network)
    if net.version == 6:
        ends = f"{int(net.network_address):032x} {net.prefixlen:02x} {'0' * 32} 00 {'0' * 32}"
        return f"{ends} {metric:08x} 00000001 00000000 {flags:08x} {nic:>8}\n"
    bits = [int.from_bytes(item.packed, sys.byteorder) for item in (net.network_address, net.netmask)]
    return (
        f"{nic}\t{bits[0]:08X}\t00000000\t{flags:04X}\t0\t0\t{metric}\t{bits[1]:08X}\t0\t0\t0".ljust(127)
        + "\n"
    )


class Node(Machine):
    """A node with interfaces, routes and processes."""

    def routes(self, *lines: str) -> None:
        self.put("/proc/net/route", HEADER + "".join(line for line in lines if "\t" in line))
        self.put("/proc/net/ipv6_route", "".join(line for line in lines if "\t" not in line))

    def add(self, name: str, *lower: str, device: str = "") -> None:
        folder = f"/sys/devices/{device}/net/{name}" if device else f"/sys/devices/virtual/net/{name}"
        self.put(f"{folder}/ifindex", f"{len(self.names('/sys/class/net')) + 1}\n")
        self.link(f"/sys/class/net/{name}", f"../..{folder[4:]}")
        if device:
            self.link(f"{folder}/device", "../..")
        for item in lower:
            self.link(f"{folder}/lower_{item}", f"../{item}")

    def process(self, pid: int, parent: int, *environ: str) -> None:
        self.put(f"/proc/{pid}/status", f"Name:\tsh\nTgid:\t{pid}\nPid:\t{pid}\nPPid:\t{parent}\n")
        self.put(f"/proc/{pid}/environ", "".join(f"{entry}\0" for entry in environ))

    def over_ssh(self, words: str) -> None:
        """This run: python below sudo below the shell that sshd started."""
        self.process(1, 0)
        self.process(100, 1, "PATH=/bin", "SSH_CONNECTION_OLD=x")
        self.process(300, 100, "HOME=/home/me", f"SSH_CONNECTION={words}")
        self.process(400, 300, "SUDO_USER=me")
        self.process(ME, 400, "SUDO_USER=me")

    def found(self, pid: int | None = ME) -> dict[str, str]:
        self.forget()
        return dict(management.interfaces(self, pid))

    def unknown(self, pid: int | None = ME) -> str:
        self.forget()
        return management.unknown(self, pid)

    def keep(self, pid: int | None = ME) -> bytes:
        self.forget()
        content = management.record(self, pid)
        assert content is not None
        self.write_file(RECORD, content)
        return content


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Node:
    """Two NICs, eth0 with the default route; nobody is connected."""
    node = Node(str(tmp_path / "node"))
    node.add("lo")
    node.add("eth0", device="pci0000:00/0000:00:03.0/virtio2")
    node.add("eth1", device="pci0000:80/0000:81:00.0")
    node.routes(route("eth0", "0.0.0.0/0"), route("eth0", "192.0.2.0/24", 1), route("eth1", "10.0.0.0/8", 1))
    node.process(ME, 1)
    return node


# -- default routes ------------------------------------------------------------------------


def test_default_routes_of_both_protocols_and_of_any_metric_count(node: Node) -> None:
    node.routes(
        route("eth0", "0.0.0.0/0", metric=100),
        route("wlan0", "0.0.0.0/0", metric=600),
        route("eth1", "::/0", metric=1024),
        route("eth2", "::/0", metric=0xFFFFFFFF),
    )
    assert node.found() == dict.fromkeys(("eth0", "eth1", "eth2", "wlan0"), BY_ROUTE)


def test_what_leads_nowhere_does_not_count(node: Node) -> None:
    node.routes(
        route("eth0", "0.0.0.0/0"),
        route("*", "0.0.0.0/0", 1),  # a black hole
        route("lo", "::/0", 0x00200200),  # every node has it
        route("eth1", "0.0.0.0/0", 0x201),  # unreachable
        route("eth1", "0.0.0.0/0", 0x2),  # not up
        route("eth1", "::/0", 0x2),
        route("", "::/0", 0x1),
        route("eth1", "0.0.0.0/1"),
        route("eth1", "8000::/1", 0x1),
    )
    assert node.found() == {"eth0": BY_ROUTE}


@pytest.mark.skipif(sys.byteorder == "big", reason="these bytes are a little-endian machine's")
def test_a_file_from_a_real_machine_is_understood(node: Node) -> None:
    node.over_ssh("10.88.3.4 50022 192.0.2.2 22")
    node.put(
        "/proc/net/route",
        HEADER
        + "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0                         \n"
        + "cni-podman0\t0000580A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0                  \n"
        + "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0                         \n",
    )
    node.put(
        "/proc/net/ipv6_route",
        "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
        "fd000000000000000000000000000001 00000400 00000002 00000000 00000003     eth0\n"
        "00000000000000000000000000000001 80 00000000000000000000000000000000 00 "
        "00000000000000000000000000000000 00000000 00000004 00000000 80200001       lo\n",
    )
    assert node.found() == {"eth0": BY_ROUTE, "cni-podman0": "answers to 10.88.3.4 leave through it"}


def test_this_machine_is_understood() -> None:
    host = Host()
    management.interfaces(host)
    assert "understand" not in management.unknown(host)
    management.connection(host)


def test_a_kernel_without_ipv6_is_no_problem(node: Node) -> None:
    node.remove("/proc/net/ipv6_route")
    assert node.found() == {"eth0": BY_ROUTE}
    assert node.unknown() == ""


# -- the connection ------------------------------------------------------------------------


def test_the_connection_is_found_through_sudo(node: Node) -> None:
    node.over_ssh("10.0.0.9 50022 192.0.2.2 22")
    assert node.found() == {"eth0": BY_ROUTE, "eth1": "answers to 10.0.0.9 leave through it"}
    assert management.connection(node, ME) == "10.0.0.9"


def test_both_ends_are_looked_up_by_the_longest_prefix(node: Node) -> None:
    node.over_ssh("10.1.2.9 50022 10.9.0.1 22")
    node.routes(
        route("eth9", "0.0.0.0/0"),
        route("eth8", "10.0.0.0/8", 1),
        route("eth0", "10.1.2.0/24", 1),
        route("eth1", "10.9.0.0/16", 1),
    )
    assert node.found() == {
        "eth0": "answers to 10.1.2.9 leave through it",
        "eth1": "the connection from 10.1.2.9 arrives on it",
        "eth9": BY_ROUTE,
    }


def test_equally_long_routes_all_count(node: Node) -> None:
    node.over_ssh("2001:db8::9 50022 2001:db8:1::1 22")
    node.routes(
        route("eth0", "2001:db8:1::/64", 1, metric=100),
        route("eth1", "2001:db8:1::/64", 1, metric=600),
        route("eth1", "2001:db8::/32", 1),
        route("eth2", "2001:db8:1::1/128", 0x80200001),
    )
    assert node.found() == {
        "eth1": "answers to 2001:db8::9 leave through it",
        "eth2": "the connection from 2001:db8::9 arrives on it",
    }
    node.routes(*(route(nic, "2001:db8::/32", 1) for nic in ("eth0", "eth1")))
    assert {*node.found()} == {"eth0", "eth1"}


def test_ipv4_in_ipv6_is_ipv4(node: Node) -> None:
    node.over_ssh("::ffff:10.0.0.9 50022 ::ffff:192.0.2.2 22")
    assert node.found()["eth1"] == "answers to 10.0.0.9 leave through it"


@pytest.mark.parametrize("zone", ["eth1", "3"])
def test_the_zone_of_a_link_local_address_is_the_interface(node: Node, zone: str) -> None:
    node.over_ssh(f"fe80::9%{zone} 50022 fe80::1%{zone} 22")
    node.routes(route("eth0", "fe80::/64", 1), route("eth0", "::/0"))
    assert node.found() == {"eth0": BY_ROUTE, "eth1": "the connection from fe80::9 arrives on it"}


@pytest.mark.parametrize("zone", ["eth7", "99", "", "../../../etc", "eth1/../eth0", "1" * 30])
def test_a_zone_that_is_no_interface_leaves_all_that_may_be_meant(node: Node, zone: str) -> None:
    node.over_ssh(f"fe80::9%{zone} 50022 fe80::1%{zone} 22")
    node.routes(route("eth0", "fe80::/64", 1), route("eth1", "fe80::/64", 1), route("eth2", "::/0"))
    assert {*node.found()} == {"eth0", "eth1", "eth2"}


def test_connections_above_one_another_all_count(node: Node) -> None:
    node.over_ssh("10.0.0.9 50022 192.0.2.2 22")
    node.process(350, 300, "SSH_CONNECTION=127.0.0.1 50023 127.0.0.1 22")
    node.process(400, 350, "SSH_CONNECTION=203.0.113.7 5 192.0.2.2 22")
    assert {*node.found()} == {"eth0", "eth1"}
    assert management.connection(node, ME) == "203.0.113.7, 127.0.0.1, 10.0.0.9"


@cases.table
def test_a_connection_without_a_network_counts_for_none(node: Node, words: str) -> None:
    node.over_ssh(words)
    assert node.found() == {"eth0": BY_ROUTE}
    assert node.unknown() == ""
    assert management.connection(node, ME) == ""


@pytest.mark.parametrize("words", ["127.0.0.1 50022 127.0.0.1 22", "::1 50022 ::1 22"])
def test_the_end_of_a_tunnel_is_somebody_but_on_no_interface(node: Node, words: str) -> None:
    node.over_ssh(words)
    assert node.found() == {"eth0": BY_ROUTE}
    assert management.connection(node, ME) == words.split()[0]


@cases.table
def test_a_connection_that_makes_no_sense_is_told_and_not_ignored(node: Node, words: str) -> None:
    node.over_ssh(words)
    told = node.unknown()
    assert "SSH_CONNECTION of process 300" in told
    assert told.isprintable()
    assert len(told) < 400
    assert node.found() == {"eth0": BY_ROUTE}
    assert management.record(node, ME) is None


def test_a_connection_that_no_route_explains_is_unknown(node: Node) -> None:
    node.over_ssh("10.0.0.9 50022 192.0.2.2 22")
    node.routes(route("eth1", "198.51.100.0/24", 1))
    assert "the interface of the connection from 10.0.0.9" in node.unknown()
    assert node.found() == {}


def test_processes_that_end_meanwhile_end_the_list(node: Node) -> None:
    node.over_ssh("10.0.0.9 50022 192.0.2.2 22")
    node.unreadable["/proc/400/environ"] = errno.ESRCH
    assert {*node.found()} == {"eth0", "eth1"}
    node.unreadable["/proc/400/status"] = errno.ESRCH
    assert {*node.found()} == {"eth0"}
    assert node.unknown() == ""


def test_processes_above_one_another_in_a_circle_are_asked_once(node: Node) -> None:
    node.process(ME, 600)
    node.process(600, ME)
    assert node.found() == {"eth0": BY_ROUTE}


def test_an_environment_that_root_cannot_read_may_hide_the_connection(node: Node) -> None:
    node.over_ssh("10.0.0.9 50022 192.0.2.2 22")
    node.unreadable["/proc/300/environ"] = errno.EACCES
    assert "/proc/300/environ" in node.unknown()
    with pytest.raises(HostError):
        management.connection(node, ME)
    node.superuser = False  # who can change nothing, and reads only what is his
    assert node.unknown() == ""


def test_environments_above_one_that_tells_may_be_closed(node: Node) -> None:
    node.over_ssh("10.0.0.9 50022 192.0.2.2 22")
    for pid in (1, 100):
        node.unreadable[f"/proc/{pid}/environ"] = errno.EACCES
    assert node.unknown() == ""


def test_init_is_not_asked(node: Node) -> None:
    node.unreadable["/proc/1/environ"] = errno.EACCES
    assert node.unknown() == ""


def test_a_captured_tree_has_no_connection(node: Node) -> None:
    node.over_ssh("10.0.0.9 50022 192.0.2.2 22")
    node.process(os.getpid(), 300)
    assert node.found(None) == {"eth0": BY_ROUTE}
    assert management.connection(node) == ""


# -- what they stand on --------------------------------------------------------------------


def test_what_it_stands_on_belongs_to_it(node: Node) -> None:
    node.add("bond0", "eth0", "eth1")
    node.add("bond0.7", "bond0")
    node.add("br0", "bond0.7", "veth1")
    node.routes(route("br0", "0.0.0.0/0"))
    words = "br0, which carries the default route, stands on it"
    assert node.found() == {
        "br0": BY_ROUTE,
        **dict.fromkeys(("bond0", "bond0.7", "eth0", "eth1", "veth1"), words),
    }


def test_the_words_are_those_of_what_stands_on_it(node: Node) -> None:
    node.over_ssh("10.0.0.9 50022 192.0.2.2 22")
    node.add("bond0", "eth0")
    node.add("vlan7", "eth1")
    node.add("mgmt", "eth2")
    node.add("eth2", device="pci0000:80/0000:82:00.0")
    node.routes(route("mgmt", "::/0"), route("bond0", "192.0.2.0/24", 1), route("vlan7", "10.0.0.0/8", 1))
    found = node.found()
    assert found["eth0"] == "bond0, on which the connection from 10.0.0.9 arrives, stands on it"
    assert found["eth1"] == "vlan7, through which answers to 10.0.0.9 leave, stands on it"
    assert found["eth2"] == "mgmt, which carries the default route, stands on it"


def test_an_interface_that_counts_by_itself_says_so(node: Node) -> None:
    node.add("vlan7", "eth0")
    node.routes(route("vlan7", "0.0.0.0/0"), route("eth0", "::/0"))
    assert node.found() == dict.fromkeys(("vlan7", "eth0"), BY_ROUTE)


def test_interfaces_in_a_circle_are_each_found_once(node: Node) -> None:
    node.add("a", "b")
    node.add("b", "a")
    node.routes(route("a", "0.0.0.0/0"))
    assert {*node.found()} == {"a", "b"}


def test_a_virtual_function_stands_on_the_physical_one(node: Node) -> None:
    node.link("/sys/devices/pci0000:80/0000:81:00.0/physfn", "../0000:82:00.0")
    node.add("eth2", device="pci0000:80/0000:82:00.0")
    node.routes(route("eth1", "0.0.0.0/0"))
    assert node.found()["eth2"] == "eth1, which carries the default route, stands on it"


def test_an_openvswitch_bridge_stands_on_the_ports_of_its_datapath(node: Node) -> None:
    node.add("br-ex")
    node.add("ovs-system", "eth1")
    node.routes(route("br-ex", "0.0.0.0/0"), route("eth0", "192.0.2.0/24", 1))
    assert "eth1" not in node.found()
    answers = {"driver": {"driver": "openvswitch"}}
    node.put("/ethtool/br-ex.json", json.dumps({"format": 1, "answers": answers}))
    assert node.found()["eth1"] == "br-ex, which carries the default route, stands on it"


def test_what_it_stands_on_cannot_be_read(node: Node) -> None:
    node.unreadable["/sys/class/net/eth0"] = errno.EACCES
    assert "/sys/class/net/eth0" in node.unknown()
    assert node.found() == {"eth0": BY_ROUTE}


# -- the record ----------------------------------------------------------------------------


def test_before_the_network_is_up_the_record_tells(node: Node) -> None:
    node.add("bond0", "eth0")
    node.over_ssh("10.0.0.9 50022 192.0.2.2 22")
    node.routes(route("bond0", "0.0.0.0/0"), route("eth1", "10.0.0.0/8", 1))
    first = node.keep()
    assert node.keep() == first  # the same again

    node.process(ME, 1)  # at boot
    node.remove("/sys/class/net/bond0")
    node.routes(route("eth0", "fe80::/64", 1), route("eth0", "ff00::/8", 1))
    assert node.unknown() == ""
    assert node.found() == {
        "eth0": "bond0, which carried the default route when the node was last set up, stands on it",
        "eth1": "it carried the connection when the node was last set up",
    }
    assert node.keep() == first


def test_the_record_does_not_say_who_was_connected(node: Node) -> None:
    node.over_ssh("10.0.0.9 50022 192.0.2.2 22")
    first = node.keep()
    node.over_ssh("10.200.0.1 50999 192.0.2.2 22")
    assert node.keep() == first
    assert b"10." not in first


def test_over_a_connection_the_record_does_not_count(node: Node) -> None:
    node.over_ssh("10.0.0.9 50022 192.0.2.2 22")
    node.keep()
    node.over_ssh("203.0.113.1 50022 192.0.2.2 22")
    assert node.found() == {"eth0": BY_ROUTE}
    node.put(RECORD, "damaged")
    assert node.found() == {"eth0": BY_ROUTE}
    assert node.unknown() == ""
    assert b"eth1" not in node.keep()


def test_without_a_connection_that_of_the_record_still_counts(node: Node) -> None:
    # The network of the management need not be the one of the default route.
    node.over_ssh("10.0.0.9 50022 192.0.2.2 22")
    first = node.keep()
    node.process(ME, 1)
    assert node.found() == {
        "eth0": BY_ROUTE,
        "eth1": "it carried the connection when the node was last set up",
    }
    assert node.keep() == first


def test_through_a_tunnel_the_record_counts(node: Node) -> None:
    node.over_ssh("10.0.0.9 50022 192.0.2.2 22")
    first = node.keep()
    node.over_ssh("127.0.0.1 50022 127.0.0.1 22")
    assert {*node.found()} == {"eth0", "eth1"}
    assert node.keep() == first


def test_a_default_route_that_is_there_makes_that_of_the_record_old(node: Node) -> None:
    node.keep()
    node.routes(route("eth1", "0.0.0.0/0"))
    assert node.found() == {"eth1": BY_ROUTE}
    assert b"eth0" not in node.keep()


def test_interfaces_are_known_again_by_their_device(node: Node) -> None:
    node.keep()
    node.routes()
    node.remove("/sys/class/net/eth0")
    node.remove("/sys/class/net/eth1")
    node.add("ens3", device="pci0000:00/0000:00:03.0/virtio2")
    node.add("eth0", device="pci0000:80/0000:81:00.0")
    words = "it carried the default route when the node was last set up"
    assert node.found() == {"ens3": words, "eth0": words}


def test_interfaces_without_a_device_are_not_all_the_same(node: Node) -> None:
    node.add("br0", "eth0")
    node.add("br1")
    node.routes(route("br0", "0.0.0.0/0"))
    node.keep()
    node.routes()
    assert {*node.found()} == {"br0", "eth0"}


# -- what is not known ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "no interface has a route yet, no connection is seen"),
        ([route("lo", "::1/128", 0x80200001)], "no interface has a route yet"),
        ([route("eth0", "fe80::/64", 1), route("eth0", "ff00::/8", 1)], "no interface has a route yet"),
        ([route("eth1", "10.0.0.0/8", 1)], "no interface carries a default route, no connection is seen"),
    ],
)
def test_nothing_to_go_by_is_not_nothing_to_protect(node: Node, lines: list[str], words: str) -> None:
    node.routes(*lines)
    assert words in node.unknown()
    assert node.found() == {}
    assert management.record(node, ME) is None


def test_a_record_of_another_machine_tells_nothing(node: Node) -> None:
    node.keep()
    node.routes()
    node.remove("/sys/class/net/eth0")
    assert "none of those in /etc/mlnode/management.json is there" in node.unknown()


def test_a_namespace_that_never_had_a_route_has_none(node: Node) -> None:
    node.put("/proc/net/route", "")
    node.remove("/proc/net/ipv6_route")
    assert "no interface has a route yet" in node.unknown()


@pytest.mark.parametrize("path", ["/proc/net/route", "/proc/net/ipv6_route"])
def test_routes_that_cannot_be_read_are_not_none(node: Node, path: str) -> None:
    node.unreadable[path] = errno.EACCES
    assert path in node.unknown()


def test_routes_of_one_protocol_count_though_the_others_cannot_be_read(node: Node) -> None:
    node.unreadable["/proc/net/ipv6_route"] = errno.EIO
    assert node.found() == {"eth0": BY_ROUTE}


def test_no_routes_at_all_are_not_known(node: Node) -> None:
    node.remove("/proc/net/route")
    assert "/proc/net/route" in node.unknown()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/proc/net/route", HEADER + "eth1\t0000\n"),
        ("/proc/net/route", HEADER + route("../eth1", "0.0.0.0/0")),
        ("/proc/net/ipv6_route", "\x1b[31m" * 99 + "\n"),
        ("/proc/net/ipv6_route", route("eth1", "::/0").replace(" 00 ", " 81 ", 1)),
    ],
)
def test_routes_that_make_no_sense_are_told(node: Node, path: str, text: str) -> None:
    node.put(path, text)
    assert path in node.unknown()
    assert node.unknown().isprintable()


DAMAGES: tuple[dict[str, object], ...] = (
    {"name": 1}, {"name": ""}, {"address": None}, {"carries": "x"}, {"carries": []}, {"top": 0},
)  # fmt: skip
ENTRY = {"name": "eth0", "address": "", "carries": "default route", "top": ""}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        "\xff",
        '{"format": 2, "interfaces": []}',
        '{"format": 1}',
        '{"format": 1, "interfaces": [7]}',
        '{"format": 1, "interfaces": {"name": 1}}',
        "[" * 100_000,
        *(
            json.dumps({"format": 1, "interfaces": [{**ENTRY, **damage}]})
            for damage in (
                {"name": 1},
                {"name": ""},
                {"address": None},
                {"carries": "x"},
                {"carries": []},
                {"top": 0},
            )
        ),
    ],
)
def test_a_damaged_record_is_told_and_not_ignored(node: Node, content: str) -> None:
    node.put(RECORD, content)
    assert node.unknown().startswith((f"{RECORD} is damaged", f"{RECORD}: format 2 is newer than 1"))
    assert node.found() == {"eth0": BY_ROUTE}
    assert management.record(node, ME) is None  # nothing may be lost by a run that does not see all
    node.over_ssh("203.0.113.1 50022 192.0.2.2 22")
    node.keep()
    node.process(ME, 1)
    assert node.unknown() == ""


def test_a_record_that_cannot_be_read_is_told(node: Node) -> None:
    node.keep()
    node.unreadable[RECORD] = errno.EACCES
    assert RECORD in node.unknown()


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=80) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace")),
    path=st.sampled_from(
        ["/proc/net/route", "/proc/net/ipv6_route", RECORD, f"/proc/{ME}/environ", f"/proc/{ME}/status"]
    ),
)
def test_no_content_is_too_odd(node: Node, content: bytes, path: str) -> None:
    real = pathlib.Path(node.root + path)
    real.parent.mkdir(parents=True, exist_ok=True)
    before = real.read_bytes() if real.exists() else None
    lead = b"SSH_CONNECTION=" if path.endswith("environ") else b""
    real.write_bytes(lead + content)
    try:
        assert node.unknown().isprintable()
        assert {*node.found()} <= {"eth0", "eth1"}
    finally:
        real.unlink()
        if before is not None:
            real.write_bytes(before)
