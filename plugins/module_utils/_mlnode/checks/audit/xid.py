# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Xids, the errors that NVIDIA's driver writes to the kernel's log: whether one is about the hardware, a link
or only a program, and how long ago it was.

A line of the log has the seconds since boot by a clock that stands still while the machine sleeps
(kernel/printk: local_clock), so that after a sleep an age comes out too high.
"""

from __future__ import annotations

import re
from typing import Iterator, Sequence

from ...host.host import Host
from ...model.record import NamedTuple, regex, replace
from ...model.setting import Severity
from . import model
from .model import AuditCheck, Topic

XID = Topic(
    "gpu_xid",
    Severity.HIGH,
    "the driver reports that a GPU, its memory or its link failed, or that a program did",
    "NVIDIA, Analyzing Xid Errors with the Xid Catalog",
    "look the number up in the vendor's list of Xids",
)

#: Older ones are reported and fail nothing: a day is what the catalog counts repeats by (Xid 149), and a
#: GPU that is still broken shows in gpu_ecc, pcie_link, gpu_persistence or a newer Xid
WINDOW_S = 24 * 3600


class _Class(NamedTuple):
    """Cause of an Xid: who has to do what."""

    name: str
    severity: Severity
    reason: str
    advice: str


_HARDWARE = _Class(
    "hardware", Severity.HIGH, "the GPU needs a reset or has failed, and its jobs are lost",
    "drain the node, reset the GPU or reboot, and run the vendor's field diagnostic if it comes back",
)  # fmt: skip
_WORN = _Class(
    "hardware", Severity.MEDIUM, "the GPU goes on, and its memory or a part of it wears out",
    "reset the GPU when its jobs are done; replace it if that goes on",
)  # fmt: skip
_LINK = _Class(
    "link", Severity.HIGH, "a link between GPUs has lost packets or is down, and collectives stall or fail",
    "look at nvidia-smi nvlink -e, cables and the fabric manager's log; reset the GPUs at both ends",
)  # fmt: skip
_NOISY = _Class(
    "link", Severity.MEDIUM, "a link between GPUs or to the CPU has reported an error that it survived",
    "look at nvidia-smi nvlink -e, and whether it comes back",
)  # fmt: skip
_PROGRAM = _Class(
    "program", Severity.LOW, "mostly a bug of the program, such as an access outside of its memory",
    "look at the job's own output; suspect the GPU only if any job fails there",
)  # fmt: skip
_OTHER = _Class("not in the table", Severity.MEDIUM, XID.reason, XID.advice)

#: Xid → cause and name, from the catalog's resolutions: of a program RESTART_APP or CHECK_APP/CUDA, of
#: hardware RESET_GPU or RESTART_BM, of a link the NVLINK workflows. 13, 31, 43, 45 and 68 are also what the
#: device plugin of NVIDIA for Kubernetes passes over as errors of applications (internal/rm/health.go).
TABLE: dict[int, tuple[_Class, str]] = {
    8: (_PROGRAM, "stopped processing"),
    11: (_PROGRAM, "corrupted push buffer"),
    13: (_PROGRAM, "exception in the graphics engine"),
    25: (_PROGRAM, "illegal push buffer"),
    31: (_PROGRAM, "page fault"),
    32: (_PROGRAM, "corrupted push buffer"),
    43: (_PROGRAM, "stopped processing"),
    45: (_PROGRAM, "clean-up after another error"),
    46: (_HARDWARE, "stopped processing"),
    48: (_HARDWARE, "double bit ECC error"),
    54: (_HARDWARE, "auxiliary power is not connected"),
    62: (_HARDWARE, "micro-controller halted"),
    63: (_WORN, "a row of memory is remapped"),
    64: (_HARDWARE, "remapping a row of memory failed"),
    68: (_PROGRAM, "exception in the video decoder"),
    69: (_PROGRAM, "class error in the graphics engine"),
    74: (_LINK, "NVLink error"),
    79: (_HARDWARE, "fallen off the bus"),
    80: (_PROGRAM, "corrupted data sent to the GPU"),
    92: (_WORN, "many single bit ECC errors"),
    94: (_WORN, "contained memory error"),
    95: (_HARDWARE, "uncontained memory error"),
    109: (_HARDWARE, "context switch timed out"),
    110: (_HARDWARE, "security fault"),
    119: (_HARDWARE, "GSP does not answer"),
    120: (_HARDWARE, "GSP error"),
    121: (_NOISY, "C2C error"),
    136: (_LINK, "link training failed"),
    137: (_PROGRAM, "NVLink privilege error"),
    140: (_HARDWARE, "ECC error that was not recovered"),
    143: (_HARDWARE, "initialization failed"),
    **dict.fromkeys(range(144, 151), (_LINK, "NVLink error")),
    154: (_HARDWARE, "needs the recovery that its line names"),
    156: (_WORN, "a resource is retired"),
    157: (_WORN, "no spare is left for a resource to retire"),
    158: (_HARDWARE, "fatal timeout"),
}

_DMESG = "dmesg"
#: `[ 1234.567890] NVRM: Xid (PCI:0000:1b:00): 79, pid=1234, name=python, GPU has fallen off the bus.`; old
#: drivers write it without PCI:
_STAMP = regex(r"(?:<[0-9]{1,3}>)?\[ *([0-9]{1,12})\.[0-9]{1,9}\]", re.ASCII)
_XID = regex(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{4,20})\): ([0-9]{1,5})", re.ASCII)
#: Xid 154 goes with another one and names what has to be done: `from 0x1 (GPU Reset Required) to 0x0 (None)`
_RECOVERED = regex(r"NVRM: Xid [^\n]*: 154,[^\n]* to 0x0\b", re.ASCII)
_UPTIME = "/proc/uptime"
_MOST = 8
#: A log whose oldest line is of the first minute has all of the boot: clocks may differ by some seconds
_BOOT_S = 60
_ORDER = (Severity.LOW, Severity.MEDIUM, Severity.HIGH)


class _Event(NamedTuple):
    """age: seconds, None where the log has no times."""

    gpu: str
    number: int
    age: int | None

    @property
    def is_old(self) -> bool:
        return self.age is not None and self.age > WINDOW_S


def checks(host: Host) -> Iterator[AuditCheck]:
    """One for each GPU that has reported any. Raises HostError where the log cannot be read."""
    lines = host.must_run([_DMESG], "read the kernel's log with").splitlines()
    uptime = _seconds(host.value(_UPTIME).text)
    events = [event for line in lines for event in _events(line, uptime)]
    if not events:
        ages = [age for age in (_age(line, uptime) for line in lines) if age is not None]
        oldest = max(ages, default=None)
        found = f"none in the kernel's log{_reach(oldest, uptime)}"
        if _covers(oldest, uptime):
            yield model.judged(XID, True, found, _DMESG, "none in the last day")
        else:
            yield model.unknown(XID, found, _DMESG)
    for gpu in dict.fromkeys(event.gpu for event in events):
        yield _judged(f"GPU {gpu}", [event for event in events if event.gpu == gpu])


def _judged(target: str, events: Sequence[_Event]) -> AuditCheck:
    """By the worst of what is not old."""
    recent = [event for event in events if not event.is_old]
    old = [event for event in events if event.is_old]
    found = "; ".join(filter(None, [_words(recent), f"old: {_words(old)}" if old else ""]))
    if not recent:
        return model.told(XID, found, _DMESG, target)
    cause = max((_class(event.number) for event in recent), key=lambda one: _ORDER.index(one.severity))
    topic = replace(XID, severity=cause.severity, reason=cause.reason)
    return model.judged(topic, False, found, _DMESG, "none in the last day", target, cause.advice)


def _class(number: int) -> _Class:
    return TABLE.get(number, (_OTHER, ""))[0]


def _words(events: Sequence[_Event]) -> str:
    """`79 (hardware: fallen off the bus), 5 min ago; 31 (program: page fault) 3 times, last 2 h ago`."""
    texts = []
    for number in dict.fromkeys(event.number for event in events):
        same = [event for event in events if event.number == number]
        cause, name = TABLE.get(number, (_OTHER, ""))
        about = f"{cause.name}: {name}" if name else cause.name
        often = f" {len(same)} times, last" if len(same) > 1 else ","
        texts.append(f"Xid {number} ({about}){often} {_ago(same[-1].age)}")
    more = f"; and {len(texts) - _MOST} more" if len(texts) > _MOST else ""
    return "; ".join(texts[:_MOST]) + more


def _events(line: str, uptime: int | None) -> Iterator[_Event]:
    for match in _XID.finditer(line):
        if _RECOVERED.search(line):
            continue
        yield _Event(match.group(1), int(match.group(2)), _age(line, uptime))


def _age(line: str, uptime: int | None) -> int | None:
    stamp = _STAMP.match(line)
    return None if stamp is None or uptime is None else max(0, uptime - int(stamp.group(1)))


def _ago(age: int | None) -> str:
    if age is None:
        return "at a time that the log does not have"
    for seconds, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if age >= 2 * seconds:
            return f"{age // seconds} {unit} ago"
    return f"{age} s ago"


def _reach(oldest: int | None, uptime: int | None) -> str:
    """The log is a ring, and forgets its oldest lines."""
    if oldest is None or uptime is None:
        return ", of which it still has an unknown part"
    return f", whose oldest line is from {_ago(oldest)}; the machine has been up for {_ago(uptime)[:-4]}"


def _covers(oldest: int | None, uptime: int | None) -> bool:
    """True if the log begins with the boot, or has the last day: else an Xid may be among what is gone."""
    return oldest is not None and uptime is not None and oldest >= min(WINDOW_S, uptime - _BOOT_S)


def _seconds(text: str | None) -> int | None:
    match = re.match(r"([0-9]{1,12})\.", text or "", re.ASCII)
    return int(match.group(1)) if match else None
