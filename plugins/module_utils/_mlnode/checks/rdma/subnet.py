# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Assignments of the subnet manager to an InfiniBand port: its address, and the partitions it is in."""

from __future__ import annotations

import re

from ...host.host import Host
from ...model.errors import HostError
from ...model.record import regex
from ...model.setting import Value
from ...topology.model import Topology
from ...topology.reader import integer
from ..expect import Expectations
from ..model import Check, Verdict, judged, skip
from . import ports
from .ports import INFINIBAND, Port, nothing

NAMES = ("subnet", "pkey")

#: The bit that makes a port a full member: two limited ones cannot talk to each other (InfiniBand
#: Architecture Specification, 10.9.1.1)
_FULL = 0x8000

_HEX = regex(r"0x[0-9a-fA-F]{1,8}\Z", re.ASCII)

_NO_SM = "no subnet manager has set the port up: look whether one runs (sminfo), and at its log"


def checks(host: Host, topology: Topology, expect: Expectations) -> list[Check]:
    checks = []
    for port in ports.subjects(topology, expect).ports:
        if port.layer == INFINIBAND:
            checks += [_subnet(host, port), _pkey(host, port)]
        else:
            checks += [
                skip(name, port.name, "no InfiniBand port", f"{port.folder}/link_layer") for name in NAMES
            ]
    return checks


def _subnet(host: Host, port: Port) -> Check:
    expected, texts = "lid and sm_lid", []
    for name in ("lid", "sm_lid"):
        path = f"{port.folder}/{name}"
        number, value = _read(host, path)
        if number is None:
            return nothing("subnet", port.name, value, path, expected)
        texts.append((name, number))
    found = ", ".join(f"{name} {number:#x}" for name, number in texts)
    good = all(number for _name, number in texts)
    return judged("subnet", port.name, good, expected, found, f"{port.folder}/lid", _NO_SM)


def _pkey(host: Host, port: Port) -> Check:
    folder = f"{port.folder}/pkeys"
    wanted = port.expect.get("pkey")
    expected = "a full member" if wanted is None else f"{wanted:#06x}"
    number, first = _read(host, f"{folder}/0")
    if number is None:
        return nothing("pkey", port.name, first, f"{folder}/0", expected)
    if wanted is None:
        advice = (
            _NO_SM if not number else "two limited members cannot talk to each other: look at partitions.conf"
        )
        bad = Verdict.WARN if number else Verdict.FAIL
        return judged(
            "pkey", port.name, bool(number & _FULL), expected, f"{number:#06x}", f"{folder}/0", advice, bad
        )
    if number == wanted:
        return judged("pkey", port.name, True, expected, f"{number:#06x} at index 0", f"{folder}/0")
    try:
        at = _index(host, folder, wanted)
    except HostError as error:
        return Check("pkey", port.name, Verdict.UNKNOWN, expected, str(error), folder)
    if at is None:
        found = f"{number:#06x} at index 0, and {wanted:#06x} nowhere"
        advice = "the port is not in this partition: look at partitions.conf of the subnet manager"
        return Check("pkey", port.name, Verdict.FAIL, expected, found, folder, advice)
    found = f"{wanted:#06x} at index {at}, {number:#06x} at index 0"
    advice = f"programs take index 0 unless configured otherwise: NCCL_IB_PKEY={at}"
    return Check("pkey", port.name, Verdict.WARN, expected, found, folder, advice)


def _index(host: Host, folder: str, wanted: int) -> int | None:
    """Raises HostError."""
    for number in sorted(index for index in map(integer, host.names(folder)) if index is not None):
        if _read(host, f"{folder}/{number}")[0] == wanted:
            return number
    return None


def _read(host: Host, path: str) -> tuple[int | None, Value]:
    """A number such as 0xffff; what is none could not be read."""
    value = ports.read(host, path)
    if value.text is None or _HEX.match(value.text.strip()):
        return (int(value.text, 16) if value.text else None), value
    return None, Value(unreadable=f"{path} says {value.text[:60]!r}, which is not a hexadecimal number")
