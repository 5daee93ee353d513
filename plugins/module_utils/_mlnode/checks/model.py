# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of checks, as in model/check.py, and a look at an optional file."""

from __future__ import annotations

from ..host.host import Host
from ..model.check import (
    BAD,
    DEVIATIONS,
    FAIL_ON,
    NODE,
    Check,
    Look,
    Nothing,
    Subject,
    Verdict,
    bad,
    counts,
    findings,
    if_installed,
    summary,
    total,
)
from ..model.errors import HostError

__all__ = (
    "BAD", "DEVIATIONS", "FAIL_ON", "NODE", "Check", "Look", "Nothing", "Subject", "Verdict",
    "bad", "content", "counts", "findings", "if_installed", "summary", "total",
)  # fmt: skip


def content(host: Host, path: str) -> str:
    """Content of a file, without its line end. Raises HostError, and Nothing if the file does not exist."""
    try:
        return host.read(path).rstrip("\n\0")
    except HostError as error:
        if error.absent:
            raise Nothing(error.missing, path) from error
        raise
