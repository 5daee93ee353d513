# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data center bridging of NICs as if the kernel had files for it: /dcb/NIC/GROUP/FIELD, or a list
FIELD,FIELD, whose values stand in one line in that order and are written in one go.

    pfc/prio-pfc          priorities with PFC, such as 3 or 3,4, or none; pfc/pfc-cap is read-only
    ets/{prio-tc,tc-tsa,tc-bw}           eight values such as 0/0/0/1/0/0/0/0; ets/ets-cap is read-only
    buffer/{prio-buffer,buffer-size}     the same, sizes in bytes; buffer/total-size is read-only
    dscp-prio/{0..63}     the priority of a DSCP, or none
    trust/state           what a packet's priority is taken from, dscp or pcp
    dcbx/mode             read-only; host where this machine alone sets all of it

What a driver does not have is not there. Nothing but HostError is raised.
"""

from __future__ import annotations

import errno
import re
from typing import Callable, Mapping

from ...host.capability import lacks_net_admin
from ...host.host import Host
from ...model.errors import HostError, MissingError
from ...model.record import NamedTuple, regex
from . import TOP, answers, tools
from .device import CLASSES, GROUPS, NONE, Captured, Device

_NETS = "/sys/class/net"

#: As selection.py takes names; what else the kernel takes would be taken for an option by the tools
_NIC = regex(r"[A-Za-z0-9_.@][A-Za-z0-9_.@-]{0,14}\Z", re.ASCII)


class _Place(NamedTuple):
    """A path taken apart; what a folder leaves open is empty."""

    path: str
    nic: str
    group: str
    fields: tuple[str, ...]

    @property
    def read_only(self) -> str:
        """Reason why it takes no value; empty if it does."""
        if GROUPS[self.group].read_only.intersection(self.fields):
            return f"{self.path} is read-only"
        return ""


def device(host: Host, name: str) -> Device:
    """A network interface. Raises HostError."""
    return tools.of(host, name) if host.live else _captured(host, name)


def _captured(host: Host, name: str) -> Device:
    """The file of a captured tree that device.capture() filled."""
    path = f"{TOP}/{name}.json"
    try:
        return Captured.of(path, host.stored(path))
    except HostError as error:
        if not error.absent:
            raise
        raise HostError("read", path, None, "data center bridging of this NIC was not captured") from error


class Files:
    """The driver of TOP. of: who answers for an interface."""

    def __init__(self, of: Callable[[Host, str], Device] = device) -> None:
        self._of = of

    def read(self, host: Host, path: str) -> bytes:
        place = _file("read", path)
        fields = self._fields(host, "read", place)
        return (" ".join(fields[field] for field in place.fields) + "\n").encode("utf-8", "surrogateescape")

    def write(self, host: Host, path: str, value: str) -> None:
        """The driver may accept a value and ignore it: only a read shows that."""
        action = f"write {value!r} to"
        place = _file(action, path)
        if place.read_only:
            raise HostError(action, path, None, place.read_only)
        values = value.split()
        if len(values) != len(place.fields):
            raise HostError(action, path, None, f"{len(place.fields)} values belong here, one for each field")
        wanted = dict(zip(place.fields, values))
        for field, text in wanted.items():
            if not _fits(place.group, field, text):
                raise HostError(action, path, errno.EINVAL)
        _must_exist(host, action, place)
        try:
            self._of(host, place.nic).set(place.group, wanted)
        except MissingError as error:  # it was there when it was read
            raise HostError(action, path, None, error.missing) from error

    def names(self, host: Host, path: str) -> list[str]:
        try:
            place = _place("list", path)
            if not place.nic:
                return _interfaces(host)
            _must_exist(host, "list", place)
            if not place.group:
                return [group for group in sorted(GROUPS) if self._has(host, place, group)]
            return [] if place.fields else list(self._fields(host, "list", place))
        except MissingError:
            return []

    def exists(self, host: Host, path: str) -> bool:
        try:
            place = _place("look at", path)
            if place.group:
                self._fields(host, "look at", place)
            elif place.nic:
                _must_exist(host, "look at", place)
        except MissingError:
            return False
        return True

    def blocked(self, host: Host, path: str) -> str:
        """Reason why it cannot be set; empty if it can, or where a read has more to say."""
        try:
            place = _file("look at", path)
        except HostError:
            return ""
        return place.read_only or lacks_net_admin(host, path)

    def _fields(self, host: Host, action: str, place: _Place) -> Mapping[str, str]:
        _must_exist(host, action, place)
        fields = self._of(host, place.nic).get(place.group)
        missing = ", ".join(field for field in place.fields if field not in fields)
        if missing:  # of a captured file
            raise HostError(action, place.path, None, f"{missing} was not captured")
        return fields

    def _has(self, host: Host, place: _Place, group: str) -> bool:
        """False only where the driver reports that it has no such group; an unreadable one is there."""
        try:
            self._fields(host, "list", _Place(place.path, place.nic, group, ()))
        except MissingError:
            return False
        except HostError:
            return True
        return True


# -- details -------------------------------------------------------------------------------


def _place(action: str, path: str) -> _Place:
    """Raises MissingError for what can be no path of a NIC."""
    parts = [part for part in path.split("/") if part][1:]
    nic, group, rest = "".join(parts[:1]), "".join(parts[1:2]), parts[2:]
    if nic and (not _NIC.match(nic) or nic in (".", "..")):
        raise MissingError(action, path, f"{nic!r} is not the name of an interface")
    fields = tuple(rest[0].split(",")) if rest else ()
    known = GROUPS[group].fields if group in GROUPS else ()
    if (
        len(rest) > 1
        or (group and group not in GROUPS)
        or any(field not in known for field in fields)
        or len(set(fields)) != len(fields)
    ):
        raise MissingError(action, path, f"{path} does not exist")
    return _Place(path, nic, group, fields)


def _file(action: str, path: str) -> _Place:
    place = _place(action, path)
    if not place.fields:
        raise HostError(action, path, errno.EISDIR)
    return place


def _interfaces(host: Host) -> list[str]:
    # bonding_masters is a file of the bonding driver among them.
    return [name for name in host.names(_NETS) if name != "bonding_masters"]


def _must_exist(host: Host, action: str, place: _Place) -> None:
    """Raises MissingError for an interface that is not there."""
    if place.nic not in _interfaces(host):
        raise MissingError(action, place.path, f"there is no interface {place.nic}")


_EIGHT = regex(r"[0-7](/[0-7]){7}\Z", re.ASCII)
_SIZES = regex(r"[0-9]{1,10}(/[0-9]{1,10}){7}\Z", re.ASCII)
_LIST = regex(r"[0-7](,[0-7])*\Z", re.ASCII)


def _fits(group: str, field: str, text: str) -> bool:
    """False for what a tool would take for something else, or not at all."""
    values = text.split("/")
    if group in ("pfc", "dscp-prio"):
        return text == NONE or bool(_LIST.match(text))
    if group == "trust":
        return text == NONE or all(word in answers.SELECTORS for word in text.split("+"))
    if field == "tc-tsa":
        return len(values) == len(CLASSES) and all(word in answers.TSAS for word in values)
    return bool((_SIZES if field in ("buffer-size", "tc-bw") else _EIGHT).match(text))
