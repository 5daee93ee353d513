# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.fabric_tree import (
    GPU,
    NIC,
    TO_NIC,
    UPSTREAM,
    bad,
    named,
    run,
    virtual,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import Tree

SWITCH = f"PCIe switch {UPSTREAM}"


def speed(tree: Tree, address: str, number: str, most: bool = False) -> None:
    name = "max_link_speed" if most else "current_link_speed"
    tree.put(f"/sys/bus/pci/devices/{address}/{name}", f"{number} GT/s PCIe")


def width(tree: Tree, address: str, lanes: int, most: bool = False) -> None:
    tree.put(f"/sys/bus/pci/devices/{address}/{'max' if most else 'current'}_link_width", lanes)


def test_a_narrow_link(fabric: Tree) -> None:
    for end in (NIC, TO_NIC):
        width(fabric, end, 8)
    found = run(fabric.host)
    assert bad(found) == {("pcie_link", "mlx5_0"): "fail"}
    check = named(found, "pcie_link")["mlx5_0"]
    assert (check.expected, check.found) == ("32.0 GT/s x16", "32.0 GT/s x8")
    assert check.source.startswith(f"/sys/bus/pci/devices/{NIC}/{{current_link_speed,")
    assert "reseat the card" in check.advice


def test_a_slow_link_of_a_nic(fabric: Tree) -> None:
    speed(fabric, NIC, "16.0")
    assert bad(run(fabric.host)) == {("pcie_link", "mlx5_0"): "fail"}


@pytest.mark.parametrize("address, target", [(GPU, f"GPU0 ({GPU})"), (UPSTREAM, SWITCH)])
def test_an_idle_gpu_slows_its_link(fabric: Tree, address: str, target: str) -> None:
    speed(fabric, address, "2.5")
    found = run(fabric.host)
    assert bad(found) == {("pcie_link", target): "skip"}
    assert "look again under load" in named(found, "pcie_link")[target].advice
    width(fabric, address, 8)
    assert bad(run(fabric.host)) == {("pcie_link", target): "fail"}


def test_a_slot_that_cannot_do_more(fabric: Tree) -> None:
    for address in (NIC, TO_NIC):
        speed(fabric, address, "16.0")
    speed(fabric, TO_NIC, "16.0", most=True)
    found = run(fabric.host)
    assert bad(found) == {("pcie_link", "mlx5_0"): "warn"}
    assert named(found, "pcie_link")["mlx5_0"].expected == "32.0 GT/s x16"


def test_a_slow_switch_is_one_finding(fabric: Tree) -> None:
    width(fabric, UPSTREAM, 4)
    assert bad(run(fabric.host)) == {("pcie_link", SWITCH): "fail"}


@cases.table
def test_as_declared(fabric: Tree, declared: Any, verdict: str) -> None:
    found = named(run(fabric.host, {"pcie": declared}), "pcie_link")
    assert found["mlx5_0"].verdict == verdict
    assert found[SWITCH].verdict == "pass"


def test_less_than_possible_may_be_declared(fabric: Tree) -> None:
    for end in (NIC, TO_NIC):
        width(fabric, end, 8)
    assert named(run(fabric.host, {"pcie": {"width": 8}}), "pcie_link")["mlx5_0"].verdict == "pass"
    check = named(run(fabric.host, {"pcie": {"speed": 32, "width": 16}}), "pcie_link")["mlx5_0"]
    assert (check.verdict, check.expected) == ("fail", "at least 32.0 GT/s x16")


def test_a_link_nobody_knows_of(fabric: Tree) -> None:
    width(fabric, NIC, 255, most=True)
    check = named(run(fabric.host), "pcie_link")["mlx5_0"]
    assert check.verdict == "skip"
    assert "max_link_width 255" in check.found
    check = named(run(fabric.host, {"pcie": {"width": 8}}), "pcie_link")["mlx5_0"]
    assert check.verdict == "unknown"


@pytest.mark.parametrize("expect, verdict", [({}, "skip"), ({"pcie": {"width": 8}}, "unknown")])
def test_the_default_of_an_internal_bus_is_not_judged(
    fabric: Tree, expect: dict[str, Any], verdict: str
) -> None:
    for file, text in (("vendor", "0x8086"), ("device", "0x37d2")):
        fabric.put(f"/sys/bus/pci/devices/{NIC}/{file}", text)
    speed(fabric, NIC, "2.5")
    width(fabric, NIC, 1)
    check = named(run(fabric.host, expect), "pcie_link")["mlx5_0"]
    assert (check.verdict, check.advice) == (verdict, "")
    assert "inside the chipset" in check.found


def test_absent_is_not_unreadable(fabric: Tree) -> None:
    file = f"/sys/bus/pci/devices/{NIC}/current_link_speed"
    real = fabric.host.real(file)
    os.unlink(real)
    check = named(run(fabric.host), "pcie_link")["mlx5_0"]
    assert (check.verdict, check.found) == ("skip", f"{file} does not exist")
    refusing = fabric.refusing({file: errno.EIO, real[len(str(fabric.root)) :]: errno.EIO})
    check = named(run(refusing), "pcie_link")["mlx5_0"]
    assert check.verdict == "unknown"
    assert "EIO" in check.found


@pytest.mark.parametrize("text", ["", "fast", "-1", "x16", "\xff\x00", "9" * 5000])
@pytest.mark.parametrize("file", ["current_link_speed", "max_link_width"])
def test_nonsense(fabric: Tree, file: str, text: str) -> None:
    fabric.put(f"/sys/bus/pci/devices/{NIC}/{file}", text)
    check = named(run(fabric.host), "pcie_link")["mlx5_0"]
    assert check.verdict in ("unknown", "skip")
    assert check.found
    assert len(check.found) < 300


def test_bridges_of_a_hypervisor_are_made_up(fabric: Tree) -> None:
    virtual(fabric)
    speed(fabric, TO_NIC, "2.5", most=True)
    found = named(run(fabric.host), "pcie_link")
    assert SWITCH not in found
    assert found["mlx5_0"].verdict == "pass"


def test_of_an_end_that_was_not_seen_nothing_is_said(fabric: Tree) -> None:
    """A card of a virtual machine: its slot may be what has no more lanes."""
    virtual(fabric)
    width(fabric, NIC, 8)
    check = named(run(fabric.host), "pcie_link")["mlx5_0"]
    assert (check.verdict, check.expected, check.found) == ("warn", "32.0 GT/s x16", "32.0 GT/s x8")
    assert "both ends" not in check.advice
    assert "the limit of its other end is not known" in check.advice
