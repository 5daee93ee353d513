# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One variable of the kernel under several names is one setting."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.engine import engine
from mlnode.engine.engine import Request
from mlnode.engine.kind import Row
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.knobs.sysctl.parse import parse
from mlnode.model.errors import DeclarationError
from mlnode.model.setting import Status

TRACKED, ALSO = "net.netfilter.nf_conntrack_max", "net.nf_conntrack_max"
FORWARD, OF_ALL, OF_ETH = (
    "net.ipv4.ip_forward",
    "net.ipv4.conf.all.forwarding",
    "net.ipv4.conf.eth0.forwarding",
)


@pytest.fixture
def node(machine: Machine) -> Machine:
    for key, value in ((TRACKED, "262144"), (ALSO, "262144"), (FORWARD, "0"), (OF_ALL, "0"), (OF_ETH, "0")):
        machine.put(f"/proc/sys/{key.replace('.', '/')}", f"{value}\n")
    machine.put("/sys/module/nf_conntrack/refcnt", "3\n")
    return machine


def evaluated(machine: Machine, name: str = "one", **settings: Any) -> list[Row]:
    machine.forget()
    spec = {"settings": {key.replace("__", "."): value for key, value in settings.items()}}
    return [*engine.evaluate(machine, Request(name, sysctl, spec)).rows]


def declare(machine: Machine, name: str, settings: dict[str, Any]) -> None:
    machine.forget()
    door.apply(machine, Request(name, sysctl, {"settings": settings}))


@cases.table
def test_two_values_for_one_variable_are_refused_by_name(
    node: Machine, settings: dict[str, Any], refused: bool
) -> None:
    before = node.tree()
    if not refused:
        parse({"settings": settings}, None)
        return
    with pytest.raises(DeclarationError, match="two names of one variable") as caught:
        declare(node, "one", settings)
    assert all(key in str(caught.value) for key in settings)
    assert node.tree() == before


def test_two_declarations_cannot_take_turns(node: Machine) -> None:
    declare(node, "one", {TRACKED: 4194304})
    before = node.tree()
    with pytest.raises(DeclarationError) as caught:
        declare(node, "two", {ALSO: 65536})
    for word in (TRACKED, ALSO, "/etc/mlnode/declared.d/one.json"):
        assert word in str(caught.value)
    assert node.tree() == before
    declare(node, "two", {ALSO: 4194304})
    assert node.now("/proc/sys/net/netfilter/nf_conntrack_max") == "4194304"


@cases.table
def test_an_override_by_another_name_is_found(
    node: Machine, file: str, line: str, boot: str, source: str
) -> None:
    node.put("/lib/modules/6.12.0-test/modules.builtin", "kernel/net/netfilter/nf_conntrack.ko\n")
    declare(node, "one", {TRACKED: 4194304})
    node.put(f"/etc/sysctl.d/{file}", f"{line}\n")
    [row] = evaluated(node, **{TRACKED: 4194304})
    assert (row.reading.boot.value.text, row.status) == (
        boot,
        Status.OK if boot == "4194304" else Status.OVERRIDDEN,
    )
    assert row.reading.boot.source.endswith(source)
    assert any(file in text for text in sysctl.boot_sources(TRACKED, node))


def test_a_file_in_another_unit_is_unknown_unless_it_can_be_converted(node: Machine) -> None:
    for name, value in (
        ("base_reachable_time_ms", 30000),
        ("base_reachable_time", 30),
        ("unres_qlen_bytes", 65536),
    ):
        node.put(f"/proc/sys/net/ipv4/neigh/lo/{name}", f"{value}\n")
    declare(
        node,
        "one",
        {"net.ipv4.neigh.lo.unres_qlen_bytes": 65536, "net.ipv4.neigh.lo.base_reachable_time_ms": 30000},
    )
    node.put(
        "/etc/sysctl.d/zzz.conf",
        "net.ipv4.neigh.lo.unres_qlen = 31\nnet.ipv4.neigh.lo.base_reachable_time = 20\n",
    )
    settings = {
        "net.ipv4.neigh.lo.unres_qlen_bytes": 65536,
        "net.ipv4.neigh.lo.base_reachable_time_ms": 30000,
    }
    bytes_, time = evaluated(node, **settings)
    assert bytes_.status is Status.UNKNOWN
    assert "zzz.conf:1 (net.ipv4.neigh.lo.unres_qlen)" in bytes_.reason
    assert (time.status, time.reading.boot.value.text) == (Status.OVERRIDDEN, "20000")


def test_forwarding_is_written_before_the_interfaces_that_it_moves(node: Machine) -> None:
    plan = engine.evaluate(node, Request("one", sysctl, {"settings": {OF_ETH: 0, FORWARD: 1}}))
    assert [row.setting.key for row in plan.rows] == [FORWARD, OF_ETH]
    paths = [step.path if hasattr(step, "path") else step.file.path for step in plan.steps]
    assert paths[:2] == ["/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv4/conf/eth0/forwarding"]
    assert plan.rows[1].reading.runtime.text == "0 (net.ipv4.ip_forward moves it)"
    declare(node, "one", {OF_ETH: 0, FORWARD: 1})
    text = node.read("/etc/sysctl.d/zz-mlnode-one.conf")
    assert text.index(FORWARD) < text.index(OF_ETH)
    assert {row.status for row in evaluated(node, **{OF_ETH: 0, FORWARD: 1})} == {Status.OK}


@cases.table
def test_a_value_for_all_interfaces_that_counts_in_place_of_one_is_named(
    node: Machine, key: str, of_all: int, one: int, note: str
) -> None:
    node.put(f"/proc/sys/net/ipv4/conf/all/{key}", f"{of_all}\n")
    node.put(f"/proc/sys/net/ipv4/conf/eth0/{key}", f"{one}\n")
    (row,) = evaluated(node, **{f"net.ipv4.conf.eth0.{key}": one})
    assert (note in row.reading.note) if note else row.reading.note == ""
    (row,) = evaluated(node, **{f"net.ipv4.conf.all.{key}": of_all})
    assert row.reading.note == ""
