# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCIe errors in the kernel's log, handled by Linux (drivers/pci/pcie/aer.c) or the firmware (ACPI APEI)."""

from __future__ import annotations

import re
from typing import Iterator

from ...host.host import Host
from ...knobs.nics import ports
from ...model.log import Cause, Event
from ...model.record import regex
from ...model.setting import Severity
from ...topology.model import Topology
from ..model import Check, Nothing
from . import log
from .log import Log, Message
from .model import Looks, topic

ERRORS = topic(
    "pcie_errors",
    Severity.HIGH,
    "a PCIe link damages data",
    "PCI/pcieaer-howto.rst; drivers/pci/pcie/aer.c",
    source=log.DMESG,
)

_CORRECTED = Cause(
    "corrected", Severity.LOW, "PCIe resends damaged packets, which costs time and announces worse",
    "check whether it goes on: seat card and riser again, and compare rdma_check's pcie_link",
)  # fmt: skip
_NON_FATAL = Cause(
    "not corrected", Severity.HIGH, "a transfer was lost, and the job on that device fails or is wrong",
    "drain the node; seat card and riser again, update the firmware, replace the card if it comes back",
)  # fmt: skip
_FATAL = Cause("fatal", Severity.HIGH, "the link of this device failed, and was reset", _NON_FATAL.advice)

#: Spellings of severity: Corrected, Correctable; Uncorrected (Fatal), Uncorrectable (Non-Fatal)
_BUS = regex(
    r"(?:AER: )?(?:PCIe|CXL) Bus Error: severity=([A-Z][\w ()-]{1,40}), type=([\w ]{1,40}),", re.ASCII
)
_STATUS = regex(r"(?:AER: )?aer_status: (0x[0-9a-f]{8}), aer_mask: ", re.ASCII)
#: Only for uncorrected errors, after the line with the status (pci_print_aer)
_SEVERITY = regex(r"(?:AER: )?aer_uncor_severity: 0x", re.ASCII)


def _errors(host: Host, topology: Topology) -> Iterator[Check]:
    if not topology.pci:
        raise Nothing("no device on PCI is here", "/sys/bus/pci/devices")
    kernel, labels = log.read(host), _labels(topology)
    events = {
        labels.get(place, f"PCI {place}"): place_events for place, place_events in _events(kernel).items()
    }
    return log.checks(ERRORS, kernel, events)


def _labels(topology: Topology) -> dict[str, str]:
    labels = {gpu.address: f"GPU {gpu.address}" for gpu in topology.gpus}
    labels.update({port.address: port.label for port in ports.ports(topology) if port.address})
    return labels


def _events(kernel: Log) -> dict[str, list[Event]]:
    """Events by the address of the device."""
    events: dict[str, list[Event]] = {}
    for line in kernel.lines:
        message = log.message(line)
        if message is None:
            continue
        mine = events.get(message.address, [])
        if _SEVERITY.match(message.text) and mine and mine[-1].cause is _CORRECTED:
            mine[-1] = mine[-1]._replace(cause=_NON_FATAL)
        event = _event(message, line.age)
        if event is not None:
            events.setdefault(message.address, []).append(event)
    return events


def _event(message: Message, age: int | None) -> Event | None:
    match = _BUS.match(message.text)
    if match:
        severity, layer = match.groups()
        corrected, fatal = severity.startswith("Correct"), "(Fatal)" in severity
        return Event(
            f"PCIe error, {layer}", "", _CORRECTED if corrected else _FATAL if fatal else _NON_FATAL, age
        )
    match = _STATUS.match(message.text)
    return Event(f"PCIe error, status {match.group(1)}", "", _CORRECTED, age) if match else None


LOOKS: Looks = (((ERRORS,), _errors),)
