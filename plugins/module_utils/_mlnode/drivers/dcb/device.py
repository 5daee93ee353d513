# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data center bridging of a NIC: groups of fields, from a tool or from a captured file."""

from __future__ import annotations

import errno
from typing import Any, Mapping, Protocol

from ...model.errors import HostError, MissingError
from ...model.record import NamedTuple

#: Priorities, traffic classes, buffers (include/uapi/linux/dcbnl.h: IEEE_8021QAZ_MAX_TCS, DCBX_MAX_BUFFERS)
CLASSES = range(8)
#: Code points of six bits (RFC 2474)
DSCPS = range(64)

#: Text for an empty list
NONE = "none"


class Group(NamedTuple):
    """Fields that are read together. nouns: completes `the driver X has no ...`."""

    nouns: str
    fields: tuple[str, ...]
    #: Fields that cannot be set
    read_only: frozenset[str] = frozenset()


GROUPS = {
    "pfc": Group("priority flow control (PFC)", ("prio-pfc", "pfc-cap"), frozenset({"pfc-cap"})),
    "ets": Group(
        "transmission selection (ETS)", ("prio-tc", "tc-tsa", "tc-bw", "ets-cap"), frozenset({"ets-cap"})
    ),
    "buffer": Group(
        "receive buffers that can be set",
        ("prio-buffer", "buffer-size", "total-size"),
        frozenset({"total-size"}),
    ),
    "dscp-prio": Group("priorities of DSCPs", tuple(str(dscp) for dscp in DSCPS)),
    "trust": Group("trust in DSCPs", ("state",)),
    "dcbx": Group("DCBX mode", ("mode",), frozenset({"mode"})),
}

#: Groups of a NIC that nicctl sets
OWN = {
    "pause": Group("second kind of pause frames", ("rx", "tx")),
    "dcqcn": Group("DCQCN in its tool", ("state", "cnp-dscp")),
}


class Device(Protocol):
    """One NIC."""

    def get(self, group: str) -> Mapping[str, str]:
        """Field → value, for every field of the group.

        Raises MissingError if the driver lacks the group, else HostError.
        """

    def set(self, group: str, wanted: Mapping[str, str]) -> None:
        """Change these fields of a group and keep the others. Raises HostError."""


class Captured:
    """A NIC from ROOT/dcb/NAME.json of a captured tree. Read-only.

    A group is an object of fields, or a text with the reason why it is missing.
    """

    def __init__(self, path: str, answers: Mapping[str, Any]) -> None:
        self._path = path
        self._answers = answers

    def get(self, group: str) -> Mapping[str, str]:
        answer = self._answers.get(group)
        if answer is None:
            raise HostError("read", self._path, None, f"{group} was not captured")
        if isinstance(answer, str):
            raise MissingError("read", self._path, answer)
        fields: Mapping[str, str] = answer
        return fields

    def set(self, group: str, wanted: Mapping[str, str]) -> None:
        del wanted
        raise HostError(f"set {group} in", self._path, errno.EROFS)
