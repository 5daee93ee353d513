# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Number of open files that programs need, independent of any declaration."""

from __future__ import annotations

import re

from ...model.record import regex
from .parse import LOGIN

#: With fewer, data loaders with many workers and connections run out of files
_FEW_FILES = 65536
_AMOUNT = regex(r"([0-9]{1,20})(?::([0-9]{1,20}))?(?![0-9:])", re.ASCII)


def has_files(scope: str, text: str) -> bool:
    """True if the soft limit suffices.

    It applies to users' programs and to jobs of Slurm. A daemon raises its own to the hard limit, and a
    container runtime sets the limits of containers.
    """
    for part in text.split("; "):
        match = _AMOUNT.match(part)
        soft = scope == LOGIN or "slurmd" in part
        number = match and (match.group(1) if soft or not match.group(2) else match.group(2))
        if not number or int(number) < _FEW_FILES:
            return False
    return True
