# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area gpu."""

from __future__ import annotations

from ...model.schema import Option, Table
from ...model.setting import Severity

OPTIONS: Table = {
    "persistence": Option(
        "bool",
        """
        Whether GPUs are kept awake. Unset leaves them as they are.

        V(false) sets the mode of each GPU, and leaves the daemon as it is.
        """,
        severity=Severity.MEDIUM,
        reason="the driver releases an unused GPU: the next program waits for seconds until it is awake",
        source="NVIDIA, Driver Persistence",
    ),
}
