# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors in the kernel's log, judged by their cause, age and number.

Time stamps are seconds since boot, by a clock that stops while the machine sleeps (kernel/printk:
local_clock). After a sleep the calculated ages are too high.
"""

from __future__ import annotations

import re
from typing import Iterator, Mapping, Sequence

from ...host.host import Host
from ...linux import kernel_log
from ...model.errors import printable, shortened
from ...model.log import WINDOW_S, Event, Line
from ...model.record import NamedTuple, regex, replace
from ...model.setting import Severity
from ..model import Check, Subject, if_installed

DMESG = "dmesg"
_UPTIME = "/proc/uptime"
_STAMP = regex(r"(?:<[0-9]{1,3}>)?\[ *([0-9]{1,12})\.[0-9]{1,9}\](?:\[[^\]\n]{0,40}\])? ?", re.ASCII)

#: Seconds. A log whose oldest line is from the first minute covers the boot; clocks may differ slightly
_BOOT_S = 60
_MOST = 8
_ORDER = (Severity.LOW, Severity.MEDIUM, Severity.HIGH)
_EXPECTED = "none in the last day"


class Message(NamedTuple):
    """A message about a PCI device: driver, address, the driver's name for it or "", and the text."""

    driver: str
    address: str
    name: str
    text: str


#: dev_printk(), netdev_printk() and ibdev_printk(): `mlx5_core 0000:1a:00.0 eth0: Link down`
_DEVICE = regex(
    r"([\w-]{1,40}) ([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?: ([^:\n]{1,60}))?: (.*)", re.ASCII
)


def message(line: Line) -> Message | None:
    """The parts of a line; None if it is not about a PCI device."""
    match = _DEVICE.match(line.text)
    return Message(match[1], match[2], match[3] or "", match[4]) if match else None


class Log(NamedTuple):
    """The messages still in the log, the oldest first. uptime: seconds, None if unknown."""

    lines: tuple[Line, ...]
    uptime: int | None

    @property
    def reach(self) -> str:
        """The time that the log covers: it is a ring, and drops its oldest lines."""
        if self._oldest is None or self.uptime is None:
            return ", which covers an unknown time"
        up = _ago(self.uptime)[:-4]
        return f", whose oldest line is from {_ago(self._oldest)}; the machine has been up for {up}"

    @property
    def covers(self) -> bool:
        """True if it begins with the boot, or covers the last day: else a message may have been dropped."""
        known = self._oldest is not None and self.uptime is not None
        return known and (self._oldest or 0) >= min(WINDOW_S, (self.uptime or 0) - _BOOT_S)

    @property
    def _oldest(self) -> int | None:
        return max((line.age for line in self.lines if line.age is not None), default=None)


def read(host: Host) -> Log:
    """Raises Nothing if dmesg is not installed, HostError if the log cannot be read."""
    return host.once("log of the audit", lambda: _read(host))


def _read(host: Host) -> Log:
    if not host.live and host.exists(kernel_log.CAPTURED):
        texts = host.read(kernel_log.CAPTURED).splitlines()
    else:
        with if_installed():
            texts = host.must_run([DMESG], "read the kernel's log with").splitlines()
    uptime = _seconds(host.value(_UPTIME).text)
    return Log(tuple(_line(text, uptime) for text in texts), uptime)


def _line(text: str, uptime: int | None) -> Line:
    stamp = _STAMP.match(text)
    if stamp is None:
        return Line(text, None)
    age = None if uptime is None else max(0, uptime - int(stamp.group(1)))
    return Line(text[stamp.end() :], age)


def checks(subject: Subject, log: Log, events: Mapping[str, Sequence[Event]]) -> Iterator[Check]:
    """One check per target with events. Without events: pass if the log reaches back far enough, else
    unknown.
    """
    if not events:
        evidence = f"none in the kernel's log{log.reach}"
        yield subject.judged(True, evidence, expected=_EXPECTED) if log.covers else subject.unknown(evidence)
    for target, of_target in events.items():
        yield _judged(replace(subject, target=target), of_target)


def _judged(subject: Subject, events: Sequence[Event]) -> Check:
    """Verdict by the worst recent event."""
    recent = [event for event in events if not event.is_old]
    old = [event for event in events if event.is_old]
    evidence = "; ".join(filter(None, [_words(recent), f"old: {_words(old)}" if old else ""]))
    if not recent:
        return subject.skip(evidence)
    cause = max((event.cause for event in recent), key=lambda cause: _ORDER.index(cause.severity))
    subject = replace(subject, severity=cause.severity, reason=cause.reason, advice=cause.advice)
    return subject.judged(False, evidence, expected=_EXPECTED)


def _words(events: Sequence[Event]) -> str:
    """Text such as `Xid 79 (hardware: fallen off the bus), 5 min ago; Xid 31 (program: page fault) ...`."""
    texts = []
    for title in dict.fromkeys(event.title for event in events):
        same = [event for event in events if event.title == title]
        about = f"{same[-1].cause.name}: {same[-1].name}" if same[-1].name else same[-1].cause.name
        often = f" {len(same)} times, last" if len(same) > 1 else ","
        texts.append(f"{printable(title)} ({about}){often} {_ago(same[-1].age)}")
    return "; ".join(shortened(texts, _MOST))


def _ago(age: int | None) -> str:
    if age is None:
        return "at a time that the log does not have"
    for seconds, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if age >= 2 * seconds:
            return f"{age // seconds} {unit} ago"
    return f"{age} s ago"


def _seconds(text: str | None) -> int | None:
    match = re.match(r"([0-9]{1,12})\.", text or "", re.ASCII)
    return int(match.group(1)) if match else None
