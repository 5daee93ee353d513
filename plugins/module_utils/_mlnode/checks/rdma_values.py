# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parsers for values in a declaration of RDMA devices. Each raises DeclarationError with the key's path."""

from __future__ import annotations

import difflib
import re
from typing import Any, Mapping, Sequence

from ..knobs.nics.schema import INTERFACE
from ..model.errors import DeclarationError
from ..model.record import dataclass, regex
from ..model.schema import Form, Option, one_of, reader
from ..topology import pci
from . import rdma_limits
from .rdma_limits import Limit

#: Generation → Gb/s of one lane as the kernel counts it (drivers/infiniband/core/sysfs.c: rate_show)
LANES = {
    "SDR": 2.5, "DDR": 5, "QDR": 10, "FDR10": 10, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200,
}  # fmt: skip

#: Product names of ports with two lanes
_HALVES = {"HDR100": "HDR", "NDR200": "NDR"}

#: Possible numbers of lanes (enum ib_port_width)
_WIDTHS = (1, 2, 4, 8, 12)
#: Lanes of nearly all ports: QSFP and OSFP cages carry four
_USUAL_WIDTH = 4

LINK_LAYERS = ("InfiniBand", "Ethernet", "Unspecified")
#: Spelled as in gid_attrs/types (drivers/infiniband/core/cache.c: gid_type_str)
GID_TYPES = ("IB/RoCE v1", "RoCE v2")
#: enum ib_mtu
MTUS = (256, 512, 1024, 2048, 4096)
NETNS = ("shared", "exclusive")

#: From the minimum of IPv4 (RFC 791) to the maximum of IPoIB in connected mode
_NETDEV_MTUS = range(68, 65536)
_NUMBER = regex(r"[0-9]{1,10}\Z", re.ASCII)
_HEX = regex(r"0x[0-9a-fA-F]{1,4}\Z", re.ASCII)
_FRACTION = regex(r"[0-9]{1,18}(\.[0-9]{1,18})?([eE]-[0-9]{1,3})?\Z", re.ASCII)
_RATE = regex(r"[0-9]{1,5}(\.[0-9]{1,2})?\Z", re.ASCII)


@dataclass(frozen=True)
class Rate:
    """gbits: of the whole port. generation: "" if only a number was declared."""

    gbits: float
    generation: str = ""

    def __str__(self) -> str:
        number = f"{self.gbits:g} Gb/s"
        return f"{number} ({self.generation})" if self.generation else number

    def of_lanes(self, lanes: int | None) -> float:
        """Gb/s of a generation on this many lanes; None for the usual number of its name."""
        return LANES[self.generation] * lanes if lanes and self.generation else self.gbits


def _slot(text: str) -> str:
    address = pci.normal(text)
    if address is None:
        raise ValueError
    return address


def rate(where: str, raw: Any) -> Rate:
    """A number of Gb/s, or a generation, which means a port with four lanes."""
    text = str(raw)
    if not isinstance(raw, bool) and _RATE.match(text) and float(text) > 0:
        return Rate(float(text))
    word = text.upper()
    if word in _HALVES:
        return Rate(2 * LANES[_HALVES[word]], _HALVES[word])
    if word in LANES:
        return Rate(_USUAL_WIDTH * LANES[word], word)
    raise _bad(where, raw, "a number of Gb/s or one of", (*LANES, *_HALVES))


def width(where: str, raw: Any) -> int:
    """Number of lanes, from 4X or 4."""
    text = str(raw).upper()
    text = text[:-1] if text.endswith("X") else text
    if isinstance(raw, bool) or not _NUMBER.match(text) or int(text) not in _WIDTHS:
        raise _bad(where, raw, "one of", [f"{lanes}X" for lanes in _WIDTHS])
    return int(text)


link_layer = reader(Option("str", form=one_of(*LINK_LAYERS)))
gid_type = reader(Option("str", form=one_of(*GID_TYPES)))
netns = reader(Option("str", form=one_of(*NETNS)))
netdev_mtu = reader(Option("int", least=_NETDEV_MTUS[0], most=_NETDEV_MTUS[-1]))
#: The whole octet of the IP header: 106 is DSCP 26 with ECT(0)
tos = reader(Option("int", least=0, most=255))
netdev = reader(Option("str", form=INTERFACE))
number = reader(Option("int", least=0, most=10**10 - 1))
switch = reader(Option("bool"))
slot = reader(Option("str", form=Form(regex(""), "a PCI address such as 0000:41:00.0, in quotes", _slot)))


def mtu(where: str, raw: Any) -> int:
    size: int = number(where, raw)
    if size not in MTUS:
        raise DeclarationError(
            f"{where}: must be an MTU of RDMA, {', '.join(map(str, MTUS))}, got {raw!r}; declare the "
            "interface's MTU as netdev_mtu"
        )
    return size


def names(where: str, raw: Any) -> tuple[str, ...]:
    """One text, or a list of accepted texts."""
    items = raw if isinstance(raw, list) else [raw]
    if not items or not all(isinstance(item, str) and item.strip() for item in items):
        raise DeclarationError(
            f"{where}: {raw!r} is neither a text nor a list of texts; put versions in quotes"
        )
    return tuple(dict.fromkeys(item.strip() for item in items))


def pkey(where: str, raw: Any) -> int:
    """The partition with its membership bit: 0xffff, or the number that YAML reads from it."""
    text = str(raw)
    key = int(text, 16) if _HEX.match(text) else int(text) if _NUMBER.match(text) else 0
    if isinstance(raw, bool) or not 0 < key < 1 << 16:
        raise DeclarationError(f"{where}: {raw!r} is not a partition key such as 0xffff")
    return key


def ber(where: str, raw: Any) -> dict[str, float]:
    """Highest bit error rates of the given kinds: {effective: 1e-12}."""
    if not isinstance(raw, Mapping) or not raw:
        raise DeclarationError(f"{where}: {raw!r} is not a dictionary such as {{effective: 1e-12}}")
    rates = {}
    for kind, most in raw.items():
        if kind not in rdma_limits.BER:
            raise _bad(where, kind, "one of", tuple(rdma_limits.BER))
        # YAML reads 1e-12 as a text, because it contains no point.
        text = str(most)
        if isinstance(most, bool) or not _FRACTION.match(text) or float(text) >= 1:
            raise DeclarationError(f"{where}.{kind}: {most!r} is not a number below 1 such as 1e-12")
        rates[str(kind)] = float(text)
    return rates


def counters(where: str, raw: Any) -> dict[str, tuple[Limit, ...]]:
    """Counter → its limits, which replace the defaults.

    A number limits the increase since the baseline; false switches the judgement off.
    """
    if not isinstance(raw, Mapping):
        raise DeclarationError(f"{where}: {raw!r} is not a dictionary")
    parsed = {}
    for name, limits in raw.items():
        if name not in rdma_limits.BY_NAME:
            raise _bad(where, name, "a counter; known are", tuple(rdma_limits.BY_NAME))
        parsed[str(name)] = _limits(f"{where}.{name}", limits)
    return parsed


def _limits(where: str, raw: Any) -> tuple[Limit, ...]:
    if raw is False:
        return ()
    if not isinstance(raw, Mapping):
        return (Limit("rise", number(where, raw)),)
    for window in raw:
        if window not in rdma_limits.WINDOWS:
            raise _bad(where, window, "one of", tuple(rdma_limits.WINDOWS))
    if not raw:
        raise DeclarationError(f"{where}: give it one of {', '.join(rdma_limits.WINDOWS)}, or false")
    return tuple(Limit(str(window), number(f"{where}.{window}", most)) for window, most in raw.items())


def _bad(where: str, raw: Any, what: str, known: Sequence[str]) -> DeclarationError:
    near = difflib.get_close_matches(str(raw).lower(), [word.lower() for word in known], 1)
    hint = next((word for word in known if near and word.lower() == near[0]), "")
    reason = f"unknown; did you mean {hint}?" if hint else f"not {what} {', '.join(known)}"
    return DeclarationError(f"{where}: {raw!r} is {reason}")
