# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA ports as metrics, with the labels of node_exporter's collector infiniband: rules join both."""

from __future__ import annotations

from ..host.host import Host
from ..report.metrics import GAUGE, Family, Sample
from ..topology import read
from ..topology.model import Topology


def rails(host: Host) -> Family:
    """The ports that are rails. Those of one class carry the same load in a training job. Never raises."""
    topology = read.of(host)
    samples = tuple(
        Sample(
            1,
            {
                "device": device.name,
                "port": str(port.number),
                "rail": str(device.rail),
                "class": f"{_model(topology, device.address)} {port.link_layer}",
            },
        )
        for device in topology.rdma
        if device.rail is not None
        for port in device.ports
    )
    text = "RDMA ports that are rails; class: PCI vendor and device, and link layer."
    return Family("mlnode_rdma_rail_info", GAUGE, text, samples)


def _model(topology: Topology, address: str | None) -> str:
    """As lspci -n has it."""
    function = next((one for one in topology.pci if one.address == address), None)
    return f"{function.vendor:04x}:{function.device:04x}" if function else "software"
