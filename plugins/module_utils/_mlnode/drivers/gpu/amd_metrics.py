# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table gpu_metrics of amdgpu: throttling and links.

Layouts: kgd_pp_interface.h of the kernel, gpu_metrics_v1_1 to v1_9. Versions 1.4 and 1.5 have no throttling:
the driver writes 0 there (smu_v13_0_6_ppt.c).
"""

from __future__ import annotations

import struct
from typing import Mapping, Sequence

from ...host.host import Host
from ...model.errors import HostError
from ...model.record import NamedTuple
from .amd_sysfs import path_of

NAME = "gpu_metrics"

#: Fields in the order of the tables of 1.6 to 1.8: cycles of the firmware, and of them the slowed ones
RESIDENCIES = ("prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal")
_CYCLES = "accumulation_counter"
#: amdgpu_smu.h: names of the bits of indep_throttle_status
_BITS: Mapping[int, str] = {
    **dict.fromkeys(range(8), "ppt"),
    **dict.fromkeys(range(16, 24), "current_limit"),
    **dict.fromkeys(range(32, 46), "thermal"),
    46: "prochot",
    47: "prochot",
}
#: Version → offset of the cycles, of the width of XGMI, of the states of its links
_LAYOUTS = {6: (32, 64, None), 7: (40, 72, 264), 8: (40, 72, 264)}
_INDEPENDENT = {3: 112}
#: Values for a field without content
_NONE16, _NONE32 = 0xFFFF, 0xFFFFFFFF
_LINKS = 8
#: States of a link (enum amdgpu_xgmi_link_status); the last one stands for all others
DOWN, UP, UNCLEAR = 0, 1, -1

#: gpu_metrics_v1_9: a list of fields. Each has a word of 64 bits with its type, name and number of values.
_ATTRIBUTES = 9
_SIZES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "Q", 7: "q"}
_NAMES = {
    9: _CYCLES, 10: "prochot", 11: "ppt", 12: "socket_thermal", 13: "vr_thermal", 14: "hbm_thermal",
    18: "xgmi_width", 19: "xgmi_speed", 31: "xgmi_links",
}  # fmt: skip


class Metrics(NamedTuple):
    """cycles: None without residencies. slowed: reason → cycles. active: reasons now, from status bits; None
    if the table has no status. links: DOWN, UP or UNCLEAR, for each XGMI link; empty if none is known. width:
    lanes of XGMI; None if unknown.
    """

    version: str
    cycles: int | None = None
    slowed: Mapping[str, int] = {}
    active: tuple[str, ...] | None = None
    links: tuple[int, ...] = ()
    width: int | None = None


def read(host: Host, address: str) -> Metrics:
    """Raises HostError."""
    path = path_of(address, NAME)
    return parse(path, host.read_bytes(path))


def parse(path: str, table: bytes) -> Metrics:
    """Raises HostError for a table that is short or of an unknown version."""
    if len(table) < 4:
        raise HostError("understand", path, None, f"it has {len(table)} bytes")
    size, form, content = struct.unpack_from("<HBB", table)
    version = f"{form}.{content}"
    if len(table) < size or size < 4:
        raise HostError("understand", path, None, f"it has {len(table)} bytes of the {size} that it names")
    if form != 1 or content not in (*_LAYOUTS, *_INDEPENDENT, _ATTRIBUTES, 4, 5):
        raise HostError("understand", path, None, f"version {version} is not known here")
    try:
        if content == _ATTRIBUTES:
            return _listed(version, table)
        if content in _INDEPENDENT:
            return _status(version, *struct.unpack_from("<Q", table[:size], _INDEPENDENT[content]))
        return (
            _laid_out(version, table[:size], *_LAYOUTS[content]) if content in _LAYOUTS else Metrics(version)
        )
    except (struct.error, KeyError) as error:
        raise HostError("understand", path, None, f"version {version}: {error}") from error


def _status(version: str, bits: int) -> Metrics:
    if bits == (1 << 64) - 1:
        return Metrics(version)
    names = [_BITS.get(bit, f"bit {bit}") for bit in range(64) if bits >> bit & 1]
    return Metrics(version, active=tuple(dict.fromkeys(names)))


def _laid_out(version: str, table: bytes, cycles: int, width: int, links: int | None) -> Metrics:
    counts = struct.unpack_from("<6I", table, cycles)
    states = struct.unpack_from(f"<{_LINKS}H", table, links) if links is not None else ()
    [lanes] = struct.unpack_from("<H", table, width)
    return _made(version, dict(zip((_CYCLES, *RESIDENCIES), counts)), lanes, states)


def _listed(version: str, table: bytes) -> Metrics:
    """Fields of the table 1.9. The values of a field follow its word without padding."""
    [count] = struct.unpack_from("<i", table, 4)
    at, fields = 8, {}
    for _field in range(count):
        [word] = struct.unpack_from("<Q", table, at)
        number, form = word & 0x3FF, f"<{word & 0x3FF}{_SIZES[word >> 20 & 0xF]}"
        values = struct.unpack_from(form, table, at + 8)
        at += 8 + struct.calcsize(form)
        name = _NAMES.get(word >> 10 & 0x3FF)
        if name and number:
            fields[name] = values
    first = {name: values[0] for name, values in fields.items()}
    return _made(version, first, first.get("xgmi_width", _NONE16), fields.get("xgmi_links", ()))


def _made(version: str, counts: Mapping[str, int], lanes: int, states: Sequence[int]) -> Metrics:
    known = {name: counts[name] for name in RESIDENCIES if counts.get(name, _NONE32) & _NONE32 != _NONE32}
    cycles = counts.get(_CYCLES, _NONE32)
    # Without any cycles the firmware does not count, as in a guest.
    if cycles & _NONE32 in (0, _NONE32) or len(known) < len(RESIDENCIES):
        return Metrics(version, links=_known(states), width=None if lanes == _NONE16 else lanes)
    return Metrics(version, cycles, known, None, _known(states), None if lanes == _NONE16 else lanes)


def _known(states: Sequence[int]) -> tuple[int, ...]:
    """2 and all ones mean unknown."""
    known = tuple(state if state in (DOWN, UP) else UNCLEAR for state in states)
    return () if {*known} == {UNCLEAR} else known
