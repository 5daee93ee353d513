# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The trees of machines with accelerators of AMD and AWS have what the library reads of their drivers."""

from __future__ import annotations

import re

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures.build import tree
from ansible_collections.mlnode.tuning.tests.fixtures.seen import PCI, see
from mlnode.host.host import Host
from mlnode.linux import ranks
from mlnode.topology import hardware

INSTINCT = pytest.mark.parametrize("name", ["mi300x", "mi355x"])


@INSTINCT
def test_each_gpu_has_a_file_that_leads_to_it(name: str) -> None:
    host = Host(tree(name))
    gpus = [gpu.address for gpu in hardware.topology(host).gpus]
    assert [ranks.address(host, f"/dev/dri/renderD{128 + number}") for number in range(8)] == gpus
    assert ranks.address(host, "/dev/kfd") is None


@INSTINCT
def test_each_gpu_shows_its_partition_errors_and_power(name: str) -> None:
    seen = see(name)
    for gpu in hardware.topology(Host(seen.root)).gpus:
        folder = f"{PCI}/{gpu.address}"
        assert seen.text(f"{folder}/current_compute_partition") in seen.text(
            f"{folder}/available_compute_partition"
        )
        assert re.fullmatch(r"ue: [0-9]+\nce: [0-9]+", seen.text(f"{folder}/ras/umc_err_count"))
        (hwmon,) = seen.names(f"{folder}/hwmon")
        assert seen.number(f"{folder}/hwmon/{hwmon}/power1_cap") == seen.number(
            f"{folder}/hwmon/{hwmon}/power1_cap_default"
        )


@INSTINCT
def test_the_gpus_of_a_hive_have_links_to_each_other(name: str) -> None:
    seen = see(name)
    nodes = "/sys/class/kfd/kfd/topology/nodes"
    gpus = [node for node in seen.names(nodes) if seen.text(f"{nodes}/{node}/gpu_id") != "0"]
    assert len(gpus) == 8
    for node in gpus:
        texts = [
            seen.text(f"{nodes}/{node}/io_links/{link}/properties")
            for link in seen.names(f"{nodes}/{node}/io_links")
        ]
        ends = [re.findall(r"type 11\nnode_from ([0-9]+)\nnode_to ([0-9]+)", text) for text in texts]
        assert sorted(end for pair in ends for _from, end in pair) == sorted({*gpus} - {node})


@INSTINCT
def test_each_gpu_has_the_rail_of_its_switch(name: str) -> None:
    found = hardware.topology(Host(tree(name)))
    nearest = {binding.gpu: binding.nics for binding in found.bindings}
    rails = [device for device in found.rdma if device.rail is not None]
    assert [device.rail for device in rails] == [*range(8)]
    for gpu, rail in zip(found.gpus, rails):
        (port,) = rail.ports
        assert nearest[gpu.address] == port.netdevs


def test_system_peripherals_of_a_chipset_are_no_accelerators_and_those_of_aws_are() -> None:
    host = Host(tree("trn1"))
    found = hardware.topology(host)
    assert len(found.gpus) == 16
    assert {(gpu.vendor, gpu.driver, gpu.link) for gpu in found.gpus} == {("AWS", "neuron", None)}
    assert [gpu.node for gpu in found.gpus] == [0] * 8 + [1] * 8
    # The driver's numbers are not the order on PCI, and nothing in sysfs has both.
    assert ranks.address(host, "/dev/neuron0") is None
