# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules that only some nodes need: nvidia_peermem, where a NIC has no other way into a GPU's memory.

With NVIDIA's open kernel modules and a kernel since 5.12 that way is DMA-BUF. nvidia_peermem registers with
the peer memory interface of DOCA-OFED's RDMA core, and cannot be loaded beside the kernel's own.
"""

from __future__ import annotations

import re

from ...host.host import Host

#: What may be declared so
KNOWN = ("nvidia_peermem",)
CLAIM = "loaded where needed"

_RDMA = "/sys/class/infiniband"
_DRIVER = "/proc/driver/nvidia/version"
_PEERS = "/sys/kernel/mm/memory_peers"
#: drivers/infiniband/core/umem_dmabuf.c
_DMABUF_SINCE = (5, 12)


def obstacle(host: Host, release: str) -> str:
    """Why this node does not need nvidia_peermem, or cannot have it; empty where it is to be loaded. Raises
    HostError."""
    if not any(host.exists(f"{_RDMA}/{name}/device") for name in host.names(_RDMA)):
        return "not needed: no RDMA device with hardware behind it is here"
    driver = host.text(_DRIVER).split("\n", 1)[0]
    if not driver:
        return f"not needed: {_DRIVER} does not exist, so that NVIDIA's driver is not loaded"
    kernel = re.match(r"([0-9]{1,4})\.([0-9]{1,4})", release, re.ASCII)
    since = kernel is not None and (int(kernel.group(1)), int(kernel.group(2))) >= _DMABUF_SINCE
    if since and "Open Kernel Module" in driver:
        return "not needed: NVIDIA's open kernel modules export DMA-BUF"
    if not host.exists(_PEERS):
        return (
            f"{_PEERS} does not exist: the RDMA core of this kernel takes no peer memory, which DOCA-OFED's "
            "does; or install NVIDIA's open kernel modules on a kernel since 5.12, for DMA-BUF"
        )
    return ""
