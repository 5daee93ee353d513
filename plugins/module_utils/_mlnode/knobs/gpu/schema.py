# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area gpu."""

from __future__ import annotations

from ...drivers.gpu.topics import PERSISTENCE
from ...model.schema import Option, Table
from ...model.setting import Severity

OPTIONS: Table = {
    "persistence": Option(
        "bool",
        """
        Whether GPUs are kept awake. Unset leaves them as they are.

        V(false) sets the mode of each GPU, and leaves a daemon that keeps them awake as it is.
        """,
        severity=Severity.MEDIUM,
        reason=PERSISTENCE.reason,
        source="NVIDIA, Driver Persistence; power/runtime_pm.rst",
    ),
}
