# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declared expectations of PCIe, GPUDirect and locked memory, checked.

Each function raises DeclarationError with the path of its key. Keys of a device (DEVICE_KEYS) and their
defaults:

    pcie              max: the most that both ends of the link support. Or {speed: 32, width: 16}, a minimum;
                      either key may be omitted.
    mrrs              4096, the largest possible read request: fewer requests for the same data. Vendors of
                      NICs advise it; the kernel keeps 512.
    ats               auto: off on bare metal, because asking the IOMMU for addresses only takes time. In a
                      virtual machine the platform decides. Or on, off.
    relaxed_ordering  on: without it, writes of a NIC wait for each other at the root port.

Keys of the node (NODE_KEYS) and their defaults:

    acs               auto: on bare metal no redirection between a GPU and its NIC, and with Data Direct the
                      required bits. The platform decides in a virtual machine, and on a host that passes
                      devices through to one. Or on, off.
    iommu             auto: off or identity, because GPUDirect RDMA needs physical bus addresses. In a
                      virtual machine the platform decides. Or off, identity.
    gpudirect         auto: either way. Or peermem, dmabuf.
    memlock           unlimited, because every registered buffer is locked memory. Or a number of bytes.

A deviation from a declaration fails. A deviation from a default that only costs speed warns.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Mapping

from ..model.errors import DeclarationError
from ..model.record import dataclass, regex
from ..model.schema import Option, one_of, reader

#: Bytes of a read request (PCI Express Base Specification, Device Control Register)
READ_REQUESTS = (128, 256, 512, 1024, 2048, 4096)

#: Generation → GT/s, and lanes of a link (PCI Express Base Specification)
_GENERATIONS = {"1": 2.5, "2": 5.0, "3": 8.0, "4": 16.0, "5": 32.0, "6": 64.0}
_LANES = (1, 2, 4, 8, 12, 16, 32)

_NUMBER = regex(r"[0-9]{1,18}\Z", re.ASCII)
_SPEED = regex(r"([0-9]{1,2}(?:\.[05])?)(?: GT/s(?: PCIe)?)?\Z", re.ASCII)
_GENERATION = regex(r"gen ?([1-6])\Z", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class LinkWanted:
    """Minimum of a link, in GT/s and lanes; 0 means the most that both ends support."""

    speed: float = 0.0
    width: int = 0


@dataclass(frozen=True)
class Bytes:
    """An amount of memory; None is unlimited."""

    number: int | None = None

    def __str__(self) -> str:
        return "unlimited" if self.number is None else f"{self.number} bytes"


def link(where: str, raw: Any) -> LinkWanted:
    if raw == "max":
        return LinkWanted()
    if not isinstance(raw, Mapping) or not raw or set(raw) - {"speed", "width"}:
        raise DeclarationError(
            f"{where}: {raw!r} is neither max nor a dictionary such as {{speed: 32, width: 16}}"
        )
    return LinkWanted(
        speed=_speed(f"{where}.speed", raw["speed"]) if raw.get("speed") is not None else 0.0,
        width=_width(f"{where}.width", raw["width"]) if raw.get("width") is not None else 0,
    )


def _speed(where: str, raw: Any) -> float:
    text = str(raw)
    generation, number = _GENERATION.match(text), _SPEED.match(text)
    if generation and not isinstance(raw, bool):
        return _GENERATIONS[generation.group(1)]
    if number and not isinstance(raw, bool) and float(number.group(1)) in _GENERATIONS.values():
        return float(number.group(1))
    speeds = ", ".join(f"{speed:g}" for speed in _GENERATIONS.values())
    raise DeclarationError(f"{where}: must be one of {speeds} (GT/s) or gen1 to gen6, got {raw!r}")


def _width(where: str, raw: Any) -> int:
    text = str(raw)
    text = text[1:] if text.startswith("x") else text
    if isinstance(raw, bool) or not _NUMBER.match(text) or int(text) not in _LANES:
        widths = ", ".join(f"x{lanes}" for lanes in _LANES)
        raise DeclarationError(f"{where}: must be one of {widths}, got {raw!r}")
    return int(text)


def memlock(where: str, raw: Any) -> Bytes:
    if raw == "unlimited":
        return Bytes()
    if isinstance(raw, bool) or not _NUMBER.match(str(raw)):
        raise DeclarationError(f"{where}: {raw!r} is neither unlimited nor a number of bytes")
    return Bytes(int(str(raw)))


def _words(*known: str) -> Callable[[str, Any], Any]:
    return reader(Option("raw", form=one_of(*known)))


DEVICE_KEYS: Mapping[str, Callable[[str, Any], Any]] = {
    "pcie": link,
    "mrrs": reader(Option("int", choices=READ_REQUESTS)),
    "ats": _words("auto", "on", "off"),
    "relaxed_ordering": _words("on", "off"),
}
NODE_KEYS: Mapping[str, Callable[[str, Any], Any]] = {
    "acs": _words("auto", "on", "off"),
    "iommu": _words("auto", "off", "identity"),
    "gpudirect": _words("auto", "peermem", "dmabuf"),
    "memlock": memlock,
}
DEFAULTS: Mapping[str, Any] = {
    "pcie": LinkWanted(),
    "mrrs": READ_REQUESTS[-1],
    "ats": "auto",
    "relaxed_ordering": "on",
    "acs": "auto",
    "iommu": "auto",
    "gpudirect": "auto",
    "memlock": Bytes(),
}


def wanted(expect: Mapping[str, Any], key: str) -> tuple[Any, bool]:
    """The expected value, and True if it was declared, False if it is from DEFAULTS."""
    return expect.get(key, DEFAULTS[key]), key in expect
