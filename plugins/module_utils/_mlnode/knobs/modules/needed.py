# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules that only some nodes need: nvidia_peermem, if a NIC has no other way to a GPU's memory.

With NVIDIA's open kernel modules and Linux 5.12 or later, DMA-BUF is that way. nvidia_peermem needs the peer
memory interface of DOCA-OFED's RDMA core, and cannot be loaded with the kernel's own core.
"""

from __future__ import annotations

from ...host.host import Host
from ...linux import modules_load
from ...model import values
from ...model.record import NamedTuple

_MODULE = "nvidia_peermem"
#: Modules with a conditional declaration
KNOWN = (_MODULE,)
CLAIM = "loaded where needed"

_RDMA = "/sys/class/infiniband"
_DRIVER = "/proc/driver/nvidia/version"
_PEERS = "/sys/kernel/mm/memory_peers"
#: Has the peer memory interface. If nvidia_peermem was built without its symbols, nv_mem_client_init() only
#: returns EINVAL (kernel-open/nvidia-peermem/nvidia-peermem.c).
_CORE = "ib_core"
#: drivers/infiniband/core/umem_dmabuf.c
_DMABUF_SINCE = (5, 12)


class Obstacle(NamedTuple):
    """Reason not to load nvidia_peermem; empty if it is wanted. needless: this node does not need it."""

    words: str = ""
    needless: bool = False


def obstacle(host: Host, release: str) -> Obstacle:
    """Reason why this node does not need nvidia_peermem, or cannot have it. Raises HostError."""
    needless = _needless(host, release)
    return (
        Obstacle(f"not needed: {needless}", True) if needless else Obstacle(lacking(host, release, _MODULE))
    )


def _needless(host: Host, release: str) -> str:
    """Reason why this node does not need it; empty if it does."""
    if not any(host.exists(f"{_RDMA}/{name}/device") for name in host.names(_RDMA)):
        return "no RDMA device with hardware behind it is here"
    driver = host.text(_DRIVER).split("\n", 1)[0]
    if not driver:
        return f"{_DRIVER} does not exist; NVIDIA's driver is not loaded"
    version = values.kernel_version(release)
    if version is not None and version >= _DMABUF_SINCE and "Open Kernel Module" in driver:
        return "NVIDIA's open kernel modules export DMA-BUF"
    return ""


def lacking(host: Host, release: str, name: str) -> str:
    """Reason why a module of this name, which registers with the RDMA core, cannot be loaded; empty if it
    can.

    Raises HostError.
    """
    if not host.exists(_PEERS):
        return (
            f"{_PEERS} does not exist: the RDMA core of this kernel takes no peer memory, which DOCA-OFED's "
            "does; or install NVIDIA's open kernel modules on a kernel since 5.12, for DMA-BUF"
        )
    # depmod does not list symbols of code that is built into the kernel.
    uses = modules_load.dependencies(host, release, name)
    if uses is not None and _CORE not in uses and not modules_load.is_built_in(host, release, _CORE):
        return (
            f"{name} in /lib/modules/{release}/modules.dep uses nothing of {_CORE}: it was built without "
            "DOCA-OFED's headers and refuses to load; build NVIDIA's driver again with DOCA-OFED installed"
        )
    return ""
