# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors that NIC drivers write to the kernel's log: about firmware, queues, cables, heat and links."""

from __future__ import annotations

import re
from typing import Iterator, Sequence

from ...drivers.nic import messages
from ...host.host import Host
from ...knobs.nics import ports
from ...model.log import Event, Line
from ...model.record import regex
from ...model.setting import Severity
from ...topology.model import Topology
from ..model import Check, Nothing
from . import log
from .log import Log
from .model import Looks, topic

MESSAGES = topic(
    "nic_messages",
    Severity.HIGH,
    "the driver reports that a NIC, its firmware, its cable or its link failed",
    "the driver's source: drivers/net/ethernet, drivers/infiniband/hw",
    source=log.DMESG,
)

#: Operators and switch reboots take a link down at most once a day
_ONCE = 1
#: Seconds. The network may take this long to come up at boot, with links going up and down meanwhile
#: (systemd-networkd-wait-online(8): --timeout)
_BOOT_S = 120

#: net/sched/sch_generic.c; new kernels print the device first, like drivers
_WATCHDOG = regex(r"NETDEV WATCHDOG: (\S{1,20}) \(\S{1,40}\): transmit queue [0-9]{1,5} timed out", re.ASCII)
_WATCHDOG_TEXT = regex(r"NETDEV WATCHDOG: CPU: [0-9]{1,5}: transmit queue [0-9]{1,5} timed out", re.ASCII)


def _messages(host: Host, topology: Topology) -> Iterator[Check]:
    here = [port for port in ports.ports(topology) if port.address]
    drivers = sorted({driver for port in here for driver in port.drivers})
    strange = [driver for driver in drivers if driver not in messages.TABLE]
    if not here:
        raise Nothing("no NIC with a PCI device is here", log.DMESG)
    kernel = log.read(host)
    events = {
        nic: _with_flaps(messages.once(nic_events)) for nic, nic_events in _events(kernel, topology).items()
    }
    if events or drivers != strange:
        yield from log.checks(MESSAGES, kernel, events)
    if strange or not drivers:
        names = ", ".join(strange) or "a NIC without a driver"
        yield MESSAGES.skip(f"messages of {names} are not known here", target="other drivers")


def _events(kernel: Log, topology: Topology) -> dict[str, list[Event]]:
    """Events of each NIC, by its label."""
    labels = {port.address: port.label for port in ports.ports(topology) if port.address}
    by_name = {
        name: port.label
        for port in ports.ports(topology)
        for name in (*port.names, *(device.name for device in port.rdma))
    }
    events: dict[str, list[Event]] = {}
    for line in kernel.lines:
        pair = _event(line, kernel)
        if pair is not None:
            place, event = pair
            events.setdefault(labels.get(place) or by_name.get(place) or place, []).append(event)
    return events


def _event(line: Line, kernel: Log) -> tuple[str, Event] | None:
    """Address or name of the NIC, and the event of a line; None if the line reports no event."""
    match = _WATCHDOG.match(line.text)
    if match:
        return match.group(1), Event("transmit queue timed out", "", messages.QUEUE, line.age)
    message = log.message(line)
    if message is None:
        return messages.completion(line)
    if _WATCHDOG_TEXT.match(message.text):
        return message.address, Event("transmit queue timed out", "", messages.QUEUE, line.age)
    for pattern, title, cause in messages.of_driver(message.driver):
        match = pattern.search(message.text)
        if match and not (title == messages.LINK_DOWN and _at_boot(line, kernel)):
            return message.address, Event(title or match.group(1).strip(), "", cause, line.age)
    return None


def _at_boot(line: Line, kernel: Log) -> bool:
    return line.age is not None and kernel.uptime is not None and kernel.uptime - line.age < _BOOT_S


def _with_flaps(events: Sequence[Event]) -> list[Event]:
    downs = [event for event in events if event.title == messages.LINK_DOWN and not event.is_old]
    if len(downs) <= _ONCE:
        return [*events]
    return [
        event._replace(cause=messages.FLAPS) if event.title == messages.LINK_DOWN else event
        for event in events
    ]


LOOKS: Looks = (((MESSAGES,), _messages),)
