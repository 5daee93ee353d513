# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of a node. Frozen; None and "" mean unknown, never a guess."""

from __future__ import annotations

import re

from ..model.record import NamedTuple, regex

#: What lies between a GPU and a NIC, nearest first: the legend of `nvidia-smi topo -m`
KINDS = ("PIX", "PXB", "PHB", "NODE", "SYS")
#: The kind is unknown, as the firmware names no NUMA node
UNKNOWN = "unknown"


class Problem(NamedTuple):
    """A part that is missing or could not be read; what is a whole sentence, path included.

    missing: it is not there, as on a kernel that was built without it; else its content is unknown.
    """

    path: str
    what: str
    missing: bool = False


class Cpu(NamedTuple):
    """One logical CPU. An offline one has a number and nothing else: the kernel shows no more.

    siblings: the online threads of its core, itself among them. kind: performance or efficiency on a
    hybrid machine, else "".
    """

    number: int
    online: bool
    package: int | None = None
    core: int | None = None
    node: int | None = None
    siblings: tuple[int, ...] = ()
    kind: str = ""


class Cpus(NamedTuple):
    """All CPUs that are present; every set ascending.

    offline: present and not online (the kernel's own file also counts CPUs that could be plugged in).
    allowed: what this container may run on; everything online outside of one.
    """

    all: tuple[Cpu, ...] = ()
    possible: tuple[int, ...] = ()
    present: tuple[int, ...] = ()
    online: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    isolated: tuple[int, ...] = ()
    nohz_full: tuple[int, ...] = ()
    allowed: tuple[int, ...] = ()

    @property
    def packages(self) -> int:
        """Sockets with at least one online CPU."""
        return len({cpu.package for cpu in self.all if cpu.package is not None})

    @property
    def threads(self) -> tuple[tuple[int, ...], ...]:
        """The online CPUs of each physical core. By siblings, as core numbers repeat between sockets."""
        return tuple(sorted({cpu.siblings for cpu in self.all if cpu.siblings}))

    @property
    def cores(self) -> int:
        """Physical cores with at least one online CPU."""
        return len(self.threads)

    @property
    def smt(self) -> int:
        """Threads of the core that has most of them; 0 where the kernel does not say."""
        return max((len(group) for group in self.threads), default=0)

    @property
    def hybrid(self) -> bool:
        return any(cpu.kind for cpu in self.all)

    @property
    def kept_free(self) -> frozenset[int]:
        """CPUs that isolcpus and nohz_full keep free of everything but the job."""
        return frozenset((*self.isolated, *self.nohz_full))

    @property
    def housekeeping(self) -> tuple[int, ...]:
        """CPUs for ordinary threads: online, allowed here, neither isolated nor without a tick."""
        usable = {*self.allowed} - self.kept_free
        return tuple(cpu for cpu in self.online if cpu in usable)


class Node(NamedTuple):
    """One NUMA node. cpus: the online ones. distances: to each online node, in the order of their numbers."""

    number: int
    cpus: tuple[int, ...] = ()
    memory_kbytes: int | None = None
    distances: tuple[int, ...] = ()


class Link(NamedTuple):
    """A PCIe link as it is, and the most this end of it can do. Speeds in the kernel's words."""

    speed: str
    width: int
    max_speed: str
    max_width: int

    @property
    def slow(self) -> bool:
        return giga_transfers(self.speed) < giga_transfers(self.max_speed)

    @property
    def narrow(self) -> bool:
        return self.width < self.max_width

    @property
    def degraded(self) -> bool:
        return self.slow or self.narrow


class PciDevice(NamedTuple):
    """One PCI function. path: the functions from the root down to it, itself last. root: its host bridge.

    physfn: the physical function a virtual one belongs to.
    """

    address: str
    vendor: int
    device: int
    class_code: int
    path: tuple[str, ...]
    root: str
    driver: str | None = None
    node: int | None = None
    link: Link | None = None
    physfn: str | None = None


class Nic(NamedTuple):
    """One network interface.

    kind: physical (a device of its own, as far as this machine can see), virtual function, virtio, bond,
    vlan, bridge or virtual. address: its PCI function; virtio's is the one below. folder: its device in
    sysfs, "" where it has none. port: counted from 0, of a function with several. speed_mbit: None while the
    link is down or where the driver knows none. rdma: RDMA devices on it. rail: see topology/rails.py.
    carrier: it is raised and has a link; only asked for where operstate does not say it.
    """

    name: str
    kind: str
    folder: str = ""
    driver: str | None = None
    address: str | None = None
    port: int = 0
    speed_mbit: int | None = None
    operstate: str = "unknown"
    mtu: int | None = None
    node: int | None = None
    rx_queues: int = 0
    tx_queues: int = 0
    mac: str = ""
    master: str | None = None
    rdma: tuple[str, ...] = ()
    rail: int | None = None
    carrier: bool = False

    @property
    def up(self) -> bool:
        """Raised, and with a link. A driver without support for operational states leaves the state unknown
        for good, and then the carrier counts (networking/operstates.rst, IF_OPER_UNKNOWN)."""
        return self.operstate == "up" or (self.operstate == "unknown" and self.carrier)


class RdmaPort(NamedTuple):
    """A port as its driver words it: Ethernet, ACTIVE, 400 Gb/sec (4X NDR).

    netdevs: the interfaces on it, hardware first; of a bond its members and the bond.
    """

    number: int
    link_layer: str
    state: str
    rate: str
    netdevs: tuple[str, ...] = ()

    @property
    def short_rate(self) -> str:
        """The rate without the lanes and their generation in brackets."""
        return self.rate.partition(" (")[0]


class RdmaDevice(NamedTuple):
    """One RDMA device. address is None for one in software. netdevs: the interfaces of all its ports."""

    name: str
    address: str | None = None
    node: int | None = None
    ports: tuple[RdmaPort, ...] = ()
    netdevs: tuple[str, ...] = ()
    rail: int | None = None


class Gpu(NamedTuple):
    """A GPU or other accelerator for machine learning. vendor: a name; device: the PCI device number.

    coherent: a link of its own (NVLink-C2C) joins it to the CPU, beside PCIe.
    """

    address: str
    vendor: str
    device: int
    node: int | None = None
    driver: str | None = None
    link: Link | None = None
    coherent: bool = False


class Distance(NamedTuple):
    """Distance between a GPU and a NIC: one of KINDS, or UNKNOWN.

    nic: the interface, or the RDMA device without an interface. numa: the distance of their NUMA nodes, which
    decides between two of one kind; None where it is not known.
    """

    gpu: str
    nic: str
    kind: str
    numa: int | None = None


class Machine(NamedTuple):
    """Kind of machine.

    kind: bare metal, virtual machine, container or unknown. hypervisor: named as by systemd-detect-virt(1).
    container: docker, podman, lxc ... cloud: aws, gcp, azure ... product: maker and model from the firmware.
    """

    kind: str
    hypervisor: str = ""
    container: str = ""
    cloud: str = ""
    product: str = ""

    @property
    def virtual(self) -> bool:
        """Also of a container on a virtual machine."""
        return self.kind == "virtual machine" or bool(self.hypervisor)


class Binding(NamedTuple):
    """Best start of a process that drives a GPU. numactl "" and threads None: unknown.

    nics: the nearest RDMA NICs (without RDMA, of all), rails before others. distance: how near they are.
    """

    gpu: str
    node: int | None
    numactl: str
    omp_num_threads: int | None
    nics: tuple[str, ...]
    distance: str


class Topology(NamedTuple):
    """A whole node, and what there is to say about it."""

    machine: Machine
    cpus: Cpus = Cpus()
    nodes: tuple[Node, ...] = ()
    pci: tuple[PciDevice, ...] = ()
    nics: tuple[Nic, ...] = ()
    rdma: tuple[RdmaDevice, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    distances: tuple[Distance, ...] = ()
    bindings: tuple[Binding, ...] = ()
    warnings: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


_SPEED = regex(r"([0-9]{1,4}(?:\.[0-9])?) GT/s", re.ASCII)


def giga_transfers(speed: str) -> float:
    """The number of `16.0 GT/s PCIe`; 0 for `Unknown`, which the kernel shows without a link."""
    match = _SPEED.match(speed)
    return float(match.group(1)) if match else 0.0
