# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA ports and NICs as metrics, with the labels of node_exporter's collectors: rules join both."""

from __future__ import annotations

from typing import Sequence

from ..host.host import Host
from ..model import values
from ..report.metrics import COUNTER, GAUGE, Family, Sample
from ..topology import hardware
from ..topology import nics as topology_nics
from ..topology.model import Topology

_COUNTERS = "/sys/class/infiniband/*/ports/*/hw_counters"

#: Counters of a port for packets sent again, or for waits for that, by driver. node_exporter exports the
#: counters of mlx5 since 1.11, and those by other drivers not at all.
RETRANSMISSIONS = (
    *("packet_seq_err", "local_ack_timeout_err", "roce_adp_retrans"),  # mlx5: counters.rst
    *("seq_err_naks_rcvd", "to_retransmits"),  # bnxt_re: drivers/infiniband/hw/bnxt_re/hw_counters.c
    *("req_rx_pkt_seq_err", "tx_rdma_ack_timeout"),  # ionic: named by AMD's firmware
    "tcpRetransSegs",  # irdma: drivers/infiniband/hw/irdma/hw.c
    "retrans_timeout_events",  # EFA: drivers/infiniband/hw/efa/efa_verbs.c
)
#: Files that count packets received after a later one: mlx5, bnxt_re, ionic
OUT_OF_SEQUENCE = ("out_of_sequence", "oos_drop_count", "resp_rx_outouf_seq")


def counters(host: Host) -> tuple[Family, ...]:
    """Counters of all ports that have any. Never raises."""
    folders = host.matching(_COUNTERS)
    return (
        _sum(
            host,
            folders,
            "mlnode_rdma_retransmissions_total",
            "Packets that were sent again, or waited for in vain, as the driver counts them.",
            RETRANSMISSIONS,
        ),
        _sum(
            host,
            folders,
            "mlnode_rdma_out_of_sequence_total",
            "Packets that arrived after a later one.",
            OUT_OF_SEQUENCE,
        ),
    )


def _sum(host: Host, folders: Sequence[str], name: str, text: str, files: Sequence[str]) -> Family:
    samples = []
    for folder in folders:
        total = _total(host, folder, files)
        if total is not None:
            device, port = folder.split("/")[4:7:2]
            samples.append(Sample(total, {"device": device, "port": port}))
    return Family(name, COUNTER, text, tuple(samples))


def _total(host: Host, folder: str, files: Sequence[str]) -> int | None:
    """None if the driver has no such counter, or one file cannot be read: a partial sum would look like a
    reset, and Prometheus would count everything twice."""
    read = [host.value(f"{folder}/{name}") for name in files]
    there = [values.number((value.text or "").strip()) for value in read if value.absent is None]
    numbers = [number for number in there if number is not None]
    return sum(numbers) if numbers and len(numbers) == len(there) else None


def rails(host: Host) -> Family:
    """The ports that are rails. Ports of one class carry the same load in a training job. Never raises."""
    topology = hardware.topology(host)
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


def nics(host: Host) -> Family:
    """The NICs in hardware, each with its first RDMA device, if any. Names of bridges, tunnels and interfaces
    of containers follow no rule, and their links come and go. Never raises."""
    samples = tuple(
        Sample(1, {"device": nic.name, "rdma": next(iter(nic.rdma), "")})
        for nic in hardware.topology(host).nics
        if nic.kind in topology_nics.HARDWARE
    )
    return Family("mlnode_nic_info", GAUGE, "NICs in hardware; rdma: the RDMA device on it.", samples)


def _model(topology: Topology, address: str | None) -> str:
    """As lspci -n has it."""
    function = next((function for function in topology.pci if function.address == address), None)
    return f"{function.vendor:04x}:{function.device:04x}" if function else "software"
