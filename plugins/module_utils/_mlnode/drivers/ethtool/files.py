# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of NICs as virtual files: /ethtool/NIC/GROUP/FIELD, or a list FIELD,FIELD.

A list's values are on one line in its order, and are written together.

    driver/{driver,version,firmware-version,bus-info}     read-only; one field at a time.
    link/{speed,duplex,autoneg,detected}                  read-only; Mbit/s, half or full, on, off, yes, no.
    ring/{rx,tx,rx-mini,rx-jumbo}                         a number; ring/max/... is read-only.
    channels/{rx,tx,combined,other}                       a number; channels/max/... is read-only.
    coalesce/{adaptive-rx,rx-usecs,rx-frames,...}         a number; adaptive-...: on or off.
    pause/{autoneg,rx,tx}                                 on or off.
    feature/NAME                                          the active state, on or off.
    feature/requested/NAME                                the requested state, if nothing prevents it.
    feature/fixed/NAME                                    read-only; yes or no.
    private-flag/NAME                                     on or off.
    fec/encoding                                          one or more of auto off rs baser llrs.
    fec/active                                            read-only.
    statistic/NAME                                        read-only; the counters of ethtool -S.

Groups that the driver lacks do not exist. All errors are HostErrors.
"""

from __future__ import annotations

import errno
import os
from typing import Callable, Mapping

from ...host import places
from ...host.capability import lacks_net_admin
from ...host.host import Host
from ...model.errors import HostError, MissingError
from ...model.record import regex
from ..nic_files import NicFiles, Place, assigned, captured, must_exist
from .device import GROUPS, Captured, Device, is_errno
from .ioctls import Kernel

#: Names that dev_valid_name() of net/core/dev.c accepts, and their maximum length in bytes
_NIC = regex(r"[^/:\s\0]+\Z")
_NIC_BYTES = 15


def device(host: Host, name: str) -> Device:
    """A network interface. Raises HostError."""
    if host.live:
        return Kernel(name)
    path = f"{places.ETHTOOL}/{name}.json"
    return Captured(captured(host, path, "the settings of this NIC were", is_errno))


class Files(NicFiles):
    """The driver of /ethtool. open_device: returns the device of an interface."""

    GROUPS = GROUPS

    def __init__(self, open_device: Callable[[Host, str], Device] = device) -> None:
        self._open_device = open_device

    def place(self, action: str, path: str) -> Place:
        parts = [part for part in path.split("/") if part][1:]
        nic = parts[0] if parts else ""
        if nic and not _is_nic(nic):
            raise MissingError(action, path, f"{nic!r} cannot be the name of an interface")
        deep = 3 if "/".join(parts[1:3]) in GROUPS else 2
        group, rest = "/".join(parts[1:deep]), parts[deep:]
        fields = tuple(rest[0].split(",")) if rest else ()
        # Texts may contain spaces, so a list of them could not be split.
        single = group not in ("driver", "fec") or len(fields) < 2
        clean = single and "" not in fields and len(set(fields)) == len(fields)
        if len(rest) > 1 or not clean or (group and group not in GROUPS):
            raise MissingError(action, path, f"{path} does not exist")
        return Place(path, nic, group, fields)

    def write(self, host: Host, path: str, value: str) -> None:
        """The driver may accept a value and ignore it: only a read shows the result."""
        action = f"write {value!r} to"
        place = self.file(action, path)
        if closed := _closed(place):
            raise HostError(action, path, None, closed)
        self.answers(host, action, place)
        wanted = assigned(action, place, value.split() if len(place.fields) > 1 else [value.strip()])
        try:
            self._device(host, action, place).set(place.group, wanted)
        except OSError as error:
            raise _failed(action, path, error) from error
        except ValueError as error:
            raise HostError(action, path, None, str(error)) from error

    def blocked(self, host: Host, path: str) -> str:
        """Reason why it cannot be set; "" if it can, or if a read will explain more."""
        try:
            place = self.file("look at", path)
            if closed := _closed(place):
                return closed
            if place.group.startswith("feature"):
                fixed = self.answers(host, "look at", Place(path, place.nic, "feature/fixed", place.fields))
                kept = [field for field in place.fields if fixed[field] == "yes"]
                if kept:
                    return f"{_driver(self._device(host, 'look at', place))} keeps {', '.join(kept)} fixed"
        except HostError:
            return ""
        return lacks_net_admin(host, path)

    def _device(self, host: Host, action: str, place: Place) -> Device:
        # Checked first: for an unknown interface the kernel would load a module of that name
        # (net/core/dev_ioctl.c: dev_load).
        must_exist(host, action, place)
        return self._open_device(host, place.nic)

    def answers(self, host: Host, action: str, place: Place) -> Mapping[str, str]:
        device = self._device(host, action, place)
        group = GROUPS[place.group]
        try:
            answers = device.get(place.group)
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                lack = f"{_driver(device)} has no {group.nouns}"
                raise MissingError(action, place.path, lack) from error
            raise _failed(action, place.path, error) from error
        except ValueError as error:
            raise HostError(action, place.path, None, str(error)) from error
        missing = ", ".join(field for field in place.fields if field not in answers)
        if missing:
            raise MissingError(action, place.path, f"{_driver(device)} has no {group.noun} {missing}")
        return answers


# -- details -------------------------------------------------------------------------------


def _closed(place: Place) -> str:
    """Reason why a field is read-only; "" if it can be set."""
    group = GROUPS[place.group]
    settable = group.settable and not group.read_only.intersection(place.fields)
    return "" if settable else f"{place.path} is read-only"


def _is_nic(name: str) -> bool:
    try:
        return bool(_NIC.match(name)) and len(os.fsencode(name)) <= _NIC_BYTES and name not in (".", "..")
    except UnicodeEncodeError:
        return False


def _failed(action: str, path: str, error: OSError) -> HostError:
    """The error of a failed request.

    Never absent: the interface existed just now, and an absent file would make the record forget its origin.
    """
    problem = HostError(action, path, error.errno, str(error))
    if error.errno == errno.ENODEV:
        cause = "the interface does not answer: it is asleep, being reset, or in another network namespace"
        return HostError(action, path, None, cause)
    return HostError(action, path, None, problem.kernel) if problem.absent else problem


def _driver(device: Device) -> str:
    try:
        return f"the driver {device.get('driver')['driver']}".rstrip()
    except (OSError, ValueError, KeyError):
        return "the driver"
