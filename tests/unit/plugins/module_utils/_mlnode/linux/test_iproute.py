# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib
from ipaddress import IPv4Address
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import Nic
from ansible_collections.mlnode.tuning.tests.unit.rail_machine import RailMachine
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick, values
from hypothesis import given
from hypothesis import strategies as st
from mlnode.host.host import Host
from mlnode.linux import iproute
from mlnode.model.errors import HostError

OWN, PEER = IPv4Address("10.1.0.5"), IPv4Address("10.1.0.9")


@pytest.fixture(name="machine")
def _machine(tmp_path: pathlib.Path) -> RailMachine:
    return made(tmp_path / "node")


@pytest.fixture(name="kept", scope="module")
def _kept(tmp_path_factory: pytest.TempPathFactory) -> RailMachine:
    """One for all examples of a property, which takes long to make."""
    return made(tmp_path_factory.mktemp("node"))


def made(folder: pathlib.Path) -> RailMachine:
    machine = RailMachine.with_nics(str(folder), eth0=Nic())
    assert isinstance(machine, RailMachine)
    machine.wire()
    machine.address("eth0", "10.1.0.5/24", "10.1.0.6/24")
    return machine


def shown(machine: RailMachine) -> dict[str, list[str]]:
    machine.forget()
    return {
        name: [f"{address.ip} {address.network}" for address in one.addresses]
        for name, one in iproute.interfaces(machine).items()
    }


def entry(**more: Any) -> str:
    address = {"family": "inet", "local": "10.1.0.5", "prefixlen": 24, "scope": "global", **more}
    return json.dumps([{"ifname": "eth0", "flags": ["UP"], "addr_info": [address]}])


def test_addresses_of_interfaces(machine: RailMachine) -> None:
    machine.address("eth1")
    machine.ip.vrfs["eth0"] = "red"
    assert shown(machine) == {"eth0": ["10.1.0.5 10.1.0.0/24", "10.1.0.6 10.1.0.0/24"]}
    assert (iproute.interfaces(machine)["eth0"].up, iproute.interfaces(machine)["eth0"].vrf) == (True, "red")
    machine.ip.down.add("eth0")
    machine.forget()
    assert not iproute.interfaces(machine)["eth0"].up


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        # the far end of a point-to-point link
        (entry(address="10.3.0.8", prefixlen=32), {"eth0": ["10.1.0.5 10.3.0.8/32"]}),
        (entry(scope="link"), {}),
        (entry(scope="host"), {}),
        # iproute2 before 5.1
        (f"[{{}},{entry()[1:]}", {"eth0": ["10.1.0.5 10.1.0.0/24"]}),
        (" ", {}),
    ],
)
def test_what_is_no_usual_address(machine: RailMachine, printed: str, expected: dict[str, list[str]]) -> None:
    machine.ip.prints["addr"] = printed
    assert shown(machine) == expected


def test_the_interface_of_a_packet(machine: RailMachine) -> None:
    assert iproute.leaves_by(machine, OWN, PEER) == "eth0"
    machine.ip.rules[str(OWN)] = "eth1"
    assert iproute.leaves_by(machine, OWN, PEER) == "eth1"
    machine.ip.vrfs["eth0"] = "red"
    assert iproute.leaves_by(machine, OWN, PEER, "red") == "eth1"
    with pytest.raises(HostError, match="cannot ask ip: RTNETLINK answers: Network is unreachable"):
        iproute.leaves_by(machine, OWN, PEER)


def test_without_the_tool_nothing_is_known_and_nothing_absent(machine: RailMachine) -> None:
    machine.ip.missing = True
    with pytest.raises(HostError, match="install iproute2") as raised:
        iproute.interfaces(machine)
    assert not raised.value.absent


def test_a_captured_tree_has_no_routes(machine: RailMachine) -> None:
    with pytest.raises(HostError, match="is a captured tree, not a machine"):
        iproute.leaves_by(Host(machine.root), OWN, PEER)


@pytest.mark.parametrize(
    "printed",
    ["nonsense", "7", "[7]", "[" * 100000, entry(local=None), entry(prefixlen=99), entry(prefixlen="x"),
     '[{"addr_info": [{"scope": "global", "local": "10.1.0.5", "prefixlen": 24}]}]', '[{"addr_info": 7}]'],
)  # fmt: skip
def test_nonsense_about_addresses_is_named(machine: RailMachine, printed: str) -> None:
    machine.ip.prints["addr"] = printed
    with pytest.raises(HostError, match="cannot understand ip -j -d addr show: it printed"):
        iproute.interfaces(machine)


@pytest.mark.parametrize("printed", ["", "nonsense", "{}", "[]", "[{}]", "[7]"])
def test_nonsense_about_a_route_is_named(machine: RailMachine, printed: str) -> None:
    machine.ip.prints["route"] = printed
    with pytest.raises(HostError, match=r"understand ip -j route get 10\.1\.0\.9 from 10\.1\.0\.5: it pr"):
        iproute.leaves_by(machine, OWN, PEER)


@given(st.one_of(values, st.lists(st.fixed_dictionaries({"addr_info": values, "flags": values}))))
@quick
def test_no_answer_makes_more_than_a_host_error(kept: RailMachine, answer: Any) -> None:
    kept.ip.prints = dict.fromkeys(("addr", "route"), json.dumps(answer))
    kept.forget()
    for ask in (lambda: iproute.interfaces(kept), lambda: iproute.leaves_by(kept, OWN, PEER)):
        try:
            ask()
        except HostError:
            continue
