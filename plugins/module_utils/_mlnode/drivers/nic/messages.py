# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors in the kernel's log, by NIC driver, and their causes.

Texts of old and new kernels from mlx5 (core/health.c, events.c, cmd.c, en_main.c, en/txrx.h;
infiniband/hw/mlx5/cq.c), bnxt_en (bnxt.c), ionic (ionic_dev.c, ionic_lif.c), ice (ice_main.c), i40e
(i40e_main.c), igb (igb_main.c), ixgbe (ixgbe_main.c), ena (ena_netdev.c) and irdma (hw.c).
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence, Tuple

from ...model.log import Cause, Event, Line
from ...model.record import regex
from ...model.setting import Severity

_FIRMWARE = Cause(
    "firmware", Severity.HIGH, "the NIC has failed, and its connections and queue pairs are lost",
    "drain the node, power-cycle it and update the NIC's firmware; replace the card if it comes back",
)  # fmt: skip
_RESET = Cause(
    "reset", Severity.MEDIUM, "the NIC was reset, and its connections stalled for seconds or broke",
    "check whether a job ran then; update driver and firmware if it comes back",
)  # fmt: skip
QUEUE = Cause(
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
FLAPS = Cause(
    "link", Severity.MEDIUM, "a link goes down again and again, and jobs over it stall or end",
    "look at both ends with ethtool -m or mlxlink, clean and seat the cable, and replace it",
)  # fmt: skip

_Rule = Tuple[Any, str, Cause]


def _rules(*rows: tuple[str, str, Cause]) -> tuple[_Rule, ...]:
    """Pattern of a text, the event's title ("" for the pattern's group), and its cause."""
    return tuple((regex(pattern, re.ASCII), title, cause) for pattern, title, cause in rows)


_DOWN = r"(?:NIC )?Link (?:is )?[Dd]own\b"
LINK_DOWN = "Link down"
_INTEL = _rules(
    (_DOWN, LINK_DOWN, _LINK),
    (r"tx_timeout: VSI_", "transmit timeout", QUEUE),
    (r"Malicious Driver Detection event", "Malicious Driver Detection", QUEUE),
)
#: Management NICs of most servers
_INTEL_SMALL = _rules(
    (_DOWN, LINK_DOWN, _LINK),
    (r"adapter (?:was|has been) stopped because it (?:has )?over ?heated", "stopped for its heat", _HEAT),
)
#: Driver → its messages. Other drivers are unknown here.
TABLE: Mapping[str, tuple[_Rule, ...]] = {
    "mlx5_core": _rules(
        (_DOWN, LINK_DOWN, _LINK),
        (r"device's health compromised", "health compromised", _FIRMWARE),
        (r"Health issue observed, ([^,]{1,60}), severity\([0-3]\)", "", _FIRMWARE),
        (r"Health issue observed, ([^,]{1,60}), severity\([4-7]\)", "", _RESET),
        (r"Fatal error [0-9]{1,4} detected", "fatal error", _FIRMWARE),
        (r"timeout\. Will cause a leak of a command resource", "command timeout", _FIRMWARE),
        (r"High temperature on sensors", "high temperature", _HEAT),
        (r"Port module event\[error\]: module [0-9]{1,3}, Cable error, (High Temperature)", "", _HEAT),
        (r"Port module event\[error\]: module [0-9]{1,3}, Cable error, (.{1,60})", "", _CABLE),
        (r"Port module event: module [0-9]{1,3}, (Cable unplugged)", "", _LINK),
        (r"Error cqe on cqn", "error CQE", QUEUE),
        (r"TX timeout detected", "transmit timeout", QUEUE),
    ),
    "bnxt_en": _rules(
        (_DOWN, LINK_DOWN, _LINK),
        (r"(?:Fatal firmware|Firmware fatal) reset event, data1", "fatal firmware reset", _FIRMWARE),
        (r"(?:Non-fatal firmware|Firmware non-fatal) reset event, data1", "firmware reset", _RESET),
        (r"Chip temperature has gone above the \w{1,20} thermal threshold", "high temperature", _HEAT),
    ),
    "ionic": _rules(
        (_DOWN, LINK_DOWN, _LINK),
        (r"FW Up: LIFs restart failed", "restart of the firmware failed", _FIRMWARE),
        (r"FW Down: Stopping LIFs", "firmware reset", _RESET),
        (r"FW heartbeat stalled", "firmware heartbeat stalled", _RESET),
        (r"Tx Timeout recovery", "transmit timeout", QUEUE),
    ),
    "ice": _INTEL,
    "i40e": _INTEL,
    "igb": _INTEL_SMALL,
    "ixgbe": _INTEL_SMALL,
    "ena": _rules(
        (r"Keep alive watchdog timeout", "keep alive timeout", _RESET),
        (r"[Ll]ost (?:tx|TX) completions (?:is|are) above the threshold", "lost completions", QUEUE),
    ),
}
#: Messages of RDMA devices; their lines begin with the driver of the PCI function (ibdev_printk)
_RDMA = _rules((r"abnormal (ae_id = 0x[0-9a-f]{1,8})", "", QUEUE))
#: `infiniband mlx5_0: dump_cqe:272:(pid 0): dump error cqe`; old kernels omit the first word
_MLX5_IB = regex(r"(?:infiniband )?([\w-]{1,60}): ?\w{1,60}:[0-9]{1,6}:\(pid [0-9]{1,10}\): (.*)", re.ASCII)
_COMPLETION = regex(r"WC error: [0-9]{1,3}, [Mm]essage: (.{1,60})|dump error cqe", re.ASCII)
_ERROR_CQE = "error CQE"


def of_driver(driver: str) -> tuple[_Rule, ...]:
    """Pattern, title and cause of each message of a driver, and of its RDMA devices."""
    return (*TABLE.get(driver, ()), *_RDMA)


def completion(line: Line) -> tuple[str, Event] | None:
    """Name of the RDMA device, and the event, of a line about a failed completion; None for other lines."""
    device = _MLX5_IB.match(line.text)
    match = device and _COMPLETION.match(device.group(2))
    if not device or not match:
        return None
    title = f"{_ERROR_CQE}: {match.group(1)}" if match.group(1) else _ERROR_CQE
    return device.group(1), Event(title, "", QUEUE, line.age)


def once(events: Sequence[Event]) -> list[Event]:
    """Without dumps of completions if another line identifies them: both report the same."""
    named = any(event.title.startswith(f"{_ERROR_CQE}: ") for event in events)
    return [event for event in events if not (named and event.title == _ERROR_CQE)]
