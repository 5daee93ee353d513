# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two RoCE rails of one node; rdma_node's tests look at their ARP."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit import rdma_bench as bench
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.rail_machine import Ip
from mlnode.checks.model import Check
from mlnode.host.system import Finished


class Rails(Machine):
    """rail0 is 10.77.0.1/24, rail1 is 10.77.0.2/24."""

    ip: Ip

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        return self.ip.run(command) if command[0] == "ip" else super().run(command, seconds)


@pytest.fixture(name="rails")
def _rails(tmp_path: pathlib.Path) -> Rails:
    rails = Rails(bench.two_rails(tmp_path).root)
    rails.ip = Ip()
    rails.ip.addresses = {"rail0": ["10.77.0.1/24"], "rail1": ["10.77.0.2/24"]}
    for name in rails.ip.addresses:
        rails.put(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", "0\n")
    return rails


def look(rails: Rails) -> dict[str, Check]:
    declared = {"devices": {"mlx5_0": {}, "mlx5_1": {}}}
    found = bench.look(rails, declared)
    return {target: check for (name, target), check in found.items() if name == "reply_path"}


def verdicts(rails: Rails) -> dict[str, str]:
    return {target: str(check.verdict) for target, check in look(rails).items()}


def test_in_one_subnet_the_first_route_takes_the_replies_of_both(rails: Rails) -> None:
    found = look(rails)
    assert verdicts(rails) == {"rail0": "pass", "rail1": "warn"}
    assert found["rail1"].found == "10.77.0.2 to 10.77.0.3 leaves by rail0"
    assert found["rail1"].expected == "replies leave by rail1"
    for words in ("network manager", "rule `from 10.77.0.2 lookup TABLE`", "`10.77.0.0/24 dev rail1`"):
        assert words in found["rail1"].advice
    assert found["rail0"].found == "10.77.0.1 to 10.77.0.3 leaves by rail0"
    assert found["rail0"].advice == ""


def test_with_a_rule_for_its_address_each_rail_passes(rails: Rails) -> None:
    rails.ip.rules = {"10.77.0.2": "rail1"}
    assert verdicts(rails) == {"rail0": "pass", "rail1": "pass"}
    rails.ip.rules["10.77.0.1"] = "mgmt"
    assert verdicts(rails) == {"rail0": "warn", "rail1": "pass"}


def test_with_a_subnet_each_no_rule_is_needed(rails: Rails) -> None:
    rails.ip.addresses["rail1"] = ["10.78.0.2/31"]
    assert verdicts(rails) == {"rail0": "pass", "rail1": "pass"}
    assert look(rails)["rail1"].found == "10.78.0.2 to 10.78.0.3 leaves by rail1"


def test_each_address_counts_and_only_wrong_ones_are_named(rails: Rails) -> None:
    rails.ip.addresses["rail1"] = ["10.78.0.2/24", "10.77.0.2/24"]
    found = look(rails)["rail1"]
    assert (str(found.verdict), found.found) == ("warn", "10.77.0.2 to 10.77.0.3 leaves by rail0")
    assert "10.78" not in found.advice


def test_ipv6_in_one_subnet_has_the_same_fault(rails: Rails) -> None:
    rails.ip.addresses = {"rail0": ["fe80::1/64", "fd00:7::1/64"], "rail1": ["fe80::2/64", "fd00:7::2/64"]}
    found = look(rails)
    assert {name: str(check.verdict) for name, check in found.items()} == {"rail0": "pass", "rail1": "warn"}
    assert found["rail1"].found == "fd00:7::2 to fd00:7::3 leaves by rail0", "link-local ones need no route"
    assert "rule `from fd00:7::2 lookup TABLE`" in found["rail1"].advice
    rails.ip.rules = {"fd00:7::2": "rail1"}
    rails.forget()
    assert verdicts(rails) == {"rail0": "pass", "rail1": "pass"}


def test_both_families_of_a_rail_count(rails: Rails) -> None:
    rails.ip.addresses["rail0"] = ["10.77.0.1/24", "fd00:7::1/64"]
    rails.ip.addresses["rail1"] = ["10.78.0.2/24", "fd00:7::2/64"]
    found = look(rails)["rail1"]
    assert (str(found.verdict), found.found) == ("warn", "fd00:7::2 to fd00:7::3 leaves by rail0")


@cases.table
def test_short_networks_of_ipv6(rails: Rails, address: str, found: str) -> None:
    rails.ip.addresses["rail1"] = [address]
    assert look(rails)["rail1"].found == found


def test_a_vrf_has_a_table_of_its_own(rails: Rails) -> None:
    rails.ip.vrfs["rail1"] = "red"
    assert verdicts(rails) == {"rail0": "pass", "rail1": "pass"}


def test_the_address_may_be_on_a_vlan_of_the_rail(rails: Rails) -> None:
    folder = "/sys/devices/virtual/net/rail1.100"
    rails.put(f"{folder}/uevent", "DEVTYPE=vlan\nINTERFACE=rail1.100\n")
    rails.put(f"{folder}/operstate", "up\n")
    rails.link("/sys/class/net/rail1.100", "../../devices/virtual/net/rail1.100")
    rails.link("/sys/class/net/rail1/upper_rail1.100", folder)
    rails.link(f"{folder}/lower_rail1", "/sys/class/net/rail1")
    rails.ip.addresses["rail1.100"] = rails.ip.addresses.pop("rail1")
    assert verdicts(rails) == {"rail0": "pass", "rail1.100": "warn"}
    rails.ip.missing = True
    assert verdicts(rails) == {"node": "unknown"}


@cases.table
def test_what_does_not_apply(rails: Rails, addresses: list[str], down: bool, words: str) -> None:
    rails.ip.addresses["rail1"] = addresses
    rails.ip.down.update(["rail1"] if down else [])
    found = look(rails)["rail1"]
    assert (str(found.verdict), found.found) == ("skip", words)


def test_what_nobody_can_be_asked_is_unknown(rails: Rails) -> None:
    rails.ip.prints["route"] = "nonsense"
    assert verdicts(rails) == {"rail0": "unknown", "rail1": "unknown"}
    rails.ip.missing = True
    assert verdicts(rails) == {"rail0": "unknown", "rail1": "unknown"}
    assert "install iproute2" in look(rails)["rail0"].found


def test_without_roce_there_is_nothing_to_ask(tmp_path: pathlib.Path) -> None:
    found = bench.look(bench.node(tmp_path, bench.infiniband()))["reply_path", "node"]
    assert (str(found.verdict), found.found) == ("skip", "no RoCE interface is judged")


def arp(rails: Rails) -> dict[str, str]:
    found = bench.look(rails, {"devices": {"mlx5_0": {}, "mlx5_1": {}}})
    return {target: str(check.verdict) for (name, target), check in found.items() if name == "multi_rail"}


def test_a_rail_with_ipv6_alone_needs_no_settings_of_arp(rails: Rails) -> None:
    """By its addresses: routes of a rail in a VRF or a table of its own are not where those of others are."""
    for name in ("arp_ignore", "arp_announce"):
        rails.put(f"{bench.CONF}/rail1/{name}", "0\n")
    assert arp(rails)["rail1"] in ("warn", "fail")
    rails.put("/proc/net/route", "Iface\tDestination\tGateway\n")
    rails.ip.addresses["rail1"] = ["10.77.0.2/24", "fd00:7::2/64"]
    assert arp(rails)["rail1"] in ("warn", "fail"), "it has both"
    rails.ip.addresses["rail1"] = ["fd00:7::2/64"]
    assert arp(rails)["rail1"] == "skip"
    rails.ip.prints["addr"] = "nonsense"
    assert arp(rails)["rail1"] in ("warn", "fail"), "unknown is not absent"


def test_a_rail_without_an_address_names_the_reason(rails: Rails) -> None:
    rails.ip.addresses = {"rail0": ["fd00:7::1/64"]}
    rails.put("/proc/sys/net/ipv6/conf/rail1/disable_ipv6", "1\n")
    rails.put("/etc/sysctl.d/50-site.conf", "net.ipv6.conf.rail1.disable_ipv6 = 1\n")
    check = look(rails)["rail1"]
    assert str(check.verdict) == "skip"
    assert check.found == (
        "it has no address that is routed; net.ipv6.conf.rail1.disable_ipv6 is 1: IPv6 is off on this "
        "interface, as /etc/sysctl.d/50-site.conf:1 sets net.ipv6.conf.rail1.disable_ipv6 = 1"
    )
