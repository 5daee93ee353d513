# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A NIC of this machine, read and set with SIOCETHTOOL, like ethtool(8)."""

from __future__ import annotations

import _socket  # the C part of socket: importing the rest takes as long as starting Python
import array
import errno
import fcntl
import functools
import os
import struct
from typing import Callable, Mapping, Tuple

from ...model.record import NamedTuple
from . import structs, words
from .structs import TABLES, Table

#: include/uapi/linux/sockios.h
SIOCETHTOOL = 0x8946

#: Interface name and request → the kernel's return value, and the changed request. Raises OSError.
Call = Callable[[str, bytes], Tuple[int, bytes]]

#: Bytes of struct ifreq with 64-bit pointers; with 32-bit pointers the kernel reads fewer
_IFREQ = 40


def ioctl(name: str, request: bytes) -> tuple[int, bytes]:
    """One SIOCETHTOOL. Raises OSError."""
    buffer = array.array("B", request)
    address, _length = buffer.buffer_info()
    ifreq = bytearray(struct.pack("@16sP", os.fsencode(name), address).ljust(_IFREQ, b"\0"))
    # Any socket works: requests unknown to a protocol go on to dev_ioctl() (net/socket.c: sock_do_ioctl). The
    # service's sandbox allows this family.
    handle = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
    try:
        returned: int = fcntl.ioctl(handle, SIOCETHTOOL, ifreq, True)
    finally:
        handle.close()
    return returned, buffer.tobytes()


class Features(NamedTuple):
    """size: number of bits in the kernel. By name: bit; active and requested, on or off; fixed, yes or no."""

    size: int
    bits: Mapping[str, int]
    active: Mapping[str, str]
    requested: Mapping[str, str]
    fixed: Mapping[str, str]


class Kernel:
    """See device.Device."""

    def __init__(self, name: str, call: Call = ioctl) -> None:
        self.name = name
        self._call = call

    def get(self, group: str) -> Mapping[str, str]:
        base, _slash, part = group.partition("/")
        if base in TABLES:
            return self._table(TABLES[base], part)
        if base == "feature":
            return self._feature(part)
        ask = {
            "driver": self._driver,
            "link": self._link,
            "private-flag": self._private_flags,
            "fec": self._fec,
            "statistic": self._statistics,
        }
        return ask[base]()

    def set(self, group: str, wanted: Mapping[str, str]) -> None:
        if group in TABLES:
            table = TABLES[group]
            numbers = {field: table.number(field, text) for field, text in wanted.items()}
            self._set(table, {**self._numbers(table), **numbers})
        elif group == "private-flag":
            self._set_private_flags({name: words.is_on(name, text) for name, text in wanted.items()})
        elif group == "fec":
            # active and reserved are 0 in a request (struct ethtool_fecparam).
            self._set(structs.FEC, {"encoding": words.fec_mask(wanted["encoding"])})
        else:
            self._set_features({name: words.is_on(name, text) for name, text in wanted.items()})

    # -- tables of numbers -----------------------------------------------------------------

    def _ask(self, request: bytes) -> bytes:
        return self._call(self.name, request)[1]

    def _numbers(self, table: Table) -> dict[str, int]:
        return table.unpack(self._ask(table.pack(table.get)))

    def _set(self, table: Table, numbers: Mapping[str, int]) -> None:
        self._ask(table.pack(table.set, numbers))

    def _table(self, table: Table, part: str) -> Mapping[str, str]:
        numbers = self._numbers(table)
        fields = {}
        for name in table.fields:
            # A maximum of 0 means that the NIC has none of this kind (net/ethtool/rings.c: rings_fill_reply
            # and channels.c: channels_fill_reply leave it out).
            if "/" not in name and numbers.get(f"max/{name}", 1):
                field = f"{part}/{name}" if part else name
                fields[name] = table.text(field, numbers[field])
        return fields

    # -- the others ------------------------------------------------------------------------

    def _driver(self) -> Mapping[str, str]:
        return structs.unpack_drvinfo(self._ask(structs.pack_drvinfo()))

    def _link(self) -> Mapping[str, str]:
        """Drivers without settings, such as loopback, still report the link."""
        settings: dict[str, str] = {}
        try:
            length = structs.unpack_mask_words(self._ask(structs.pack_link(0)))
            settings.update(structs.unpack_link(self._ask(structs.pack_link(length))))
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
        value = structs.VALUE
        try:
            up = value.unpack(self._ask(value.pack(structs.GLINK)))["data"]
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP or not settings:
                raise
            return settings
        return {**settings, "detected": "yes" if up else "no"}

    def _fec(self) -> Mapping[str, str]:
        numbers = structs.FEC.unpack(self._ask(structs.FEC.pack(structs.FEC.get)))
        modes = {name: words.fec(numbers[name]) for name in ("encoding", "active")}
        # some drivers answer this instead (struct ethtool_fecparam)
        if set(modes.values()) == {words.FEC[0]}:
            raise _unsupported()
        return modes

    def _raw_strings(self, string_set: int) -> bytes:
        # Never ask for the names of an empty set: the kernel warns about it as if it were a kernel bug.
        if not structs.unpack_sset_info(self._ask(structs.pack_sset_info(string_set)), string_set):
            raise _unsupported()
        return self._ask(structs.pack_gstrings(string_set))

    def _private_flags(self) -> Mapping[str, str]:
        mask, bits = self._private_bits()
        return {name: words.switch(bool(mask >> bit & 1)) for name, bit in bits.items()}

    def _private_bits(self) -> tuple[int, dict[str, int]]:
        # The mask has 32 bits.
        names = structs.unpack_gstrings(self._raw_strings(structs.PRIVATE_FLAGS))[:32]
        mask = structs.VALUE.unpack(self._ask(structs.VALUE.pack(structs.GPFLAGS)))["data"]
        return mask, {name: bit for bit, name in enumerate(names) if name}

    def _set_private_flags(self, wanted: Mapping[str, bool]) -> None:
        mask, bits = self._private_bits()
        _known(wanted, bits)
        for name, on in wanted.items():
            mask = mask | 1 << bits[name] if on else mask & ~(1 << bits[name])
        self._set(structs.VALUE, {"data": mask})

    def _statistics(self) -> Mapping[str, str]:
        names = self._raw_strings(structs.STATISTICS)
        counters = structs.unpack_gstats(names, self._ask(structs.pack_gstats()))
        return {name: str(number) for name, number in counters.items() if name}

    # -- features --------------------------------------------------------------------------

    def _features(self) -> Features:
        strings = self._raw_strings(structs.FEATURES)
        return _features(strings, self._ask(structs.pack_gfeatures()))

    def _feature(self, part: str) -> Mapping[str, str]:
        features = self._features()
        return {"": features.active, "requested": features.requested, "fixed": features.fixed}[part]

    def _set_features(self, wanted: Mapping[str, bool]) -> None:
        """A feature that another one prevents stays requested; only a read shows that."""
        features = self._features()
        _known(wanted, features.bits)
        fixed = [name for name in wanted if features.fixed[name] == "yes"]
        if any(features.active[name] != words.switch(wanted[name]) for name in fixed):
            raise _unsupported()
        changing = {features.bits[name]: on for name, on in wanted.items() if name not in fixed}
        if changing:
            returned, _answer = self._call(self.name, structs.pack_sfeatures(features.size, changing))
            if returned & structs.UNSUPPORTED:
                raise _unsupported()


@functools.lru_cache(maxsize=64)
def _features(strings: bytes, state: bytes) -> Features:
    """Cached, because each read of one feature fetches all of them from the kernel."""
    features = structs.unpack_gfeatures(state)
    names = structs.unpack_gstrings(strings)[: len(features)]
    bits = {name: bit for bit, name in enumerate(names) if name}
    return Features(
        len(features),
        bits,
        {name: words.switch(features[bit].active) for name, bit in bits.items()},
        {name: words.switch(features[bit].requested) for name, bit in bits.items()},
        {name: "yes" if features[bit].fixed else "no" for name, bit in bits.items()},
    )


def _known(wanted: Mapping[str, bool], bits: Mapping[str, int]) -> None:
    """Raises OSError for a name that the driver does not know, or no longer knows."""
    if not wanted.keys() <= bits.keys():
        raise _unsupported()


def _unsupported() -> OSError:
    return OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
