# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Soft-RoCE as the kernel shows it: a device of its own below virtual, whose interface is in `parent` and in
its GIDs, without counters/ and without a link to a device."""

from __future__ import annotations

from ansible_collections.mlnode.tuning.tests.fixtures import fabric_files
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine

CLASS = "/sys/class/infiniband"


def add(
    machine: Machine, nic: str, name: str = "rxe0", state: str = "4: ACTIVE", physical: str = "5: LinkUp"
) -> None:
    """`rdma link add NAME type rxe netdev NIC`. Empty GIDs are files that cannot be read (EINVAL)."""
    place = f"/sys/devices/virtual/infiniband/{name}"
    files = {
        "node_type": "1: CA",
        "node_guid": "0000:0000:0000:0000",
        "fw_ver": "",
        "parent": nic,
        "ports/1/state": state,
        "ports/1/phys_state": physical,
        "ports/1/link_layer": "Ethernet",
        "ports/1/rate": "2.5 Gb/sec (1X SDR)",
        "ports/1/lid": "0x0",
        "ports/1/sm_lid": "0x0",
        "ports/1/gids/0": fabric_files.gid("fe80::1"),
        "ports/1/gid_attrs/types/0": "RoCE v2",
        "ports/1/gid_attrs/ndevs/0": nic,
        "ports/1/gids/1": fabric_files.gid("::ffff:10.0.0.7"),
        "ports/1/gid_attrs/types/1": "RoCE v2",
        "ports/1/gid_attrs/ndevs/1": nic,
        "ports/1/gids/2": fabric_files.EMPTY,
        "ports/1/gid_attrs/types/2": "",
        "ports/1/gid_attrs/ndevs/2": "",
        "ports/1/pkeys/0": "0xffff",
        "ports/1/hw_counters/sent_pkts": "12",
        "ports/1/hw_counters/rcvd_seq_err": "0",
        "ports/1/hw_counters/link_downed": "0",
    }
    for path, text in files.items():
        # Soft-RoCE has no firmware and says so with an empty line; empty GIDs answer EINVAL.
        machine.put(f"{place}/{path}", f"{text}\n" if text or path == "fw_ver" else "")
    machine.link(f"{CLASS}/{name}", f"../../devices/virtual/infiniband/{name}")
    machine.forget()
