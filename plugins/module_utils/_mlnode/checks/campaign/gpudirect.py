# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind gpudirect: ib_write_bw between the memories of the nearest GPUs.

Each direction is also measured between the hosts' memories, right before.
"""

from __future__ import annotations

from typing import Any, Sequence

from ...drivers.gpu import drivers as gpu_drivers
from ...drivers.gpu.driver import GpuDriver
from ...host.host import Host
from ...host.system import Finished
from ...linux import perftest
from ...model.errors import HostError, RefusedError, UnfitError, listed
from ...topology import hardware
from ...topology.model import KINDS, Topology
from ..rdma import gpudirect as peers
from . import rdma, rdma_bw
from .kind import GBITS, End, Part, Rail
from .rdma import Flow
from .rdma_bw import MARGIN_SECONDS, Measured

NAME, UNIT, RDMA, PROGRAM = "gpudirect", GBITS, True, perftest.PROGRAM

#: The result for the host's memory is the limit of the hardware.
SHARE: float | None = None

#: As for tcp
MARGIN = 0.05

JUDGED: tuple[str, ...] = ("forward_gbits", "backward_gbits")
FIELDS: tuple[str, ...] = (*JUDGED, "host_forward_gbits", "host_backward_gbits")

#: Host then GPU memory in one direction, then in the other
STEPS = 4

#: Without a process that keeps the driver awake, the GPU's library starts some seconds later (persistence
#: mode)
AROUND = 2 * MARGIN_SECONDS + rdma.SETTLE + 4

#: As for all kinds of RDMA
COUNTED, EARLY, cpus, place, count = rdma.COUNTED, rdma.EARLY, rdma.cpus, rdma.place, rdma.count
resent, loss = rdma.resent, rdma.loss
is_early, stranger, overhead = rdma.is_early, rdma.stranger, rdma.overhead
carried = rdma_bw.carried


def require(host: Host) -> None:
    """Raises HostError."""
    rdma.require(host, PROGRAM)
    vendors = {gpu.vendor for gpu in hardware.topology(host).gpus}
    memories = [memory for vendor, memory in perftest.MEMORIES.items() if vendor in vendors]
    for memory in memories:
        if f"{memory.option}=" not in _offered(host):
            raise HostError("use", f"{PROGRAM} {memory.option}", None, memory.without)


def _offered(host: Host) -> str:
    """Options of this build. Raises HostError."""
    return host.once(f"{PROGRAM} --help", lambda: host.run([PROGRAM, "--help"]).out)


def ends(host: Host, part: Part) -> list[End]:
    """Raises RefusedError, HostError."""
    topology = hardware.topology(host)
    return [_with_gpu(host, topology, end) for end in rdma.ends(host, part)]


def _with_gpu(host: Host, topology: Topology, end: End) -> End:
    """Raises RefusedError, HostError."""
    gpus = {gpu.address: gpu.vendor for gpu in topology.gpus if gpu.vendor in perftest.MEMORIES}
    device = next(device for device in topology.rdma if device.name == end.device)
    names = {end.device, *device.netdevs}
    near = [
        distance
        for distance in topology.distances
        if distance.nic in names and distance.gpu in gpus and distance.kind in KINDS
    ]
    if not near:
        raise RefusedError(f"{end.device}: no GPU of {' or '.join(perftest.MEMORIES)} is known to be near it")
    best = min(near, key=lambda distance: (KINDS.index(distance.kind), distance.numa or 0, distance.gpu)).gpu
    alike = [address for address, vendor in gpus.items() if vendor == gpus[best]]
    [driver] = gpu_drivers.for_vendors([gpus[best]])
    numbered = driver.numbered(host, alike)
    if best not in numbered:
        raise RefusedError(f"{end.device}: {driver.MODULE} has no compute node for the GPU at {best}")
    place = perftest.place(best, gpus[best])
    twins = [address for address in alike if perftest.place(address, gpus[best]) == place]
    if len(twins) > 1:
        raise RefusedError(
            f"{end.device}: perftest names a GPU without its PCI domain, as {place}, and that may be "
            f"{listed(twins)}: which one it would measure is unknown"
        )
    chosen = end._replace(gpu=numbered.index(best), gpu_address=best, gpu_vendor=gpus[best])
    return chosen._replace(dmabuf=_is_dmabuf(host, topology, chosen, driver))


def _is_dmabuf(host: Host, topology: Topology, end: End, driver: GpuDriver) -> bool:
    """True if the RDMA core has no peer memory of this driver, and perftest was built with DMA-BUF. Raises
    HostError."""
    cards = [device.address for device in topology.rdma if device.name == end.device and device.address]
    peer_memory = peers.peer_memory(host, driver, cards)
    return not peer_memory.works and perftest.MEMORIES[end.gpu_vendor].dmabuf in _offered(host).split()


def flows(part: Part, rail: Rail, step: int) -> list[Flow]:
    end = rail.end
    gpu = {"gpu": end.gpu, "vendor": end.gpu_vendor, "dmabuf": end.dmabuf} if step % 2 else {}
    return [rdma_bw.flow(part, rail, step, backward=step >= 2, **gpu)]


def read(done: Finished, flow: Flow) -> Measured:
    """Raises UnfitError."""
    measured = rdma_bw.read(done, flow)
    wanted, used = flow.end.gpu_address, perftest.gpu(done.out)
    if flow.request.gpu is None and used:
        raise UnfitError(f"the memory of the GPU at {used} was used instead of the host's")
    if flow.request.gpu is not None and used != perftest.place(wanted, flow.end.gpu_vendor):
        raise UnfitError(f"the memory of {used or 'no GPU'} was used instead of the GPU at {wanted}")
    return measured


def answer(steps: Sequence[Sequence[Measured]], _cpus: int) -> dict[str, Any]:
    [host_forward], [forward], [host_back], [back] = steps
    return {
        "forward_gbits": forward.gbits,
        "backward_gbits": back.gbits,
        "host_forward_gbits": host_forward.gbits,
        "host_backward_gbits": host_back.gbits,
    }
