# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules that only some nodes need: one for peer memory, if a NIC has no other way to a GPU's memory.

If the GPU's driver exports DMA-BUF on Linux 5.12 or later, that is the way. The module needs the peer memory
interface of a vendor's RDMA core, and cannot be loaded with the kernel's own core.
"""

from __future__ import annotations

from ...drivers.gpu import modules as gpu_modules
from ...drivers.gpu.module import GpuModule
from ...host.host import Host
from ...linux import modules_load
from ...model import values
from ...model.check import Nothing
from ...model.errors import HostError
from ...model.record import NamedTuple

#: Module with a conditional declaration → driver of the GPUs
_DRIVERS = {driver.PEER_MODULES[0]: driver for driver in gpu_modules.ALL if driver.PEER_MODULES}
KNOWN = tuple(_DRIVERS)
CLAIM = "loaded where needed"
#: Module → document about it
SOURCES = {name: driver.PEER_SOURCE for name, driver in _DRIVERS.items()}

_RDMA = "/sys/class/infiniband"
_PEERS = "/sys/kernel/mm/memory_peers"
#: Has the peer memory interface. A module that was built without its symbols refuses to load.
_CORE = "ib_core"
#: drivers/infiniband/core/umem_dmabuf.c
_DMABUF_SINCE = (5, 12)


class Obstacle(NamedTuple):
    """Reason not to load the module; empty if it is wanted. needless: this node does not need it."""

    words: str = ""
    needless: bool = False


def obstacle(host: Host, release: str, name: str) -> Obstacle:
    """Reason why this node does not need a module of KNOWN, or cannot have it. Raises HostError."""
    driver = _DRIVERS[name]
    needless = _needless(host, release, driver)
    if needless:
        return Obstacle(f"not needed: {needless}", True)
    return Obstacle(lacking(host, release, driver, name))


def _needless(host: Host, release: str, driver: GpuModule) -> str:
    """Reason why this node does not need it; empty if it does."""
    if not any(host.exists(f"{_RDMA}/{name}/device") for name in host.names(_RDMA)):
        return "no RDMA device with hardware behind it is here"
    try:
        driver.require(host)
    except Nothing as nothing:
        return str(nothing)
    version = values.kernel_version(release)
    if version is None or version < _DMABUF_SINCE:
        return ""
    export = driver.exports(host, (), release)
    if export.works is None:
        raise HostError("determine the need from", export.source, None, export.words)
    return export.words if export.works else ""


def lacking(host: Host, release: str, driver: GpuModule, name: str) -> str:
    """Reason why a module of this driver, which registers with the RDMA core, cannot be loaded; empty if it
    can.

    Raises HostError.
    """
    if not host.exists(_PEERS):
        return f"{_PEERS} does not exist: this kernel's RDMA core takes no peer memory; {driver.PEER_ADVICE}"
    # depmod does not list symbols of code that is built into the kernel.
    uses = modules_load.dependencies(host, release, name)
    if uses is not None and _CORE not in uses and not modules_load.is_built_in(host, release, _CORE):
        return (
            f"{name} in /lib/modules/{release}/modules.dep uses nothing of {_CORE}: it was built without the "
            f"headers of this RDMA core and refuses to load; {driver.PEER_REBUILD}"
        )
    return ""
