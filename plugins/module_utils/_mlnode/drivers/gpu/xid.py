# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Xids and SXids, the errors that NVIDIA's drivers of GPUs and NVSwitches write to the kernel's log.

Each is judged by its age, by the severity that the driver prints, and by NVIDIA's published remedy.
"""

from __future__ import annotations

import re
from typing import Collection, Iterable, Iterator, Sequence

from ...model.errors import printable
from ...model.log import Cause, Event, Line
from ...model.record import NamedTuple, regex, replace
from ...model.setting import Severity
from . import topics

XID = replace(
    topics.MESSAGES,
    reference="NVIDIA, Analyzing Xid Errors with the Xid Catalog",
    advice="look the number up in the vendor's list of Xids",
)

_HARDWARE = Cause(
    "hardware", Severity.HIGH, "the GPU needs a reset or has failed, and its jobs are lost",
    "drain the node, reset the GPU or reboot, and run the vendor's field diagnostic if it comes back",
)  # fmt: skip
_LOST = Cause(
    "hardware", Severity.HIGH, "the GPU does not answer on PCIe, and its jobs are lost",
    "drain the node and restart the machine; check the GPU's seating, power and PCIe link if it comes back",
)  # fmt: skip
_POWER = Cause(
    "hardware", Severity.HIGH, "a GPU without its auxiliary power does not run jobs",
    "check the power cables and the seating of the GPU",
)  # fmt: skip
_CONTAINED = Cause(
    "hardware", Severity.MEDIUM, "an error of the memory ended one program, and the GPU goes on",
    "restart the job that it ended; reset the GPU when its jobs are done, and replace it if that goes on",
)  # fmt: skip
_WORN = Cause(
    "hardware", Severity.MEDIUM, "the GPU goes on, and its memory or a part of it wears out",
    "no action now; ask the vendor about a replacement if it comes back",
)  # fmt: skip
_SURVIVED = Cause(
    "hardware", Severity.LOW, "the GPU handled it and goes on",
    "no action; look whether it comes back often",
)  # fmt: skip
_LINK = Cause(
    "link", Severity.HIGH, "a link between GPUs has lost packets or is down, and collectives stall or fail",
    "look at nvidia-smi nvlink -e, cables and the fabric manager's log; reset the GPUs at both ends",
)  # fmt: skip
_LINK_JOB = Cause(
    "link", Severity.MEDIUM, "an error of a link ended the job on this GPU, and the GPU goes on",
    "restart the job; take the action of an Xid 154, if one accompanies it; look at nvidia-smi nvlink -e",
)  # fmt: skip
_NOISY = Cause(
    "link", Severity.MEDIUM, "a link between GPUs or to the CPU has reported an error that it survived",
    "look at nvidia-smi nvlink -e, and whether it comes back",
)  # fmt: skip
_SWITCH = Cause(
    "switch", Severity.HIGH, "the NVSwitch has failed a link or itself, and jobs on the GPUs behind it fail",
    "drain the node; reset all GPUs and NVSwitches together (nvidia-smi -r) or reboot; look at the log of "
    "nvidia-fabricmanager",
)  # fmt: skip
_HOT = Cause(
    "switch", Severity.HIGH, "the NVSwitch is too hot, and shuts down if that goes on",
    "check fans, air flow and the BMC's temperatures",
)  # fmt: skip
_PROGRAM = Cause(
    "program", Severity.LOW, "mostly a bug of the program, such as an access outside of its memory",
    "look at the job's own output; suspect the GPU only if any job fails there",
)  # fmt: skip
_ENDED = Cause(
    "program", Severity.LOW, "the driver cleaned up after a program that was ended, with no error before",
    "none if someone ended the job; if not, look at its output, and restart nvidia-fabricmanager",
)  # fmt: skip
_FOLLOWS = Cause(
    "follows", Severity.LOW, "the driver cleaned up after another error", "take the action of that error"
)
_SOFTWARE = Cause(
    "software", Severity.MEDIUM, "drivers of host and guest, or the fabric manager's partitions, disagree",
    "update the drivers of host and guest (Xid 78); compare the fabric manager's partitions (SXid 11004)",
)  # fmt: skip
_VM = Cause(
    "software", Severity.MEDIUM, "the encryption of this virtual machine's GPU failed",
    "restart the virtual machine",
)  # fmt: skip
_OTHER = Cause("not in the table", Severity.MEDIUM, XID.reason, XID.advice)

#: Cause, name and Xids, by the immediate action in NVIDIA's catalog: RESTART_APP means a program, RESET_GPU
#: hardware, IGNORE that it survived. Its other numbers have no remedy but support.
_ROWS: tuple[tuple[Cause, str, tuple[int, ...]], ...] = (
    (_PROGRAM, "stopped processing", (8, 43)),
    (_PROGRAM, "corrupted push buffer", (11, 32)),
    (_PROGRAM, "illegal push buffer", (25,)),
    (_PROGRAM, "exception in the graphics engine", (13,)),
    (_PROGRAM, "injected error", (14,)),
    (_PROGRAM, "page fault", (31,)),
    (_PROGRAM, "driver firmware error", (37, 38)),
    (
        _PROGRAM,
        "exception in a copy engine",
        (39, 40, 41, *range(70, 73), *range(75, 78), 85, *range(126, 136)),
    ),
    (_PROGRAM, "fault during a context switch", (44,)),
    (_PROGRAM, "exception in the video processor", (60,)),
    (_PROGRAM, "illegal access by the driver", (66, 67)),
    (_PROGRAM, "exception in the video decoder", (68, 83, 84, 88, 89, 96, 97, 98)),
    (_PROGRAM, "class error in the graphics engine", (69,)),
    (_PROGRAM, "corrupted data sent to the GPU", (80,)),
    (_PROGRAM, "exception in the JPEG decoder", (82, *range(99, 106))),
    (_PROGRAM, "exception in the optical flow engine", (86, 139)),
    (_PROGRAM, "NVLink privilege error", (108, 137)),
    (_PROGRAM, "CUDA fast path error", (141,)),
    (_PROGRAM, "DLA error", (152, 153)),
    (_HARDWARE, "stopped processing", (46,)),
    (_HARDWARE, "double bit ECC error", (48,)),
    (_HARDWARE, "micro-controller halted", (62,)),
    (_HARDWARE, "remapping a row of memory failed", (64,)),
    (_HARDWARE, "uncontained memory error", (95,)),
    (_HARDWARE, "context switch timed out", (109,)),
    (_HARDWARE, "security fault", (110,)),
    (_HARDWARE, "GSP does not answer", (119,)),
    (_HARDWARE, "GSP error", (120,)),
    (_HARDWARE, "ECC error that was not recovered", (140,)),
    (_HARDWARE, "initialization failed", (143,)),
    (_HARDWARE, "needs the recovery that its line names", (154,)),
    (_HARDWARE, "a resource is retired", (156,)),
    (_HARDWARE, "fatal timeout", (158,)),
    (_HARDWARE, "CHI error, if unified memory is used", (159,)),
    (_HARDWARE, "uncorrectable memory error", (171, 172)),
    (_LOST, "fallen off the bus", (79,)),
    (_POWER, "auxiliary power is not connected", (54,)),
    (_WORN, "many single bit ECC errors", (92,)),
    (_CONTAINED, "contained memory error", (94,)),
    (_WORN, "no spare is left for a resource to retire", (157,)),
    (_SURVIVED, "a row of memory is remapped", (63,)),
    (_SURVIVED, "wear limit of the InfoROM", (93,)),
    (_SURVIVED, "test message", (106, 107)),
    (_SURVIVED, "corrected C2C error", (121,)),
    (_SURVIVED, "a channel is retired", (160, 161)),
    (_SURVIVED, "power smoothing is on or off", (162, 163)),
    (_SOFTWARE, "vGPU does not start", (78,)),
    (_VM, "key rotation error", (151,)),
    (_LINK, "NVLink error", (74, *range(144, 151))),
    (_LINK, "link training failed", (136,)),
    (_LINK, "link was taken down", (155,)),
)
TABLE = {number: (cause, name) for cause, name, numbers in _ROWS for number in numbers}
_CLEANUP, _RECOVERY, _NVLINK = 45, 154, range(144, 151)

#: `[ 1234.567890] NVRM: Xid (PCI:0000:1b:00): 79, pid=1234, name=python, GPU has fallen off the bus.`; old
#: drivers omit PCI:, and a part of a GPU (MIG) has ` GPU-I:05` and ` GPU-CI:00` behind the address
_XID = regex(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{4,20})[^()\n]{0,40}\): ([0-9]{1,5})([^\n]*)", re.ASCII)
#: `nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)`
_SXID = regex(
    r"\bSXid \((?:PCI:)?([0-9a-fA-F:.]{4,20})\): ([0-9]{1,6}),?"
    r"(?: (Non-?fatal|Fatal|Correctable)\b,?)?([^\n]*)",
    re.ASCII | re.IGNORECASE,
)
#: Lines with its registers, which follow: `22013, Severity 0 Engine instance 60 Sub-engine instance 00` (1 is
#: fatal), `22013, Data {0x0000003c, ...}`, and of older drivers `26006, SOE HALT data[0] = 0x0`
_REGISTERS = regex(
    r" (?:Severity ([01])\b|Data \{|[^\n]{0,40}\bdata\[[0-9]{1,2}\] *=)", re.ASCII | re.IGNORECASE
)
_THERMAL, _ACCESS = 10004, 11004
#: Of newer drivers, such as 590: `45, pid=7, name=python, Ch 00000001 caused by previous Xid 149`
_PREVIOUS = regex(r" caused by previous Xid ([0-9]{1,5})\s*\Z", re.ASCII)
#: Xid 154 accompanies another and contains the required action: `from 0x1 (GPU Reset Required) to 0x0 (None)`
_ACTION = regex(r" to 0x([0-9a-f]{1,2}) \(([^()\n]{1,40})\)", re.ASCII)

#: NVLink 5, Xids 144 to 150: `145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 12 (0x040988e2 0x00000008 ...)`: unit,
#: severity, whether it ended the channels of programs (XC1), and the register intrInfo before others
_NVLINK5 = regex(
    r"\b([A-Z][A-Z0-9_/]{2,40}(?: Degraded)?)\s+((?:Link )?Fatal|Non-?fatal)\b(?:\s+(XC[01]))?",
    re.ASCII | re.IGNORECASE,
)
_INFO = regex(r"[^(\n]*\(0x([0-9a-f]{1,8})", re.ASCII | re.IGNORECASE)
#: Reasons of a link that went down which need no reset: bits 20 to 25 of intrInfo
_NO_RESET = (0x26, 0x28)

#: Characters of a message in a finding, and number of errors among which the cause of a clean-up is sought
_LONGEST, _NEAR = 60, 256
#: Seconds. PyTorch ends a job 10 minutes after its collective got stuck (ProcessGroupNCCL, default timeout)
_AFTER_S = 600


class _Error(NamedTuple):
    """A line of the log. device: as in the target. number: of the Xid; None for an SXid."""

    device: str
    number: int | None
    event: Event


def events(lines: Iterable[Line]) -> Iterator[tuple[str, Event]]:
    """Errors with their GPU or NVSwitch, the oldest first."""
    earlier: list[_Error] = []
    seen: set[tuple[str, str]] = set()
    for line in lines:
        for error in _errors(line, seen):
            seen.add((error.device, error.event.title))
            if error.number == _CLEANUP and error.event.cause is not _FOLLOWS:
                yield error.device, _cleanup(error, earlier)
            else:
                earlier.append(error)
                yield error.device, error.event


def _errors(line: Line, seen: Collection[tuple[str, str]]) -> Iterator[_Error]:
    """Errors of a line. seen: devices and titles of earlier ones."""
    for match in _XID.finditer(line.text):
        number, text = int(match[2]), match[3]
        cause, name = TABLE.get(number, (_OTHER, ""))
        if number == _RECOVERY:
            action = _ACTION.search(text)
            if action and not int(action[1], 16):
                continue
            name = printable(action[2]) if action else name
        elif number in _NVLINK:
            cause, name = _nvlink5(text) or (cause, name)
        previous = _PREVIOUS.search(text) if number == _CLEANUP else None
        if previous:
            cause, name = _FOLLOWS, f"clean-up after Xid {previous[1]}"
        yield _Error(f"GPU {match[1]}", number, Event(f"Xid {number}", name, cause, line.age))
    for match in _SXID.finditer(line.text):
        device, title = f"NVSwitch {match[1]}", f"SXid {int(match[2])}"
        if match[3] or (device, title) not in seen:
            registers = None if match[3] else _REGISTERS.match(match[4])
            severity = match[3] or (registers and registers[1] and ("non-fatal", "fatal")[int(registers[1])])
            name = "only its registers are in the log" if registers else printable(match[4].strip(" ,"))
            cause = _switch(int(match[2]), severity)
            yield _Error(device, None, Event(title, name[:_LONGEST], cause, line.age))


def _switch(number: int, severity: str | None) -> Cause:
    if number == _THERMAL:
        return _HOT
    if number == _ACCESS:
        return _SOFTWARE
    if severity is None:
        return _OTHER
    return _SWITCH if severity.lower() == "fatal" else _NOISY


def _nvlink5(text: str) -> tuple[Cause, str] | None:
    """Cause and name by the catalog's table of Xids 144 to 150; None without a severity in the text."""
    matches = [*_NVLINK5.finditer(text)]
    if not matches:
        return None
    match = matches[-1]  # the name of a process stands before it
    unit, severity, ended = match[1].upper(), match[2].lower(), match[3]
    register = _INFO.match(text, match.end())
    info = int(register[1], 16) if register else 0
    name = f"{unit}, {severity}"
    is_down = unit.startswith(("NETIR_LINK", "NETIR_INT")) or unit == "NETIR"
    if is_down and info >> 20 & 0x3F in _NO_RESET:
        return _NOISY, name
    # Its second action is a reset: a bit above the number of the unit, before R575 and since.
    second = unit == "RLW_RXPIPE" and (info & 0x7FF == 0x4C2 or info & 0xFF == 0x86)
    if "non" not in severity or is_down or second:
        return _LINK, name
    return (_LINK_JOB if ended and ended.upper() == "XC1" else _NOISY), name


def _cleanup(error: _Error, earlier: Sequence[_Error]) -> Event:
    """An Xid 45, which follows another error of its GPU, or of another device, or stands alone."""
    near = [
        other for other in earlier[-_NEAR:]
        if other.event.age is None or error.event.age is None
        or other.event.age - error.event.age <= _AFTER_S
    ]  # fmt: skip
    own = [other for other in near if other.device == error.device]
    if not near:
        return error.event._replace(name="clean-up after an ended program", cause=_ENDED)
    other = (own or near)[-1]
    place = "" if own else f" of {other.device}"
    return error.event._replace(name=f"clean-up after {other.event.title}{place}", cause=_FOLLOWS)
