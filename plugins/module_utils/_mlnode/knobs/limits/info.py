# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The number of files that programs need, whatever is declared."""

from __future__ import annotations

import re

from ...model.record import regex
from .parse import LOGIN

#: Under which data loaders with many workers and many connections run out of files
_FEW_FILES = 65536
_AMOUNT = regex(r"([0-9]{1,20})(?::([0-9]{1,20}))?(?![0-9:])", re.ASCII)


def has_files(scope: str, text: str) -> bool:
    """The soft limit is what users' programs and jobs of Slurm get; a daemon raises its own to the hard one,
    and containers have theirs from their runtime."""
    for part in text.split("; "):
        match = _AMOUNT.match(part)
        soft = scope == LOGIN or "slurmd" in part
        number = match and (match.group(1) if soft or not match.group(2) else match.group(2))
        if not number or int(number) < _FEW_FILES:
            return False
    return True
