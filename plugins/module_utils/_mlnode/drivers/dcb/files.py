# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data center bridging of NICs as virtual files: /dcb/NIC/GROUP/FIELD, or a list FIELD,FIELD.

A list's values are on one line in its order, and are written together.

    pfc/prio-pfc          priorities with PFC, such as 3 or 3,4, or none; pfc/pfc-cap is read-only.
    ets/{prio-tc,tc-tsa,tc-bw}           eight values such as 0/0/0/1/0/0/0/0; ets/ets-cap is read-only.
    buffer/{prio-buffer,buffer-size}     the same, sizes in bytes; buffer/total-size is read-only.
    dscp-prio/{0..63}     the priority of a DSCP, or none.
    trust/state           source of a packet's priority, dscp or pcp.
    dcbx/mode             read-only; host if this machine alone controls it.
    pause/{rx,tx}         on or off: pause frames for all traffic, of a NIC whose ethtool shows PFC as such.
    dcqcn/{state,cnp-dscp}   on or off, and the DSCP of its notifications or none: congestion control that a
                          tool for priorities sets.

Groups that the driver lacks do not exist. All errors are HostErrors.
"""

from __future__ import annotations

import errno
import re
from typing import Callable, Mapping

from ...host import places
from ...host.capability import lacks_net_admin
from ...host.host import Host
from ...model.errors import HostError, MissingError
from ...model.record import regex
from ..nic_files import NicFiles, Place, assigned, captured, must_exist
from . import answers, tools
from .device import CLASSES, DSCPS, GROUPS, NONE, OWN, Captured, Device

#: Names that selection.py accepts; the tools would take other names that the kernel allows for options
_NIC = regex(r"[A-Za-z0-9_.@][A-Za-z0-9_.@-]{0,14}\Z", re.ASCII)


def device(host: Host, name: str) -> Device:
    """A network interface. Raises HostError."""
    if host.live:
        return tools.device(host, name)
    path = f"{places.DCB}/{name}.json"
    return Captured(path, captured(host, path, "data center bridging of this NIC was", bool))


class Files(NicFiles):
    """The driver of /dcb. open_device: returns the device of an interface."""

    GROUPS = {**GROUPS, **OWN}

    def __init__(self, open_device: Callable[[Host, str], Device] = device) -> None:
        self._open_device = open_device

    def place(self, action: str, path: str) -> Place:
        parts = [part for part in path.split("/") if part][1:]
        nic, group, rest = "".join(parts[:1]), "".join(parts[1:2]), parts[2:]
        if nic and (not _NIC.match(nic) or nic in (".", "..")):
            raise MissingError(action, path, f"{nic!r} is not the name of an interface")
        fields = tuple(rest[0].split(",")) if rest else ()
        known = self.GROUPS[group].fields if group in self.GROUPS else ()
        if (
            len(rest) > 1
            or (group and group not in self.GROUPS)
            or any(field not in known for field in fields)
            or len(set(fields)) != len(fields)
        ):
            raise MissingError(action, path, f"{path} does not exist")
        return Place(path, nic, group, fields)

    def write(self, host: Host, path: str, value: str) -> None:
        """The driver may accept a value and ignore it: only a read shows the result."""
        action = f"write {value!r} to"
        place = self.file(action, path)
        if closed := _closed(place):
            raise HostError(action, path, None, closed)
        wanted = assigned(action, place, value.split())
        for field, text in wanted.items():
            if not _fits(place.group, field, text):
                raise HostError(action, path, errno.EINVAL)
        must_exist(host, action, place)
        try:
            self._open_device(host, place.nic).set(place.group, wanted)
        except MissingError as error:  # it existed when it was read
            raise HostError(action, path, None, error.missing) from error

    def blocked(self, host: Host, path: str) -> str:
        """Reason why it cannot be set; "" if it can, or if a read will explain more."""
        try:
            place = self.file("look at", path)
        except HostError:
            return ""
        return _closed(place) or lacks_net_admin(host, path)

    def answers(self, host: Host, action: str, place: Place) -> Mapping[str, str]:
        must_exist(host, action, place)
        if place.group in OWN and not tools.needs_nicctl(host, place.nic):
            raise MissingError(action, place.path, f"{place.nic} has no {OWN[place.group].nouns}")
        fields = self._open_device(host, place.nic).get(place.group)
        missing = ", ".join(field for field in place.fields if field not in fields)
        if missing:  # incomplete capture
            raise HostError(action, place.path, None, f"{missing} was not captured")
        return fields


# -- details -------------------------------------------------------------------------------


def _closed(place: Place) -> str:
    """Reason why a field is read-only; "" if it can be set."""
    return (
        f"{place.path} is read-only" if Files.GROUPS[place.group].read_only.intersection(place.fields) else ""
    )


_EIGHT = regex(r"[0-7](/[0-7]){7}\Z", re.ASCII)
_SIZES = regex(r"[0-9]{1,10}(/[0-9]{1,10}){7}\Z", re.ASCII)
_LIST = regex(r"[0-7](,[0-7])*\Z", re.ASCII)


def _fits(group: str, field: str, text: str) -> bool:
    """False for values that a tool would misinterpret or reject."""
    values = text.split("/")
    if group in ("pfc", "dscp-prio"):
        return text == NONE or bool(_LIST.match(text))
    if field == "cnp-dscp":
        return text == NONE or (text.isdecimal() and text.isascii() and int(text) in DSCPS)
    if group in ("pause", "dcqcn"):
        return text in ("on", "off")
    if group == "trust":
        return text == NONE or all(word in answers.SELECTORS for word in text.split("+"))
    if field == "tc-tsa":
        return len(values) == len(CLASSES) and all(word in answers.TSAS for word in values)
    return bool((_SIZES if field in ("buffer-size", "tc-bw") else _EIGHT).match(text))
