# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small machine with RDMA devices of any kind, as files that a test may change."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.mlnode.tuning.tests.fixtures import fabric_files, machines, parts
from ansible_collections.mlnode.tuning.tests.fixtures.build import build
from ansible_collections.mlnode.tuning.tests.fixtures.hardware import Function, Nic, Rdma, Root
from ansible_collections.mlnode.tuning.tests.fixtures.nets import INFINIBAND
from ansible_collections.mlnode.tuning.tests.unit import rxe_machine
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.checks import expect
from mlnode.checks.model import Check
from mlnode.checks.rdma import run

CLASS = "/sys/class/infiniband"
PORT = f"{CLASS}/mlx5_0/ports/1"
HARDWARE = "0000:01:00.0"
CONF = "/proc/sys/net/ipv4/conf"

_PORT = {
    **{f"counters/{name}": value for name, value in fabric_files.PORT_COUNTERS.items()},
    **{f"hw_counters/{name}": value for name, value in fabric_files.HW_COUNTERS.items()},
    "pkeys/0": "0xffff",
}


def roce(**changes: Any) -> Function:
    """One RoCE NIC of 100 Gbit/s. changes: of its Rdma."""
    gids = (
        (fabric_files.gid("fe80::1"), "IB/RoCE v1"),
        (fabric_files.gid("fe80::1"), "RoCE v2"),
        (fabric_files.gid("::ffff:10.0.0.7"), "RoCE v2"),
        (fabric_files.EMPTY, ""),
    )
    device = Rdma(
        "mlx5_0", "Ethernet", "100 Gb/sec (4X EDR)", "0200:00ff:fe00:0001", "rail0", port=_PORT, gids=gids
    )
    nic = Nic("rail0", parts.mac(1), speed=100000, mtu=9000, files={"carrier_down_count": 1})
    attributes = {"fw_ver": "28.43.1014", "board_id": "MT_1"}
    return _card(replace(device, attributes=attributes, verbs=0, **changes), nic)


def infiniband(**changes: Any) -> Function:
    """One HDR HCA with IPoIB."""
    device = Rdma(
        "mlx5_0", "InfiniBand", "200 Gb/sec (4X HDR)", "0200:00ff:fe00:0001", lid="0x10", port=_PORT
    )
    nic = Nic(
        "ib0", ":".join(["02"] * 20), speed=200000, mtu=4092, type=INFINIBAND, files={"carrier_down_count": 0}
    )
    return _card(replace(device, verbs=0, **changes), nic)


def _card(device: Rdma, nic: Nic) -> Function:
    card = parts.mlx5(HARDWARE, "15b3:1021", device, nic, queues=2)
    return replace(card, files=fabric_files.AER)


def node(path: pathlib.Path, card: Function, extra: Mapping[str, str] | None = None) -> Machine:
    """A machine with one such card."""
    base = machines.small_vm()
    root = Root("pci0000:01", 0, (card,))
    files = {
        **fabric_files.SYSTEM,
        "/dev/infiniband/uverbs0": "",
        "/dev/infiniband/rdma_cm": "",
        **(extra or {}),
    }
    machine = replace(base, roots=(*base.roots, root), extra=files)
    return Machine(build(machine, str(path / "node")))


def two_rails(path: pathlib.Path) -> Machine:
    """Two RoCE ports with an interface each, and ARP as it should be."""
    card = roce()
    (rdma,) = card.rdma
    second = replace(rdma, name="mlx5_1", guid="0200:00ff:fe00:0002", netdev="rail1", verbs=1, gids=None)
    nic = Nic("rail1", parts.mac(2), speed=100000)
    other = parts.mlx5("0000:02:00.0", "15b3:1021", second, nic, queues=2)
    bridge = parts.bridge("0000:00:1c.0", "8086:0001", card, other)
    values = {"arp_ignore": "1", "arp_announce": "2", "rp_filter": "2"}
    extra = {
        f"{CONF}/{name}/{key}": f"{value}\n" for name in ("rail0", "rail1") for key, value in values.items()
    }
    return node(path, bridge, {**extra, "/dev/infiniband/uverbs1": ""})


def software(path: pathlib.Path, state: str = "4: ACTIVE", physical: str = "5: LinkUp") -> Machine:
    """Soft-RoCE as it is: no PCI function, no folder counters, empty GIDs whose attributes cannot be read."""
    machine = Machine(build(machines.small_vm(), str(path / "node")))
    rxe_machine.add(machine, "eth0", state=state, physical=physical)
    nothing = {"statistic": "EOPNOTSUPP", "pause": "EOPNOTSUPP"}
    machine.put("/ethtool/eth0.json", json.dumps({"format": 1, "answers": nothing}))
    none = dict.fromkeys(("pfc", "dscp-prio", "trust"), "the driver virtio_net has no DCB")
    machine.put("/dcb/eth0.json", json.dumps({"format": 1, "answers": none}))
    for path_, text in fabric_files.SYSTEM.items():
        machine.put(path_, text)
    return machine


def look(
    machine: Machine, declared: Mapping[str, Any] | None = None, **options: Any
) -> dict[tuple[str, str], Check]:
    """All checks by name and target."""
    machine.forget()
    found = run.all_checks(machine, expect.parse(declared or {}), **options)
    assert len({(check.name, check.target) for check in found}) == len(found)
    return {(check.name, check.target): check for check in found}


def of_port(machine: Machine, name: str, declared: Mapping[str, Any] | None = None, **port: Any) -> Check:
    """A check of the one port, with what is declared of it."""
    given = dict(declared or {}) or {"devices": {"mlx5_0/1": port}}
    return look(machine, given)[name, "mlx5_0/1"]


def of_device(machine: Machine, name: str, **device: Any) -> Check:
    return look(machine, {"devices": {"mlx5_0": device}})[name, "mlx5_0"]
