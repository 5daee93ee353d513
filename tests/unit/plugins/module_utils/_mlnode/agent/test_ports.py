# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA ports and NICs as metrics: which ports are rails of one class, and which interfaces are hardware."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures.build import tree as captured
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import ports
from mlnode.host.host import Host
from mlnode.topology import hardware


def rails(name: str) -> dict[str, tuple[str, str, str]]:
    """Device → port, rail and class."""
    family = ports.rails(Host(captured(name)))
    assert {*(one.value for one in family.samples)} <= {1}
    found = {
        one.labels["device"]: (one.labels["port"], one.labels["rail"], one.labels["class"])
        for one in family.samples
    }
    assert len(found) == len(family.samples)
    return found


def test_the_ports_for_management_are_no_rails() -> None:
    """Nor is mlx5_2, which has no cable."""
    names = ("mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7", "mlx5_8", "mlx5_9")
    assert rails("hgx") == {
        name: ("1", str(number), "15b3:1021 Ethernet") for number, name in enumerate(names)
    }


@pytest.mark.parametrize("name", ["small-vm", "tiny-vm"])
def test_a_node_without_rdma_has_none(name: str) -> None:
    assert rails(name) == {}


def test_nothing_to_read_is_no_rail(tmp_path: pathlib.Path) -> None:
    assert ports.rails(Machine(str(tmp_path))).samples == ()


def test_the_nics_in_hardware_and_their_rdma_devices() -> None:
    samples = ports.nics(Host(captured("hgx"))).samples
    found = {one.labels["device"]: one.labels["rdma"] for one in samples}
    assert len(found) == len(samples) == 10
    assert found["enp24s0np0"] == "mlx5_0"
    assert found["enp41s0f1np1"] == "mlx5_2", "also one without a cable"
    assert [one.labels for one in ports.nics(Host(captured("small-vm"))).samples] == [
        {"device": "eth0", "rdma": ""}
    ]


def test_interfaces_of_software_and_virtual_functions_are_no_hardware() -> None:
    host = Host(captured("roce8"))
    kinds = {nic.name: nic.kind for nic in hardware.topology(host).nics}
    found = {one.labels["device"] for one in ports.nics(host).samples}
    assert {*kinds} - found
    assert {kinds[name] for name in found} == {"physical"}
