# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one status every knob ends in, and how much a deviation matters."""

from __future__ import annotations

from enum import Enum


class Status(str, Enum):
    """Exactly one per setting, the same word in module results, tables and JSON."""

    OK = "ok"
    CHANGED = "changed"
    DRIFTED = "drifted"
    PENDING_REBOOT = "pending_reboot"
    OVERRIDDEN = "overridden"
    CLAMPED = "clamped"
    MANAGED = "managed"
    UNSUPPORTED = "unsupported"
    REFUSED = "refused"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value

    @property
    def is_drift(self) -> bool:
        """True where the node is not what was declared, or nobody can tell.

        unsupported is no drift, as no run can ever mend it, and no success either: it keeps
        its own word and its own count everywhere.
        """
        return self in _DRIFT


_DRIFT = frozenset({Status.DRIFTED, Status.PENDING_REBOOT, Status.OVERRIDDEN, Status.REFUSED, Status.UNKNOWN})


class Severity(str, Enum):
    """What a deviation costs: high = jobs run measurably slower or die; low = hygiene."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    def __str__(self) -> str:
        return self.value
