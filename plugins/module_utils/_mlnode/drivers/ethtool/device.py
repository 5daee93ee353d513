# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of a NIC in ethtool: groups of fields, from the kernel or from a captured file."""

from __future__ import annotations

import errno
import os
from typing import Any, Mapping, Protocol

from ...model.record import NamedTuple


class Group(NamedTuple):
    """Fields that the kernel reads, and sets, together.

    nouns, noun: the group and one field, to complete `the driver X has no ...`.
    """

    nouns: str
    noun: str
    settable: bool = False
    #: Fields that cannot be set
    read_only: frozenset[str] = frozenset()


GROUPS = {
    "driver": Group("information about itself", "information"),
    "link": Group("link settings", "link setting"),
    "ring": Group("rings", "ring", True),
    "ring/max": Group("rings", "ring"),
    "channels": Group("channels", "kind of channel", True),
    "channels/max": Group("channels", "kind of channel"),
    "coalesce": Group("interrupt coalescing", "coalescing parameter", True),
    "pause": Group("pause frames", "pause parameter", True),
    "feature": Group("features", "feature", True),
    "feature/requested": Group("features", "feature", True),
    "feature/fixed": Group("features", "feature"),
    "private-flag": Group("private flags", "private flag", True),
    "fec": Group("forward error correction", "FEC setting", True, frozenset({"active"})),
    "statistic": Group("private statistics", "statistic"),
}


class Device(Protocol):
    """One NIC."""

    def get(self, group: str) -> Mapping[str, str]:
        """Field → value.

        Raises OSError (EOPNOTSUPP: the driver lacks the group), and ValueError for an implausible answer.
        """

    def set(self, group: str, wanted: Mapping[str, str]) -> None:
        """Change these fields of a group together and keep the others.

        Raises OSError, and ValueError for a value that the field cannot have.
        """


class Captured:
    """A NIC from ROOT/ethtool/NAME.json of a captured tree. Read-only.

    A group is an object of fields, or the name of an errno.
    """

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers

    def get(self, group: str) -> Mapping[str, str]:
        answer = self._answers.get(group, "ENODATA")
        if isinstance(answer, str):
            number: int = getattr(errno, answer)
            raise OSError(number, os.strerror(number))
        fields: Mapping[str, str] = answer
        return fields

    def set(self, group: str, wanted: Mapping[str, str]) -> None:  # noqa: ARG002  # as Device has it
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def is_errno(word: str) -> bool:
    """True for the name of an errno. Names are the same on every architecture, numbers are not."""
    return word.isupper() and isinstance(getattr(errno, word, None), int)
