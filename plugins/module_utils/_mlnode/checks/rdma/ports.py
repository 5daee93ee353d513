# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ports that are judged, and how a value that was or was not read becomes a finding."""

from __future__ import annotations

from typing import Any, Mapping

from ...host.host import Host
from ...model.record import dataclass
from ...model.setting import Value
from ...topology.model import Nic, PciDevice, RdmaDevice, RdmaPort, Topology
from ...topology.reader import integer
from ..expect import Expectations
from ..model import Check, Verdict

CLASS = "/sys/class/infiniband"
NETS = "/sys/class/net"
PCI = "/sys/bus/pci/devices"

INFINIBAND, ETHERNET = "InfiniBand", "Ethernet"


@dataclass(frozen=True)
class Port:
    """One port that is judged. expect: all that is declared of it. nic: the interface on it."""

    device: RdmaDevice
    number: int
    layer: str
    expect: Mapping[str, Any]
    nic: Nic | None = None

    @property
    def name(self) -> str:
        return f"{self.device.name}/{self.number}"

    @property
    def folder(self) -> str:
        return f"{CLASS}/{self.device.name}/ports/{self.number}"


@dataclass(frozen=True)
class Subjects:
    """All that is judged. devices: those with at least one such port."""

    ports: tuple[Port, ...] = ()
    devices: tuple[RdmaDevice, ...] = ()

    def of(self, device: RdmaDevice) -> tuple[Port, ...]:
        return tuple(port for port in self.ports if port.device is device)


def subjects(topology: Topology, expect: Expectations) -> Subjects:
    virtual = {function.address for function in topology.pci if function.physfn}
    rails = any(device.rail is not None for device in topology.rdma)
    ports = []
    for device in topology.rdma:
        for port in device.ports:
            if expect.judges(device, port.number, device.address in virtual, rails):
                declared = expect.of(device.name, port.number, device.rail)
                nic = _nic(topology, port)
                ports.append(Port(device, port.number, port.link_layer, declared, nic))
    return Subjects(tuple(ports), tuple(dict.fromkeys(port.device for port in ports)))


def _nic(topology: Topology, port: RdmaPort) -> Nic | None:
    """The interface of a port, which of the members of a bond is the bond."""
    by_name = {nic.name: nic for nic in topology.nics}
    here = [by_name[name] for name in port.netdevs if name in by_name]
    above = [nic for nic in here if not nic.folder]
    return next(iter(above or here), None)


def roce_interfaces(known: Subjects) -> list[str]:
    """The interfaces of the RoCE ports that are judged, each once."""
    names = (port.nic.name for port in known.ports if port.nic is not None and port.layer == ETHERNET)
    return [*dict.fromkeys(names)]


def function_of(device: RdmaDevice, topology: Topology) -> PciDevice | None:
    return next((one for one in topology.pci if one.address == device.address), None)


# -- findings ------------------------------------------------------------------------------


def read(host: Host, path: str) -> Value:
    """As Host.value(). A blank line is not a value; a file without even a line is what a captured tree
    has of one that could not be read."""
    value = host.value(path)
    if value.text is None or value.text.strip():
        return value
    if not host.live and not host.text(path):
        return Value(unreadable=f"{path} is empty: it could not be read when the tree was captured")
    return Value(absent=f"{path} says nothing")


def read_number(host: Host, path: str) -> tuple[int | None, Value]:
    """As read(), for a file that holds a number: one that holds something else could not be read."""
    value = read(host, path)
    if value.text is None:
        return None, value
    number = integer(value.text)
    if number is None:
        value = Value(unreadable=f"{path} says {value.text[:60]!r}, which is not a number")
    return number, value


def nothing(name: str, target: str, value: Value, path: str, expected: str = "", advice: str = "") -> Check:
    """Finding without a value. A declared one that is missing is unknown, as is an unreadable one."""
    unknown = value.unreadable is not None or bool(expected)
    verdict = Verdict.UNKNOWN if unknown else Verdict.SKIP
    return Check(name, target, verdict, expected, value.problem, path, advice)


def told(name: str, target: str, found: str, source: str, key: str) -> Check:
    """A value about which nothing is declared: shown, and not judged."""
    return Check(name, target, Verdict.SKIP, "", found, source, f"declare {key} to have it judged", found)
