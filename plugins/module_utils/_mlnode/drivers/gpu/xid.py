# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Xids, the errors that NVIDIA's driver writes to the kernel's log: their age, and their cause.

The cause is the hardware, a link or a program.
"""

from __future__ import annotations

import re
from typing import Iterator

from ...model.check import Cause
from ...model.record import regex, replace
from ...model.setting import Severity
from . import topics
from .driver import Message

XID = replace(
    topics.MESSAGES,
    reference="NVIDIA, Analyzing Xid Errors with the Xid Catalog",
    advice="look the number up in the vendor's list of Xids",
    source="dmesg",
)

_HARDWARE = Cause(
    "hardware", Severity.HIGH, "the GPU needs a reset or has failed, and its jobs are lost",
    "drain the node, reset the GPU or reboot, and run the vendor's field diagnostic if it comes back",
)  # fmt: skip
_WORN = Cause(
    "hardware", Severity.MEDIUM, "the GPU goes on, and its memory or a part of it wears out",
    "reset the GPU when its jobs are done; replace it if that goes on",
)  # fmt: skip
_LINK = Cause(
    "link", Severity.HIGH, "a link between GPUs has lost packets or is down, and collectives stall or fail",
    "look at nvidia-smi nvlink -e, cables and the fabric manager's log; reset the GPUs at both ends",
)  # fmt: skip
_NOISY = Cause(
    "link", Severity.MEDIUM, "a link between GPUs or to the CPU has reported an error that it survived",
    "look at nvidia-smi nvlink -e, and whether it comes back",
)  # fmt: skip
_PROGRAM = Cause(
    "program", Severity.LOW, "mostly a bug of the program, such as an access outside of its memory",
    "look at the job's own output; suspect the GPU only if any job fails there",
)  # fmt: skip
_OTHER = Cause("not in the table", Severity.MEDIUM, XID.reason, XID.advice)

#: Xid → cause and name, from the catalog's resolutions: RESTART_APP or CHECK_APP/CUDA mean a program,
#: RESET_GPU or RESTART_BM hardware, the NVLINK workflows a link. NVIDIA's device plugin for Kubernetes also
#: ignores 13, 31, 43, 45 and 68 as application errors (internal/rm/health.go).
TABLE: dict[int, tuple[Cause, str]] = {
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

#: `[ 1234.567890] NVRM: Xid (PCI:0000:1b:00): 79, pid=1234, name=python, GPU has fallen off the bus.`; old
#: drivers omit PCI:
_XID = regex(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{4,20})\): ([0-9]{1,5})", re.ASCII)
#: Xid 154 accompanies another and contains the required action: `from 0x1 (GPU Reset Required) to 0x0 (None)`
_RECOVERED = regex(r"NVRM: Xid [^\n]*: 154,[^\n]* to 0x0\b", re.ASCII)


def messages(text: str) -> Iterator[Message]:
    """The Xids in a line."""
    for match in _XID.finditer(text):
        if _RECOVERED.search(text):
            continue
        number = int(match.group(2))
        cause, name = TABLE.get(number, (_OTHER, ""))
        yield Message(match.group(1), f"Xid {number}", name, cause)
