# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules that only some nodes need: nvidia_peermem, where a NIC has no other way into a GPU's memory.

With NVIDIA's open kernel modules and a kernel since 5.12 that way is DMA-BUF. nvidia_peermem registers with
the peer memory interface of DOCA-OFED's RDMA core, and cannot be loaded beside the kernel's own.
"""

from __future__ import annotations

from ...host.host import Host
from ...linux import modules_load
from ...model import values
from ...model.record import NamedTuple

_MODULE = "nvidia_peermem"
#: What may be declared so
KNOWN = (_MODULE,)
CLAIM = "loaded where needed"

_RDMA = "/sys/class/infiniband"
_DRIVER = "/proc/driver/nvidia/version"
_PEERS = "/sys/kernel/mm/memory_peers"
#: It has the peer memory interface. Built without its symbols, nv_mem_client_init() does nothing but return
#: EINVAL (kernel-open/nvidia-peermem/nvidia-peermem.c).
_CORE = "ib_core"
#: drivers/infiniband/core/umem_dmabuf.c
_DMABUF_SINCE = (5, 12)


class Obstacle(NamedTuple):
    """Why nvidia_peermem is not to be loaded; empty where it is. needless: this node does not need it."""

    words: str = ""
    needless: bool = False


def obstacle(host: Host, release: str) -> Obstacle:
    """Why this node does not need nvidia_peermem, or cannot have it. Raises HostError."""
    needless = _needless(host, release)
    return (
        Obstacle(f"not needed: {needless}", True) if needless else Obstacle(lacking(host, release, _MODULE))
    )


def _needless(host: Host, release: str) -> str:
    """Reason why this node has no use for it; empty where it has."""
    if not any(host.exists(f"{_RDMA}/{name}/device") for name in host.names(_RDMA)):
        return "no RDMA device with hardware behind it is here"
    driver = host.text(_DRIVER).split("\n", 1)[0]
    if not driver:
        return f"{_DRIVER} does not exist, so that NVIDIA's driver is not loaded"
    version = values.kernel_version(release)
    if version is not None and version >= _DMABUF_SINCE and "Open Kernel Module" in driver:
        return "NVIDIA's open kernel modules export DMA-BUF"
    return ""


def lacking(host: Host, release: str, name: str) -> str:
    """Reason why a module that registers with the RDMA core, by this name, cannot be loaded here; empty where
    it can. Raises HostError."""
    if not host.exists(_PEERS):
        return (
            f"{_PEERS} does not exist: the RDMA core of this kernel takes no peer memory, which DOCA-OFED's "
            "does; or install NVIDIA's open kernel modules on a kernel since 5.12, for DMA-BUF"
        )
    # Symbols of what is built into the kernel are none that depmod lists.
    uses = modules_load.dependencies(host, release, name)
    if uses is not None and _CORE not in uses and not modules_load.is_built_in(host, release, _CORE):
        return (
            f"{name} in /lib/modules/{release}/modules.dep uses nothing of {_CORE}: it was built without "
            "DOCA-OFED's headers and refuses to load; build NVIDIA's driver again with DOCA-OFED installed"
        )
    return ""
