# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the files mean is tested with who asks for it, in test_management.py; here is the arithmetic."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from ansible_collections.mlnode.tuning.tests.unit import cases
from hypothesis import given
from hypothesis import strategies as st
from mlnode.linux import routes
from mlnode.linux.routes import Route

if TYPE_CHECKING:
    from mlnode.linux.routes import Address


def through(nic: str, network: str) -> Route:
    net = ipaddress.ip_network(network)
    return Route(nic, net.version, int(net.network_address), net.prefixlen)


@given(st.ip_addresses(), st.ip_addresses(), st.integers(0, 128))
def test_a_route_leads_to_what_is_in_its_network(address: Address, base: Address, length: int) -> None:
    net = ipaddress.ip_network(f"{base}/{min(length, base.max_prefixlen)}", strict=False)
    route = Route("eth0", net.version, int(net.network_address), net.prefixlen)
    assert route.leads_to(address) == (address in net)
    assert route.leads_to(base)
    assert route.is_default == (net.prefixlen == 0)


@cases.table
def test_what_every_interface_has_is_told_from_what_was_set_up(network: str, everywhere: bool) -> None:
    assert through("eth0", network).is_everywhere == everywhere


def test_of_equally_long_routes_all_are_taken() -> None:
    table = [through("a", "0.0.0.0/0"), through("b", "10.0.0.0/8"), through("c", "10.0.0.0/8")]
    for address, expected in (("10.1.1.1", ["b", "c"]), ("11.1.1.1", ["a"]), ("::1", [])):
        found = routes.longest(table, ipaddress.ip_address(address))
        assert [route.nic for route in found] == expected
