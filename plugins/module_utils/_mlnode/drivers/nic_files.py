# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Base class of drivers that show settings of NICs as files: /TOP/NIC/GROUP/FIELD, or a list FIELD,FIELD."""

from __future__ import annotations

import errno
import json
from abc import ABC, abstractmethod
from typing import Any, Callable, Collection, Mapping

from ..host.host import Host
from ..model.errors import HostError, MissingError
from ..model.record import NamedTuple

_NETS = "/sys/class/net"

#: Format of captured files: {"format": 1, "answers": {GROUP: {FIELD: VALUE, ...} or a word, ...}}
FORMAT = 1


class Place(NamedTuple):
    """The parts of a path; parts that a folder's path lacks are empty."""

    path: str
    nic: str
    group: str
    fields: tuple[str, ...]


class NicFiles(ABC):
    """A driver for Host.mounts."""

    #: A group within another one has its name as a prefix: ring/max
    GROUPS: Collection[str]

    @abstractmethod
    def place(self, action: str, path: str) -> Place:
        """The parts of a path. Raises MissingError if no NIC can have the path."""

    @abstractmethod
    def answers(self, host: Host, action: str, place: Place) -> Mapping[str, str]:
        """All fields of a group. Raises MissingError if one of the requested fields is missing."""

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
        """False only if the driver reports that it lacks the group; an unreadable group exists."""
        try:
            self.answers(host, "list", Place(place.path, place.nic, group, ()))
        except MissingError:
            return False
        except HostError:
            return True
        return True


def captured(host: Host, path: str, what: str, is_word: Callable[[str], bool]) -> Mapping[str, Any]:
    """Group → answer, from a NIC's file in a captured tree: field texts, or a word if there are none.

    what: describes the content in messages. Raises HostError.
    """
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
    """Field → value. Raises HostError unless there is one value per field."""
    if len(values) != len(place.fields):
        problem = f"{len(place.fields)} values belong here, one for each field"
        raise HostError(action, place.path, None, problem)
    return dict(zip(place.fields, values))


def must_exist(host: Host, action: str, place: Place) -> None:
    """Raises MissingError if the interface does not exist."""
    if place.nic not in _interfaces(host):
        raise MissingError(action, place.path, f"there is no interface {place.nic}")


def _interfaces(host: Host) -> list[str]:
    # bonding_masters is a file of the bonding driver.
    return [name for name in host.names(_NETS) if name != "bonding_masters"]
