# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions about a GPU that every vendor's driver answers: name, importance and reason.

The class of a driver adds its sources and its advice. Their order is the order of the reports.
"""

from __future__ import annotations

from typing import Any, Sequence

from ...model.check import Subject
from ...model.setting import Severity

#: Reference of a topic that no driver answers here
_GUIDE = "docs/checks/audit.md, GPUs"

ECC = Subject(
    "gpu_ecc",
    severity=Severity.HIGH,
    reference=_GUIDE,
    reason="an error that cannot be corrected ends the job, and an undetected one corrupts its result",
    advice="drain the node and run the vendor's field diagnostic",
)
MESSAGES = Subject(
    "gpu_messages",
    severity=Severity.HIGH,
    reference=_GUIDE,
    reason="the driver reports that a GPU, its memory or its link failed, or that a program did",
    source="dmesg",
)
PERSISTENCE = Subject(
    "gpu_persistence",
    severity=Severity.MEDIUM,
    reference=_GUIDE,
    reason="the driver releases an unused GPU: the next program waits for seconds until it is awake",
    advice="set it on: the module gpu_persistence",
)
ANSWERING = Subject(
    "gpu_answering",
    severity=Severity.HIGH,
    reference=_GUIDE,
    reason="a job that starts one rank for each GPU fails at once, or waits for the lost GPU",
)
CLOCKS = Subject(
    "gpu_clocks",
    severity=Severity.HIGH,
    reference=_GUIDE,
    reason="the hardware has halved the clocks, or more, and all other GPUs of the job wait for this one",
)
FABRIC = Subject(
    "gpu_fabric",
    severity=Severity.HIGH,
    reference=_GUIDE,
    reason="GPUs that are not joined by their links exchange data over PCIe, or do not start",
)
RECOVERY = Subject(
    "gpu_recovery",
    severity=Severity.HIGH,
    reference=_GUIDE,
    reason="the driver waits for a reset or a reboot, and the next job on this GPU fails or dies",
)
PARTITION = Subject(
    "gpu_partition",
    severity=Severity.MEDIUM,
    reference=_GUIDE,
    reason="GPUs that are divided in different ways give the ranks of a job unequal shares",
)
POWER_CAP = Subject(
    "gpu_power_cap",
    severity=Severity.MEDIUM,
    reference=_GUIDE,
    reason="a GPU under a lower power cap has lower clocks under load, and all others of the job wait for it",
)
VERSIONS = Subject(
    "gpu_versions",
    severity=Severity.MEDIUM,
    reference=_GUIDE,
    reason="GPUs with different firmware may differ in speed and in their faults",
)
IMEX = Subject(
    "imex",
    severity=Severity.HIGH,
    reference=_GUIDE,
    reason="without the domain, a job whose nodes share memory over NVLink fails "
    "or falls back to the network",
)

#: Without MESSAGES, which come from the kernel's log
ALL = (ECC, PERSISTENCE, ANSWERING, CLOCKS, FABRIC, RECOVERY, PARTITION, POWER_CAP, VERSIONS, IMEX)

#: Clocks that the driver lowers to cool the GPU
COOLED: dict[str, Any] = {
    "severity": Severity.MEDIUM,
    "reason": "the driver lowers the clocks to cool this GPU, and all others of the job wait for it",
}


def usual(values: Sequence[str]) -> str:
    """The value that most GPUs have; "" without any."""
    return max(values, key=values.count, default="")


#: GPUs that an answer names
NAMED = 4
