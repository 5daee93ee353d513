# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Base of the drivers that show settings of NICs as files: /TOP/NIC/GROUP/FIELD, or a list FIELD,FIELD."""

from __future__ import annotations

import errno
import json
from abc import ABC, abstractmethod
from typing import Any, Callable, Collection, Mapping

from ..host.host import Host
from ..model.errors import HostError, MissingError
from ..model.record import NamedTuple

_NETS = "/sys/class/net"

#: Of captured files: {"format": 1, "answers": {GROUP: {FIELD: VALUE, ...} or a word, ...}}
FORMAT = 1


class Place(NamedTuple):
    """A path taken apart; what a folder leaves open is empty."""

    path: str
    nic: str
    group: str
    fields: tuple[str, ...]


class NicFiles(ABC):
    """A driver, as Host.mounts takes it."""

    #: A group below another one has its name in front: ring/max
    GROUPS: Collection[str]

    @abstractmethod
    def place(self, action: str, path: str) -> Place:
        """Raises MissingError for what can be no path of a NIC."""

    @abstractmethod
    def answers(self, host: Host, action: str, place: Place) -> Mapping[str, str]:
        """All fields of a group. Raises MissingError where one of those asked for is not there."""

    def file(self, action: str, path: str) -> Place:
        place = self.place(action, path)
        if not place.fields:
            raise HostError(action, path, errno.EISDIR)
        return place

    def read(self, host: Host, path: str) -> bytes:
        place = self.file("read", path)
        answers = self.answers(host, "read", place)
        return (" ".join(answers[field] for field in place.fields) + "\n").encode("utf-8", "surrogateescape")

    def names(self, host: Host, path: str) -> list[str]:
        try:
            place = self.place("list", path)
            if not place.nic:
                return _interfaces(host)
            must_exist(host, "list", place)
            if not place.group:
                return [
                    name for name in sorted(self.GROUPS) if "/" not in name and self._has(host, place, name)
                ]
            if place.fields:
                return []
            inner = [name.partition("/")[2] for name in self.GROUPS if name.startswith(f"{place.group}/")]
            return sorted([*inner, *self.answers(host, "list", place)])
        except MissingError:
            return []

    def exists(self, host: Host, path: str) -> bool:
        try:
            place = self.place("look at", path)
            if place.group:
                self.answers(host, "look at", place)
            elif place.nic:
                must_exist(host, "look at", place)
        except MissingError:
            return False
        return True

    def _has(self, host: Host, place: Place, group: str) -> bool:
        """False only where the driver reports that it has no such group; an unreadable one is there."""
        try:
            self.answers(host, "list", Place(place.path, place.nic, group, ()))
        except MissingError:
            return False
        except HostError:
            return True
        return True


def captured(host: Host, path: str, what: str, is_word: Callable[[str], bool]) -> Mapping[str, Any]:
    """Group → answer, of the file of a captured tree for a NIC: the texts of its fields, or a word that says
    why there are none. what: words for what it holds. Raises HostError."""
    try:
        document = json.loads(host.stored(path))
        if document["format"] != FORMAT:
            raise ValueError(f"its format is {document['format']!r} and not {FORMAT}")
        answers: dict[str, Any] = document["answers"]
        for answer in answers.values():
            if not is_word(answer) if isinstance(answer, str) else not _are_texts(answer):
                raise ValueError(f"an answer is {str(answer)[:40]!r}")
    except HostError as error:
        if not error.absent:
            raise
        raise HostError("read", path, None, f"{what} not captured") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        problem = f"damaged ({type(error).__name__}: {str(error)[:100]}): capture the NIC again"
        raise HostError("read", path, None, problem) from error
    return answers


def _are_texts(answer: Any) -> bool:
    return isinstance(answer, dict) and all(isinstance(value, str) for value in answer.values())


def assigned(action: str, place: Place, values: list[str]) -> dict[str, str]:
    """Field → value. Raises HostError where there is not one for each."""
    if len(values) != len(place.fields):
        problem = f"{len(place.fields)} values belong here, one for each field"
        raise HostError(action, place.path, None, problem)
    return dict(zip(place.fields, values))


def must_exist(host: Host, action: str, place: Place) -> None:
    """Raises MissingError for an interface that is not there."""
    if place.nic not in _interfaces(host):
        raise MissingError(action, place.path, f"there is no interface {place.nic}")


def _interfaces(host: Host) -> list[str]:
    # bonding_masters is a file of the bonding driver among them.
    return [name for name in host.names(_NETS) if name != "bonding_masters"]
