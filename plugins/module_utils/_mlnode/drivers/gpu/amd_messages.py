# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors that amdgpu writes to the kernel's log.

Texts of Linux 6.1 to 6.17: amdgpu_device.c, amdgpu_job.c, amdgpu_ras.c, amdgpu_ras_eeprom.c, gmc_v9_0.c,
kfd_device_queue_manager.c and kfd_int_process_v9.c.
"""

from __future__ import annotations

import re
from typing import Iterator, Sequence

from ...model.log import Cause, Event, Line
from ...model.record import regex, replace
from ...model.setting import Severity
from . import topics

MESSAGES = replace(
    topics.MESSAGES,
    reference="drivers/gpu/drm/amd of Linux 6.17; gpu/amdgpu/ras.rst",
)

_LOST = Cause(
    "hardware", Severity.HIGH, "the GPU has left the bus or does not start, and its jobs are lost",
    "drain the node and power it off and on; run the vendor's diagnostic if it comes back",
)  # fmt: skip
_RESET = Cause(
    "hardware", Severity.HIGH, "the driver resets the GPU, and all jobs on it are lost",
    "drain the node, look at the messages before it, and reboot if the reset has failed",
)  # fmt: skip
_RETIRE = Cause(
    "hardware", Severity.HIGH, "more of its memory is bad than the driver accepts",
    "replace the GPU: the driver may not start it again",
)  # fmt: skip
_MEMORY = Cause(
    "hardware", Severity.HIGH, "an error that cannot be corrected ends the job",
    "drain the node and run the vendor's diagnostic if it comes back",
)  # fmt: skip
_CORRECTED = Cause(
    "hardware", Severity.LOW, "an error was corrected; many corrected errors announce a fatal error",
    "replace the GPU if their number grows",
)  # fmt: skip
_HANG = Cause(
    "hang", Severity.HIGH, "a queue of the GPU does not answer, and its job waits for ever",
    "end the job, and reset the GPU or reboot; suspect the GPU if any job hangs there",
)  # fmt: skip
_PROGRAM = Cause(
    "program", Severity.LOW, "mostly a bug of the program, such as an access outside of its memory",
    "look at the job's own output; suspect the GPU only if any job fails there",
)  # fmt: skip

#: Text after the name of the device → its title and cause. The first match counts. A clean look writes `no
#: uncorrectable hardware errors`, and totals repeat older errors: neither is one.
_RULES = (
    (regex(r"device lost from bus"), "lost from the bus", _LOST),
    (regex(r"Fatal error during GPU init"), "initialization failed", _LOST),
    (regex(r"RAS records:[0-9]+ exceed threshold"), "too many bad pages", _RETIRE),
    (regex(r"GPU reset\([0-9]+\) failed|GPU reset end with ret = -|GPU Recovery Failed"),
     "GPU reset failed", _RESET),
    (regex(r"poison is consumed by"), "poison consumed", _MEMORY),
    (regex(r"GPU reset begin"), "GPU reset", _RESET),
    (regex(r"\b[1-9][0-9]* (?:new )?uncorrectable hardware errors detected in (?!total)"
           r"|uncorrectable hardware error ?\(\w{1,60}\) detected"
           r"|RAS event of type ERREVENT_ATHUB_INTERRUPT"
           # Bits 63 and 61 of MCA_STATUS (mce.h): valid and uncorrected. A failed link has no other line
           r"|(?:aca entry|ACA)\[[0-9/]{1,11}\]\.STATUS=0x[abef]"),
     "uncorrectable error", _MEMORY),
    (regex(r"\b[1-9][0-9]* (?:new )?deferred hardware errors detected in (?!total)"),
     "deferred error", _MEMORY),
    (regex(r"\b[1-9][0-9]* (?:new )?correctable hardware errors detected in (?!total)"),
     "correctable error", _CORRECTED),
    (regex(r"ring \S+ timeout, signaled"), "ring timeout", _HANG),
    # The driver has ended the waves of the job, and the ring goes on (amdgpu_ring_soft_recovery)
    (regex(r"ring \S+ timeout, but soft recovered"), "ring timeout", _PROGRAM),
    (regex(r"unsuccessful queues preemption|[Qq]ueue preemption time out|qcm fence wait loop timeout"
           r"|MES failed to respond"), "queue preemption failed", _HANG),
    (regex(r"(?:no-retry )?page fault \(src_id"), "page fault", _PROGRAM),
)  # fmt: skip

#: `amdgpu 0000:05:00.0: amdgpu: text`; newer kernels omit the second name. Older ones, such as 5.15, write
#: hangs without an address: `[drm:amdgpu_job_timedout [amdgpu]] *ERROR* text`, `amdgpu: text`
_LINE = regex(
    r"(?:amdgpu ([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): (?:amdgpu: )?"
    r"|\[drm:amdgpu_\w{1,60} \[amdgpu\]\] \*ERROR\* |\bamdgpu: )([^\n]*)",
    re.ASCII,
)
#: In the place of an address
_ANY = "a GPU"


def events(lines: Sequence[Line]) -> Iterator[tuple[str, Event]]:
    for line in lines:
        match = _LINE.search(line.text)
        matching = [(title, cause) for sign, title, cause in _RULES if match and sign.search(match.group(2))]
        if match and matching:
            title, cause = matching[0]
            target = f"GPU {match.group(1)}" if match.group(1) else _ANY
            yield target, Event(title, "", cause, line.age)
