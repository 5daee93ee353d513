# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switch port at the other end of each RoCE port, if lldpd runs.

Only reported: fabric_check compares it between nodes, because one node cannot know the right switch of its
rail.
"""

from __future__ import annotations

from ...drivers import services
from ...host.host import Host
from ...linux import lldp
from ...model.errors import HostError, listed
from ...topology.model import Topology
from ..expect import Expectations
from ..model import Check, Subject
from . import ports
from .ports import ETHERNET

NAMES = ("switch_port",)
_NAMED = 4
_DAEMON = "lldpd.service"
_SUBJECT = Subject(*NAMES, source=" ".join(lldp.QUERY))


def checks(host: Host, topology: Topology, expect: Expectations) -> list[Check]:
    known = ports.subjects(topology, expect).ports
    interfaces = {port.name: port.nic.name for port in known if port.layer == ETHERNET and port.nic}
    if not interfaces:
        return [_SUBJECT.skip("no RoCE interface is judged", source=ports.CLASS)]
    try:
        neighbours = lldp.neighbours(host)
    except HostError as error:
        if error.absent:
            return [_SUBJECT.skip(f"{lldp.TOOL} is not installed")]
        stopped = error.action == lldp.ASK and not services.is_running(host, _DAEMON)
        return [(_SUBJECT.skip if stopped or not host.live else _SUBJECT.unknown)(str(error))]
    return [_port(port, neighbours.get(interface)) for port, interface in interfaces.items()]


def _port(port: str, neighbour: lldp.Neighbour | None) -> Check:
    if neighbour is None:
        return _SUBJECT.skip("no neighbour has announced itself", target=port)
    if neighbour.also:
        evidence = f"{neighbour}, and {listed(neighbour.also, _NAMED)} announce themselves: none is certain"
        return _SUBJECT.skip(evidence, target=port)
    return _SUBJECT.skip(str(neighbour), target=port, value=neighbour.switch or None)
