# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors that NIC drivers write to the kernel's log: about firmware, queues, cables, heat and links.

Texts of old and new kernels from mlx5 (core/health.c, events.c, cmd.c, en_main.c, en/txrx.h;
infiniband/hw/mlx5/cq.c), bnxt_en (bnxt.c), ice (ice_main.c), i40e (i40e_main.c), igb (igb_main.c), ixgbe
(ixgbe_main.c), ena (ena_netdev.c) and irdma (hw.c).
"""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping, Sequence, Tuple

from ...host.host import Host
from ...knobs.nics import ports
from ...model.log import Cause, Event, Line
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

_FIRMWARE = Cause(
    "firmware", Severity.HIGH, "the NIC has failed, and its connections and queue pairs are lost",
    "drain the node, power-cycle it and update the NIC's firmware; replace the card if it comes back",
)  # fmt: skip
_RESET = Cause(
    "reset", Severity.MEDIUM, "the NIC was reset, and its connections stalled for seconds or broke",
    "check whether a job ran then; update driver and firmware if it comes back",
)  # fmt: skip
_QUEUE = Cause(
    "queue", Severity.MEDIUM, "a queue stopped or a request failed, and all that waits for it stalls",
    "look at the job that ran then, ethtool -S and rdma_check; update driver and firmware if it comes back",
)  # fmt: skip
_HEAT = Cause(
    "heat", Severity.MEDIUM, "the NIC or its transceiver is too hot, and gets slower or goes down",
    "look at fans and air flow, and at the temperature with ethtool -m or mget_temp",
)  # fmt: skip
_CABLE = Cause(
    "cable", Severity.MEDIUM, "the NIC cannot use the cable or transceiver as it should",
    "look at ethtool -m or mlxlink, seat the cable again, and replace it if that goes on",
)  # fmt: skip
_LINK = Cause(
    "link", Severity.LOW, "a link was down: packets on their way were lost, and a job over it may have ended",
    "check whether an operator or a switch took it down; else look at the cable",
)  # fmt: skip
_FLAPS = Cause(
    "link", Severity.MEDIUM, "a link goes down again and again, and jobs over it stall or end",
    "look at both ends with ethtool -m or mlxlink, clean and seat the cable, and replace it",
)  # fmt: skip

#: Operators and switch reboots take a link down at most once a day
_ONCE = 1
#: Seconds. The network may take this long to come up at boot, with links going up and down meanwhile
#: (systemd-networkd-wait-online(8): --timeout)
_BOOT_S = 120

_Rule = Tuple[Any, str, Cause]


def _rules(*rows: tuple[str, str, Cause]) -> tuple[_Rule, ...]:
    """Pattern of a text, the event's title ("" for the pattern's group), and its cause."""
    return tuple((regex(pattern, re.ASCII), title, cause) for pattern, title, cause in rows)


_DOWN = r"(?:NIC )?Link (?:is )?[Dd]own\b"
_LINK_DOWN = "Link down"
_INTEL = _rules(
    (_DOWN, _LINK_DOWN, _LINK),
    (r"tx_timeout: VSI_", "transmit timeout", _QUEUE),
    (r"Malicious Driver Detection event", "Malicious Driver Detection", _QUEUE),
)
#: Management NICs of most servers
_INTEL_SMALL = _rules(
    (_DOWN, _LINK_DOWN, _LINK),
    (r"adapter (?:was|has been) stopped because it (?:has )?over ?heated", "stopped for its heat", _HEAT),
)
#: Driver → its messages. Other drivers are unknown here.
TABLE: Mapping[str, tuple[_Rule, ...]] = {
    "mlx5_core": _rules(
        (_DOWN, _LINK_DOWN, _LINK),
        (r"device's health compromised", "health compromised", _FIRMWARE),
        (r"Health issue observed, ([^,]{1,60}), severity\([0-3]\)", "", _FIRMWARE),
        (r"Health issue observed, ([^,]{1,60}), severity\([4-7]\)", "", _RESET),
        (r"Fatal error [0-9]{1,4} detected", "fatal error", _FIRMWARE),
        (r"timeout\. Will cause a leak of a command resource", "command timeout", _FIRMWARE),
        (r"High temperature on sensors", "high temperature", _HEAT),
        (r"Port module event\[error\]: module [0-9]{1,3}, Cable error, (High Temperature)", "", _HEAT),
        (r"Port module event\[error\]: module [0-9]{1,3}, Cable error, (.{1,60})", "", _CABLE),
        (r"Port module event: module [0-9]{1,3}, (Cable unplugged)", "", _LINK),
        (r"Error cqe on cqn", "error CQE", _QUEUE),
        (r"TX timeout detected", "transmit timeout", _QUEUE),
    ),
    "bnxt_en": _rules(
        (_DOWN, _LINK_DOWN, _LINK),
        (r"(?:Fatal firmware|Firmware fatal) reset event, data1", "fatal firmware reset", _FIRMWARE),
        (r"(?:Non-fatal firmware|Firmware non-fatal) reset event, data1", "firmware reset", _RESET),
        (r"Chip temperature has gone above the \w{1,20} thermal threshold", "high temperature", _HEAT),
    ),
    "ice": _INTEL,
    "i40e": _INTEL,
    "igb": _INTEL_SMALL,
    "ixgbe": _INTEL_SMALL,
    "ena": _rules(
        (r"Keep alive watchdog timeout", "keep alive timeout", _RESET),
        (r"[Ll]ost (?:tx|TX) completions (?:is|are) above the threshold", "lost completions", _QUEUE),
    ),
}
#: Messages of RDMA devices; their lines begin with the driver of the PCI function (ibdev_printk)
_RDMA = _rules((r"abnormal (ae_id = 0x[0-9a-f]{1,8})", "", _QUEUE))
#: `infiniband mlx5_0: dump_cqe:272:(pid 0): dump error cqe`; old kernels omit the first word
_MLX5_IB = regex(r"(?:infiniband )?([\w-]{1,60}): ?\w{1,60}:[0-9]{1,6}:\(pid [0-9]{1,10}\): (.*)", re.ASCII)
_COMPLETION = regex(r"WC error: [0-9]{1,3}, [Mm]essage: (.{1,60})|dump error cqe", re.ASCII)
_ERROR_CQE = "error CQE"
#: net/sched/sch_generic.c; new kernels print the device first, like drivers
_WATCHDOG = regex(r"NETDEV WATCHDOG: (\S{1,20}) \(\S{1,40}\): transmit queue [0-9]{1,5} timed out", re.ASCII)
_WATCHDOG_TEXT = regex(r"NETDEV WATCHDOG: CPU: [0-9]{1,5}: transmit queue [0-9]{1,5} timed out", re.ASCII)


def _messages(host: Host, topology: Topology) -> Iterator[Check]:
    here = [port for port in ports.ports(topology) if port.address]
    drivers = sorted({driver for port in here for driver in port.drivers})
    strange = [driver for driver in drivers if driver not in TABLE]
    if not here:
        raise Nothing("no NIC with a PCI device is here", log.DMESG)
    kernel = log.read(host)
    events = {nic: _with_flaps(_once(nic_events)) for nic, nic_events in _events(kernel, topology).items()}
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
        return match.group(1), Event("transmit queue timed out", "", _QUEUE, line.age)
    message = log.message(line)
    if message is None:
        return _completion(line)
    if _WATCHDOG_TEXT.match(message.text):
        return message.address, Event("transmit queue timed out", "", _QUEUE, line.age)
    for pattern, title, cause in (*TABLE.get(message.driver, ()), *_RDMA):
        match = pattern.search(message.text)
        if match and not (title == _LINK_DOWN and _at_boot(line, kernel)):
            return message.address, Event(title or match.group(1).strip(), "", cause, line.age)
    return None


def _completion(line: Line) -> tuple[str, Event] | None:
    device = _MLX5_IB.match(line.text)
    match = device and _COMPLETION.match(device.group(2))
    if not device or not match:
        return None
    title = f"{_ERROR_CQE}: {match.group(1)}" if match.group(1) else _ERROR_CQE
    return device.group(1), Event(title, "", _QUEUE, line.age)


def _at_boot(line: Line, kernel: Log) -> bool:
    return line.age is not None and kernel.uptime is not None and kernel.uptime - line.age < _BOOT_S


def _once(events: Sequence[Event]) -> list[Event]:
    """Without dumps of completions if another line identifies them: both report the same."""
    named = any(event.title.startswith(f"{_ERROR_CQE}: ") for event in events)
    return [event for event in events if not (named and event.title == _ERROR_CQE)]


def _with_flaps(events: Sequence[Event]) -> list[Event]:
    downs = [event for event in events if event.title == _LINK_DOWN and not event.is_old]
    if len(downs) <= _ONCE:
        return [*events]
    return [event._replace(cause=_FLAPS) if event.title == _LINK_DOWN else event for event in events]


LOOKS: Looks = (((MESSAGES,), _messages),)
