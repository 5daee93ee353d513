# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judged ports, and readers for their values."""

from __future__ import annotations

from typing import Any, Mapping

from ...host.host import Host
from ...model.record import dataclass, field
from ...model.setting import Value
from ...topology.model import Nic, PciDevice, RdmaDevice, RdmaPort, Topology
from ...topology.sysfs import integer
from ..expect import Expectations
from ..model import Subject

CLASS = "/sys/class/infiniband"
NETS = "/sys/class/net"
PCI = "/sys/bus/pci/devices"

INFINIBAND, ETHERNET = "InfiniBand", "Ethernet"


@dataclass(frozen=True)
class Port:
    """One judged port. expect: its declared values. nic: the interface on it."""

    device: RdmaDevice
    own: RdmaPort
    expect: Mapping[str, Any] = field(default_factory=dict)
    nic: Nic | None = None

    @property
    def number(self) -> int:
        return self.own.number

    @property
    def layer(self) -> str:
        return self.own.link_layer

    @property
    def name(self) -> str:
        return f"{self.device.name}/{self.number}"

    @property
    def folder(self) -> str:
        return f"{CLASS}/{self.device.name}/ports/{self.number}"

    def about(self, name: str, source: str = "", expected: object = None) -> Subject:
        """A check of this port.

        source: a file in its folder, or an absolute path. expected: None or empty if nothing is declared.
        """
        path = source if source[:1] == "/" else "/".join(filter(None, (self.folder, source)))
        return Subject(name, self.name, path, str(expected or ""))


@dataclass(frozen=True)
class Subjects:
    """All judged ports. devices: RDMA devices with at least one of them."""

    ports: tuple[Port, ...] = ()
    devices: tuple[RdmaDevice, ...] = ()

    def ports_of(self, device: RdmaDevice) -> tuple[Port, ...]:
        return tuple(port for port in self.ports if port.device is device)


def subjects(topology: Topology, expect: Expectations) -> Subjects:
    virtual = {function.address for function in topology.pci if function.physfn}
    rails = any(device.rail is not None for device in topology.rdma)
    ports = []
    for device in topology.rdma:
        for port in device.ports:
            if expect.judges(device, port.number, device.address in virtual, rails):
                declared = expect.section(device.name, port.number, device.rail)
                ports.append(Port(device, port, declared, _nic(topology, port)))
    return Subjects(tuple(ports), tuple(dict.fromkeys(port.device for port in ports)))


def _nic(topology: Topology, port: RdmaPort) -> Nic | None:
    """The interface of a port; for members of a bond, the bond."""
    by_name = {nic.name: nic for nic in topology.nics}
    here = [by_name[name] for name in port.netdevs if name in by_name]
    above = [nic for nic in here if not nic.folder]
    return next(iter(above or here), None)


def roce_interfaces(known: Subjects) -> list[str]:
    """The interfaces of the judged RoCE ports, without duplicates."""
    names = (port.nic.name for port in known.ports if port.nic is not None and port.layer == ETHERNET)
    return [*dict.fromkeys(names)]


def function_of(device: RdmaDevice, topology: Topology) -> PciDevice | None:
    return next((function for function in topology.pci if function.address == device.address), None)


def read(host: Host, path: str) -> Value:
    """Like Host.value(), but a blank line is not a value.

    A completely empty file in a captured tree means that the file could not be read.
    """
    value = host.value(path)
    if value.text is None or value.text.strip():
        return value
    if not host.live and not host.text(path):
        return Value(unreadable=f"{path} is empty: it could not be read when the tree was captured")
    return Value(absent=f"{path} says nothing")


def read_number(host: Host, path: str) -> Value:
    """Like read(), for a file with a number: any other content counts as unreadable."""
    value = read(host, path)
    number = integer(value.text or "")
    if number is None and value.text is not None:
        return Value(unreadable=f"{path} says {value.text[:60]!r}, which is not a number")
    return value if number is None else Value(str(number))


def counted(host: Host, path: str) -> int | None:
    """Number in a file; None if there is none."""
    return integer(read_number(host, path).text or "")
