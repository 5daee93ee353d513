# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of a node. Frozen; None and "" mean unknown, never a guess."""

from __future__ import annotations

import re

from ..model.record import NamedTuple, regex

#: Kinds of path between a GPU and a NIC, nearest first: the legend of `nvidia-smi topo -m`
KINDS = ("PIX", "PXB", "PHB", "NODE", "SYS")
#: The firmware reports no NUMA node
UNKNOWN = "unknown"


class Problem(NamedTuple):
    """A missing or unreadable part. what: a whole sentence, path included.

    missing: the file does not exist, as on a kernel built without it; else its content is unknown.
    """

    path: str
    what: str
    missing: bool = False


class Cpu(NamedTuple):
    """One logical CPU. An offline CPU has only a number, because the kernel shows no more.

    siblings: the online threads of its core, itself included. kind: performance or efficiency on a hybrid
    machine, else "".
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
    allowed: CPUs that this container may use; outside a container all that are online.
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
        """The online CPUs of each physical core. By siblings, because core numbers repeat between sockets."""
        return tuple(sorted({cpu.siblings for cpu in self.all if cpu.siblings}))

    @property
    def cores(self) -> int:
        """Physical cores with at least one online CPU."""
        return len(self.threads)

    @property
    def smt(self) -> int:
        """Threads of the core with the most threads; 0 if the kernel does not report them."""
        return max((len(group) for group in self.threads), default=0)

    @property
    def hybrid(self) -> bool:
        return any(cpu.kind for cpu in self.all)

    @property
    def kept_free(self) -> frozenset[int]:
        """CPUs that isolcpus and nohz_full reserve for the job."""
        return frozenset((*self.isolated, *self.nohz_full))

    @property
    def housekeeping(self) -> tuple[int, ...]:
        """CPUs for ordinary threads: online, allowed here, and neither isolated nor tickless."""
        usable = {*self.allowed} - self.kept_free
        return tuple(cpu for cpu in self.online if cpu in usable)


class Node(NamedTuple):
    """One NUMA node. cpus: the online ones. distances: to each online node, in the order of their numbers."""

    number: int
    cpus: tuple[int, ...] = ()
    memory_kbytes: int | None = None
    distances: tuple[int, ...] = ()


class Link(NamedTuple):
    """A PCIe link: its current state and the maximum of this end. Speeds as the kernel words them."""

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

    physfn: the physical function of a virtual one.
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

    kind: physical (its own device, as far as this machine can see), virtual function, virtio, bond, vlan,
    bridge or virtual. address: its PCI function; for virtio the function below. folder: its device in sysfs,
    "" if it has none. port: number on a function with several ports, from 0. speed_mbit: None if the link is
    down or the driver reports none. rdma: RDMA devices on it. rail: see topology/rails.py. carrier: it is up
    and has a link; read only if operstate does not show this.
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
        """Up, with a link.

        A driver without support for operational states always leaves the state unknown; then the carrier
        counts (networking/operstates.rst, IF_OPER_UNKNOWN).
        """
        return self.operstate == "up" or (self.operstate == "unknown" and self.carrier)


class RdmaPort(NamedTuple):
    """A port as its driver words it: Ethernet, ACTIVE, 400 Gb/sec (4X NDR).

    netdevs: the interfaces on it, hardware first; for a bond its members and the bond.
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
    """One RDMA device. address: None for a software device. netdevs: the interfaces of all its ports."""

    name: str
    address: str | None = None
    node: int | None = None
    ports: tuple[RdmaPort, ...] = ()
    netdevs: tuple[str, ...] = ()
    rail: int | None = None


class Gpu(NamedTuple):
    """A GPU or other accelerator for machine learning. vendor: a name; device: the PCI device number.

    coherent: NVLink-C2C joins it to the CPU, in addition to PCIe.
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

    nic: the interface, or the RDMA device if it has no interface. numa: the distance of their NUMA nodes,
    which decides between two paths of one kind; None if unknown.
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
        """True also for a container on a virtual machine."""
        return self.kind == "virtual machine" or bool(self.hypervisor)


class Binding(NamedTuple):
    """Recommended start of a process that drives a GPU. numactl "" and threads None: unknown.

    nics: the nearest RDMA NICs (without RDMA, of all NICs), rails first. distance: how near they are.
    """

    gpu: str
    node: int | None
    numactl: str
    omp_num_threads: int | None
    nics: tuple[str, ...]
    distance: str


class Topology(NamedTuple):
    """A whole node, with its warnings and problems."""

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
