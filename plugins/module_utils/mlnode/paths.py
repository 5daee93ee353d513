# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be the path of a file at all."""

from __future__ import annotations

import errno
import re

from .errors import HostError

#: NUL ends a path in C, and half of a UTF-16 pair has no bytes: Python raises ValueError for both. The range
#: U+DC80 to U+DCFF stands for bytes that are not UTF-8 (PEP 383).
_NO_PATH = re.compile("[\x00\ud800-\udc7f\udd00-\udfff]")


def checked(path: str) -> str:
    """The path. Raises HostError for what no system call takes, as a damaged file may name."""
    if _NO_PATH.search(path):
        raise HostError("look at", ascii(path)[1:-1], errno.EINVAL)
    return path
