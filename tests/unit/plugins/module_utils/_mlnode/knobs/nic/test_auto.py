# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`auto` for rings and channels, on machines of the fixtures and by what goes over a NIC."""

from __future__ import annotations

import pathlib
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import build
from ansible_collections.mlnode.tuning.tests.fixtures.build import tree
from ansible_collections.mlnode.tuning.tests.fixtures.clouds import small_vm
from ansible_collections.mlnode.tuning.tests.fixtures.hardware import Node
from ansible_collections.mlnode.tuning.tests.unit import cases, rxe_machine
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import Nic, NicMachine
from mlnode.engine import engine
from mlnode.engine.engine import Request
from mlnode.engine.kind import Row
from mlnode.knobs.nic.kind import kind as nic
from mlnode.model.setting import Layer, Severity, Status
from mlnode.topology import hardware

from .node import WITHOUT_RDMA, NicNode, apply, plan, row, rows

AUTO: dict[str, Any] = {"name": "all", "channels": "auto", "rings": "auto"}
ETH2: dict[str, Any] = {"name": "one", "nics": {"names": ["eth2"]}}
TERABYTE, GIGABYTE = 1 << 30, 1 << 20

#: Of the two-socket machine with eight rails; the port without a link is a socket's all the same
HGX_SOCKETS = ("enp41s0f0np0", "enp41s0f1np1")


def on(root: str, **card: Any) -> dict[str, Row]:
    """What the rule makes of a machine of the fixtures, all of whose NICs are such cards."""
    host = NicMachine(root)
    host.nics = {one.name: Nic(one.driver, **card) for one in hardware.read(host).nics if one.address}
    request = Request("x", nic, {"rules": [AUTO], "allow": ["management"]}, (Layer.RUNTIME,))
    return {one.setting.key.partition(".all.")[2]: one for one in engine.evaluate(host, request).rows}


def by_nic(found: Row) -> dict[str, str]:
    """`a, b: 1; c: 2` as NIC → value."""
    return {
        label: value
        for group in (found.reading.want or "").split("; ")
        for labels, _colon, value in [group.rpartition(": ")]
        for label in labels.split(", ")
    }


@pytest.fixture
def sockets(tmp_path: pathlib.Path) -> NicNode:
    return NicNode.made(tmp_path / "sockets", WITHOUT_RDMA)


# -- captured machines -----------------------------------------------------------------------


def test_eight_rails_keep_their_rings_and_need_few_channels() -> None:
    """8192 entries of 16 KiB in 56 queues would have been 7 GiB for each of them."""
    found = on(tree("hgx"))
    rails = {name for name in by_nic(found["channels"]) if name not in HGX_SOCKETS}
    assert len(rails) == 8
    for ring in ("ring.rx", "ring.tx"):
        values = by_nic(found[ring])
        assert {name: values[name] for name in rails} == dict.fromkeys(rails, "1024 [left]")
        assert {values[name] for name in HGX_SOCKETS} == {"8192"}
        assert not any(part.path.split("/")[2] in rails for part in found[ring].reading.parts)
    channels = by_nic(found["channels"])
    assert {channels[name] for name in rails} == {"8"}
    assert {channels[name] for name in HGX_SOCKETS} == {"56"}
    assert "RDMA does not use these rings" in found["ring.rx"].reading.note
    assert "RDMA does not use these channels" in found["channels"].reading.note
    # 1 % of 2 TB is more than what these have.
    assert found["ring.rx"].reading.clamped == ""


def test_rails_of_a_driver_of_which_it_is_not_known_keep_their_channels() -> None:
    """ice has its RDMA in another driver, irdma, and refuses other channels while that is active."""
    found = on(tree("epyc256"))
    channels = by_nic(found["channels"])
    rails = {name for name, value in channels.items() if value == "63 [left]"}
    # All but the two that the default route goes over
    assert len(channels) - len(rails) == 2
    assert "RDMA of ice may need its channels: left as they are" in found["channels"].reading.note


def test_a_small_machine_keeps_its_memory(tmp_path: pathlib.Path) -> None:
    """A VM with 1 GB and a NIC that could have 64 MiB of rings."""
    root = build.build(replace(small_vm(), nodes=(Node(GIGABYTE),)), str(tmp_path))
    most = {"combined": 2}
    found = on(root, channels=most, channels_max=most)
    assert found["ring.rx"].reading.want == "eth0: 1024"
    assert found["ring.rx"].reading.clamped == (
        "eth0: 8192 rx ring entries of 4 KiB in 2 queues would take 64 MiB, over 1 % of memory, "
        "so it gets 1024"
    )
    # What is sent is in memory anyhow.
    assert found["ring.tx"].reading.want == "eth0: 8192"


# -- the cap -----------------------------------------------------------------------------------


def test_a_ring_that_memory_bounds_is_clamped_with_both_numbers(sockets: NicNode) -> None:
    sockets.has(64 * GIGABYTE)
    rule = {**ETH2, "rings": {"rx": "auto"}}
    (after,) = apply(sockets, rule).rows
    words = (
        "eth2: 8192 rx ring entries of 8 KiB in 63 queues would take 4032 MiB, over 1 % of memory, so it gets"
    )
    assert (after.status, after.reason) == (Status.CLAMPED, f"{words} 1024")
    assert row(sockets, rule).status is Status.CLAMPED
    assert plan(sockets, rule).steps == ()


def test_channels_of_the_same_rule_count_as_they_will_be(sockets: NicNode) -> None:
    """Fewer queues leave room for longer rings; the look before and the one after the run agree."""
    sockets.has(64 * GIGABYTE)
    rule = {**ETH2, "channels": "auto", "rings": {"rx": "auto"}}
    assert rows(sockets, rule)["nic.one.ring.rx"].reading.want == "eth2: 8192"
    apply(sockets, rule)
    assert ((sockets.eth2.channels or {})["combined"], (sockets.eth2.ring or {})["rx"]) == (4, 8192)
    assert plan(sockets, rule).steps == ()
    _ring(sockets)["rx"] = 256
    assert rows(sockets, {**rule, "channels": 32})["nic.one.ring.rx"].reading.want == "eth2: 2048"
    assert (
        rows(sockets, {**rule, "channels": {"combined": 32}})["nic.one.ring.rx"].reading.want == "eth2: 2048"
    )


def test_at_most_is_auto_with_a_bound_and_a_number_is_a_number(sockets: NicNode) -> None:
    sockets.has(GIGABYTE)
    wants = {
        str(value): row(sockets, {**ETH2, "rings": {"rx": value}}).reading.want
        for value in (4096, "max", "auto", {"at_most": 2048}, {"at_most": 128})
    }
    # Of the present 1024 no formula makes the 256 that 1 % of memory is.
    assert [*wants.values()] == ["eth2: 4096", "eth2: 8192", "eth2: 1024", "eth2: 1024", "eth2: 128"]


@cases.table
def test_a_ring_is_lowered_only_by_a_number_or_a_bound_and_that_is_said(
    sockets: NicNode, asked: Any, want: int, words: str
) -> None:
    """A profile's formula would have made 256 of it, as 1 % of memory is no more."""
    sockets.has(GIGABYTE)
    _ring(sockets)["rx"] = 8192
    found = row(sockets, {**ETH2, "rings": {"rx": asked}})
    assert (found.reading.want, words in found.reason) == (f"eth2: {want}", True)
    assert found.reading.clamped == ""


def test_a_bound_keeps_what_is_within_it(sockets: NicNode) -> None:
    sockets.has(GIGABYTE)
    found = row(sockets, {**ETH2, "rings": {"rx": {"at_most": 2048}}})
    assert (found.status, found.reading.want, found.reading.lowers) == (Status.OK, "eth2: 1024", "")


@cases.table
def test_what_is_lowered_is_said_at_medium_at_least(
    sockets: NicNode, knobs: dict[str, Any], words: str
) -> None:
    found = row(sockets, {**ETH2, **knobs})
    assert words in found.reason
    assert found.info.severity is not Severity.LOW
    assert "lowers" not in row(sockets, {**ETH2, "tx_queue_len": 5000}).reason


def _ring(sockets: NicNode) -> dict[str, int]:
    assert sockets.eth2.ring is not None
    return sockets.eth2.ring


def test_a_page_of_64_kib_costs_as_much(sockets: NicNode) -> None:
    sockets.has(64 * GIGABYTE)
    sockets.eth2.channels = {"combined": 4}
    rule = {**ETH2, "rings": {"rx": "auto"}}
    assert row(sockets, rule).reading.want == "eth2: 8192"
    sockets.put("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", f"{512 << 20}\n")
    sockets.forget()
    assert row(sockets, rule).reading.want == "eth2: 1024"


def test_without_channels_the_queues_in_sysfs_count(sockets: NicNode) -> None:
    sockets.has(64 * GIGABYTE)
    sockets.eth2.channels = None
    assert row(sockets, {**ETH2, "rings": {"rx": "auto"}}).reading.want == "eth2: 8192"


def test_memory_that_cannot_be_read_is_unknown(sockets: NicNode) -> None:
    sockets.put("/proc/meminfo", "Hugepagesize: 2048 kB\n")
    found = row(sockets, {**ETH2, "rings": {"rx": "auto"}})
    assert (found.status, "MemTotal" in found.reason) == (Status.UNKNOWN, True)


# -- what goes over a NIC ----------------------------------------------------------------------


def test_a_rail_is_left_whatever_the_rule_and_can_be_given_a_number(node: NicNode) -> None:
    node.has(TERABYTE)
    for value in ("auto", {"at_most": 2048}):
        found = row(node, {**ETH2, "rings": {"rx": value}})
        assert (found.status, found.reading.want) == (Status.OK, "eth2: 1024 [left]")
        assert found.reason == "eth2: a rail, and RDMA does not use these rings: left as they are"
    assert row(node, {**ETH2, "rings": {"rx": 2048}}).reading.want == "eth2: 2048"
    assert row(node, {**ETH2, "rings": {"rx": "max"}}).reading.want == "eth2: 8192"


def test_a_rail_that_carries_the_default_route_is_for_sockets_too(node: NicNode) -> None:
    node.has(TERABYTE)
    node.carry("eth2", "eth3")
    found = rows(node, {**ETH2, "channels": "auto", "rings": {"rx": "auto"}}, allow=["management"])
    assert hardware.topology(node).nics[1].rail is not None
    assert (found["nic.one.ring.rx"].reading.want, found["nic.one.channels"].reading.want) == (
        "eth2: 8192",
        "eth2: 4",
    )


def test_soft_roce_goes_through_rings_and_channels(sockets: NicNode) -> None:
    sockets.has(TERABYTE)
    rxe_machine.add(sockets, "eth2")
    assert hardware.topology(sockets).rdma[0].rail == 0
    found = rows(sockets, {**ETH2, "channels": "auto", "rings": {"rx": "auto"}})
    assert found["nic.one.ring.rx"].reading.want == "eth2: 8192"
    assert found["nic.one.channels"].reading.want == "eth2: 4"


def test_a_rail_on_a_node_with_many_cores_has_eight_channels_and_fewer_with_fewer(node: NicNode) -> None:
    assert row(node, {**ETH2, "channels": "auto"}).reading.want == "eth2: 4"
    assert row(node, {**ETH2, "channels": {"at_most": 2}}).reading.want == "eth2: 2"
    node.put("/sys/devices/system/node/node0/cpulist", "0-15\n")
    node.forget()
    assert row(node, {**ETH2, "channels": "auto"}).reading.want == "eth2: 8"
    assert row(node, {**ETH2, "channels": 16}).reading.want == "eth2: 16"
