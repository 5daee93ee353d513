# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The structures of include/uapi/linux/ethtool.h as bytes. Pure functions, in the machine's byte order.

Answers come from the driver and are not trusted: a length or text that does not fit is an AnswerError.
"""

from __future__ import annotations

import re
import struct
from typing import Any, Mapping, Sequence

from ...model.record import NamedTuple, regex
from . import words

# Commands of structures that are not tables of numbers
GDRVINFO, GLINK, GSTRINGS, GSTATS, GPFLAGS, SPFLAGS = 0x03, 0x0A, 0x1B, 0x1D, 0x27, 0x28
GSSET_INFO, GFEATURES, SFEATURES, GLINKSETTINGS, GFECPARAM, SFECPARAM = 0x37, 0x3A, 0x3B, 0x4C, 0x50, 0x51

#: enum ethtool_stringset
STATISTICS, PRIVATE_FLAGS, FEATURES = 1, 2, 4

#: Returned by SFEATURES if the driver cannot change one of the features (ETHTOOL_F_UNSUPPORTED)
UNSUPPORTED = 0x1

#: Largest number in each of these structures
MAX_NUMBER = 0xFFFFFFFF

#: More strings than any driver has in the sets read here: 32 private flags, and one name per feature bit
MAX_STRINGS = 1024
#: mlx5 with 128 channels has about 8000: a few dozen per channel
MAX_STATISTICS = 1 << 15
_STRING_LEN = 32  # ETH_GSTRING_LEN

#: Blocks of 32 features. The kernel has two, or three since feature bits ran out (ETHTOOL_DEV_FEATURE_WORDS)
_MAX_BLOCKS = 32

#: A name that can be part of a path and of a list with commas. Empty: a bit without a name
_NAME = regex(r"[ -+.0-~-]*\Z", re.ASCII)

_SSET_INFO = struct.Struct("=IIQI")
_GSTRINGS = struct.Struct("=III")
_DRVINFO = struct.Struct("=I32s32s32s32s32s12s5I")
#: struct ethtool_link_settings: field 1 is the speed, 2 the duplex mode, 5 autonegotiation, 9 the length of a
#: mask in words
_LINK = struct.Struct("=IIBBBBBBBb4B28x")
_HEAD = struct.Struct("=II")
_GET_BLOCK = struct.Struct("=IIII")
_SET_BLOCK = struct.Struct("=II")

_INT_MAX = 0x7FFFFFFF


class AnswerError(ValueError):
    """A driver's answer that contradicts itself."""


def _checked(layout: struct.Struct, data: bytes) -> tuple[Any, ...]:
    if len(data) < layout.size:
        raise AnswerError(f"the driver's answer has {len(data)} bytes where {layout.size} belong")
    return layout.unpack_from(data)


class Table(NamedTuple):
    """A structure of 32-bit numbers after its command.

    fields: names of ethtool(8), a maximum with the prefix `max/`. switches: fields that are on or off.
    """

    get: int
    set: int
    fields: tuple[str, ...]
    switches: frozenset[str] = frozenset()

    def pack(self, command: int, numbers: Mapping[str, int] | None = None) -> bytes:
        values = numbers or {}
        return struct.pack(
            f"={1 + len(self.fields)}I", command, *(values.get(name, 0) for name in self.fields)
        )

    def unpack(self, data: bytes) -> dict[str, int]:
        """Raises AnswerError."""
        numbers = _checked(struct.Struct(f"={1 + len(self.fields)}I"), data)
        return dict(zip(self.fields, numbers[1:]))

    def text(self, field: str, number: int) -> str:
        return words.switch(number != 0) if field in self.switches else str(number)

    def number(self, field: str, text: str) -> int:
        """The number of a field. Raises ValueError with a message for an operator."""
        if field in self.switches:
            return int(words.is_on(field, text))
        if not re.match(r"[0-9]{1,10}\Z", text, re.ASCII) or int(text) > MAX_NUMBER:
            raise ValueError(f"{field} is a whole number from 0 to {MAX_NUMBER}, not {text!r}")
        return int(text)


_RINGS = ("rx", "rx-mini", "rx-jumbo", "tx")
_CHANNELS = ("rx", "tx", "other", "combined")
_PAUSE = ("autoneg", "rx", "tx")

#: Group → struct ethtool_ringparam, ethtool_channels, ethtool_coalesce, ethtool_pauseparam
TABLES = {
    "ring": Table(0x10, 0x11, (*(f"max/{name}" for name in _RINGS), *_RINGS)),
    "channels": Table(0x3C, 0x3D, (*(f"max/{name}" for name in _CHANNELS), *_CHANNELS)),
    "coalesce": Table(
        0x0E,
        0x0F,
        (
            "rx-usecs", "rx-frames", "rx-usecs-irq", "rx-frames-irq",
            "tx-usecs", "tx-frames", "tx-usecs-irq", "tx-frames-irq",
            "stats-block-usecs", "adaptive-rx", "adaptive-tx",
            "pkt-rate-low", "rx-usecs-low", "rx-frames-low", "tx-usecs-low", "tx-frames-low",
            "pkt-rate-high", "rx-usecs-high", "rx-frames-high", "tx-usecs-high", "tx-frames-high",
            "sample-interval",
        ),
        frozenset({"adaptive-rx", "adaptive-tx"}),
    ),
    "pause": Table(0x12, 0x13, _PAUSE, frozenset(_PAUSE)),
}  # fmt: skip

#: struct ethtool_value, and struct ethtool_fecparam for both reading and setting
VALUE = Table(GPFLAGS, SPFLAGS, ("data",))
FEC = Table(GFECPARAM, SFECPARAM, ("active", "encoding", "reserved"))


# -- strings -------------------------------------------------------------------------------


def pack_sset_info(string_set: int) -> bytes:
    return _SSET_INFO.pack(GSSET_INFO, 0, 1 << string_set, 0)


def _room(string_set: int) -> int:
    return MAX_STATISTICS if string_set == STATISTICS else MAX_STRINGS


def unpack_sset_info(data: bytes, string_set: int = PRIVATE_FLAGS) -> int:
    """Number of strings; 0 if the driver lacks the set. Raises AnswerError."""
    _command, _reserved, mask, count = _checked(_SSET_INFO, data)
    if mask and count > _room(string_set):
        raise AnswerError(
            f"the driver says that it has {count} names, where {_room(string_set)} are too many"
        )
    return count if mask else 0


def pack_gstrings(string_set: int) -> bytes:
    """Request with room for the largest possible answer.

    The kernel writes all current names and does not check the room (net/ethtool/ioctl.c:
    ethtool_get_strings).
    """
    return _GSTRINGS.pack(GSTRINGS, string_set, 0) + bytes(_room(string_set) * _STRING_LEN)


def unpack_gstrings(data: bytes) -> list[str]:
    """The names, in the order of their bits. Raises AnswerError."""
    return [_name(raw) for raw in _strings(data)]


def _strings(data: bytes) -> list[bytes]:
    _command, _set, count = _checked(_GSTRINGS, data)
    if _GSTRINGS.size + count * _STRING_LEN > len(data):
        raise AnswerError(f"the driver says that it has {count} names, which it has not sent")
    starts = range(_GSTRINGS.size, _GSTRINGS.size + count * _STRING_LEN, _STRING_LEN)
    return [data[start : start + _STRING_LEN] for start in starts]


def _name(raw: bytes) -> str:
    text, end, _rest = raw.partition(b"\0")
    name = text.decode("latin-1")
    if not end or not _NAME.match(name) or name in (".", ".."):
        raise AnswerError(f"the driver names something {name!a}, which is not a name")
    return name


# -- statistics ----------------------------------------------------------------------------


def pack_gstats() -> bytes:
    """Request with room for all, as for strings (net/ethtool/ioctl.c: ethtool_get_stats)."""
    return _HEAD.pack(GSTATS, 0) + bytes(MAX_STATISTICS * 8)


def unpack_gstats(names: bytes, values: bytes) -> dict[str, int]:
    """Statistics from the answers to both requests. Raises AnswerError.

    Drivers choose the names freely: a name that cannot be part of a path is left out.
    """
    raw = _strings(names)
    _command, count = _checked(_HEAD, values)
    if count != len(raw) or _HEAD.size + count * 8 > len(values):
        raise AnswerError(f"the driver says that it has {count} statistics, and names {len(raw)}")
    numbers = struct.unpack_from(f"={count}Q", values, _HEAD.size)
    texts = [text.partition(b"\0")[0].decode("latin-1") for text in raw]
    return {text: number for text, number in zip(texts, numbers) if _NAME.match(text)}


# -- driver and link -----------------------------------------------------------------------


def pack_drvinfo() -> bytes:
    return _DRVINFO.pack(GDRVINFO, *[b""] * 6, *[0] * 5)


def unpack_drvinfo(data: bytes) -> dict[str, str]:
    """Fields by ethtool's names. Raises AnswerError."""
    names = ("driver", "version", "firmware-version", "bus-info")
    return {name: _shown(raw) for name, raw in zip(names, _checked(_DRVINFO, data)[1:])}


def _shown(raw: bytes) -> str:
    """A text for display only: some drivers fill the whole field and leave no room for a NUL."""
    text = raw.partition(b"\0")[0].decode("ascii", "replace")
    return "".join(char if char.isprintable() else "?" for char in text).strip()


def pack_link(mask_words: int) -> bytes:
    """mask_words: length of a mask of link modes; 0 asks the kernel for it."""
    return _LINK.pack(GLINKSETTINGS, *[0] * 8, mask_words, *[0] * 4) + bytes(3 * 4 * mask_words)


def unpack_mask_words(data: bytes) -> int:
    """Length from the answer to pack_link(0), a negative number there. Raises AnswerError."""
    length: int = -_checked(_LINK, data)[9]
    if length <= 0:
        raise AnswerError(f"the kernel says that a mask of link modes has {length} words")
    return length


def unpack_link(data: bytes) -> dict[str, str]:
    """Speed in Mbit/s, duplex, autonegotiation. Raises AnswerError."""
    fields = _checked(_LINK, data)
    speed = fields[1]
    return {
        "speed": str(speed) if 0 < speed <= _INT_MAX else "unknown",
        "duplex": {0: "half", 1: "full"}.get(fields[2], "unknown"),
        "autoneg": words.switch(fields[5] != 0),
    }


# -- features ------------------------------------------------------------------------------


class Feature(NamedTuple):
    """The four bits of struct ethtool_get_features_block."""

    available: bool
    requested: bool
    active: bool
    never_changed: bool

    @property
    def fixed(self) -> bool:
        """True if ethtool shows `[fixed]`: the feature can never be changed, or not with this driver."""
        return self.never_changed or not self.available


def pack_gfeatures() -> bytes:
    return _HEAD.pack(GFEATURES, _MAX_BLOCKS) + bytes(_MAX_BLOCKS * _GET_BLOCK.size)


def unpack_gfeatures(data: bytes) -> list[Feature]:
    """One feature for each bit of the kernel's blocks. Raises AnswerError."""
    _command, blocks = _checked(_HEAD, data)
    if not 0 < blocks <= _MAX_BLOCKS or _HEAD.size + blocks * _GET_BLOCK.size > len(data):
        raise AnswerError(f"the kernel says that it has {blocks} blocks of features")
    features = []
    for block in range(blocks):
        bits = _GET_BLOCK.unpack_from(data, _HEAD.size + block * _GET_BLOCK.size)
        features += [Feature(*(bool(part >> bit & 1) for part in bits)) for bit in range(32)]
    return features


def pack_sfeatures(bits: int, wanted: Mapping[int, bool]) -> bytes:
    """bits: the kernel's number; it accepts no other number of blocks. wanted: bit → on or off."""
    packed = [_HEAD.pack(SFEATURES, bits // 32)]
    for first in range(0, bits, 32):
        block = {bit - first: on for bit, on in wanted.items() if first <= bit < first + 32}
        packed.append(_SET_BLOCK.pack(_mask(list(block)), _mask([bit for bit, on in block.items() if on])))
    return b"".join(packed)


def _mask(bits: Sequence[int]) -> int:
    return sum(1 << bit for bit in bits)
