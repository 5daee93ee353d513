# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The library as the agent on this node has it, for a module that is sent without it.

Sending it costs a check of a whole node more than the check itself: Python would compile it there each time.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from types import ModuleType

#: Longer than any first line that a kernel takes, in bytes (BINPRM_BUF_SIZE, include/uapi/linux/binfmts.h)
_FIRST_LINE = 256


class NoCodeError(Exception):
    """The agent is not there, or not the one that is asked for. absent: it is not there."""

    def __init__(self, why: str, absent: bool = False) -> None:
        super().__init__(why)
        self.absent = absent


def library(path: str, size: int, sha256: str, names: tuple[str, ...]) -> list[ModuleType]:
    """These modules of the agent at path, if its sources are the ones with this size and digest. Raises
    NoCodeError."""
    try:
        with open(path, "rb") as file:
            file.readline(_FIRST_LINE)
            sources = file.read(size)
    except FileNotFoundError as error:
        raise NoCodeError(f"{path} is not there", absent=True) from error
    except OSError as error:
        raise NoCodeError(f"{path} cannot be read: {error.strerror}") from error
    if hashlib.sha256(sources).hexdigest() != sha256:
        raise NoCodeError(f"{path} is another than the one of this collection")
    sys.path.insert(0, path)
    try:
        return [importlib.import_module(f"mlnode.{name}") for name in names]
    except Exception as error:  # what was compiled is not compared, and half of it raises anything
        raise NoCodeError(f"{path} is damaged: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(path)
