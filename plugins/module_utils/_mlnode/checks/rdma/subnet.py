# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Assignments of the subnet manager to an InfiniBand port: its address, and its partitions."""

from __future__ import annotations

import re
from functools import partial

from ...host.host import Host
from ...model.record import regex, replace
from ...model.setting import Value
from ...topology.model import Topology
from ...topology.sysfs import integer
from ..expect import Expectations
from ..model import Check, Verdict, findings
from . import ports
from .ports import INFINIBAND, Port

NAMES = ("subnet", "pkey")

#: Membership bit of a full member: two limited members cannot communicate (InfiniBand Architecture
#: Specification, 10.9.1.1)
_FULL = 0x8000

_HEX = regex(r"0x[0-9a-fA-F]{1,8}\Z", re.ASCII)

_NO_SM = "no subnet manager has set the port up: check that one runs (sminfo), and read its log"


def checks(host: Host, topology: Topology, expect: Expectations) -> list[Check]:
    checks = []
    for port in ports.subjects(topology, expect).ports:
        if port.layer == INFINIBAND:
            checks += [_subnet(host, port), *findings([port.about("pkey")], partial(_pkey, host, port))]
        else:
            checks += [port.about(name, "link_layer").skip("no InfiniBand port") for name in NAMES]
    return checks


def _subnet(host: Host, port: Port) -> Check:
    subject, numbers = port.about("subnet", "lid", "lid and sm_lid"), {}
    for name in ("lid", "sm_lid"):
        number, value = _read(host, f"{port.folder}/{name}")
        if number is None:
            return subject.missing(value, source=f"{port.folder}/{name}")
        numbers[name] = number
    evidence = ", ".join(f"{name} {number:#x}" for name, number in numbers.items())
    return subject.judged(all(numbers.values()), evidence, advice=_NO_SM)


def _pkey(host: Host, port: Port) -> Check:
    """Raises HostError."""
    wanted = port.expect.get("pkey")
    subject = port.about("pkey", "pkeys/0", "a full member" if wanted is None else f"{wanted:#06x}")
    number, first = _read(host, subject.source)
    if number is None:
        return subject.missing(first)
    if wanted is None:
        limited = "two limited members cannot talk to each other: look at partitions.conf"
        bad = Verdict.WARN if number else Verdict.FAIL
        advice = limited if number else _NO_SM
        return subject.judged(bool(number & _FULL), f"{number:#06x}", advice=advice, bad=bad)
    if number == wanted:
        return subject.judged(True, f"{number:#06x} at index 0")
    subject = replace(subject, source=f"{port.folder}/pkeys")
    at = _index(host, subject.source, wanted)
    if at is None:
        evidence = f"{number:#06x} at index 0, and {wanted:#06x} nowhere"
        advice = "the port is not in this partition: look at partitions.conf of the subnet manager"
        return subject.judged(False, evidence, advice=advice)
    evidence = f"{wanted:#06x} at index {at}, {number:#06x} at index 0"
    advice = f"programs take index 0 unless configured otherwise: NCCL_IB_PKEY={at}"
    return subject.judged(False, evidence, advice=advice, bad=Verdict.WARN)


def _index(host: Host, folder: str, wanted: int) -> int | None:
    """Index of a partition key; None if it is absent. Raises HostError."""
    for number in sorted(index for index in map(integer, host.names(folder)) if index is not None):
        if _read(host, f"{folder}/{number}")[0] == wanted:
            return number
    return None


def _read(host: Host, path: str) -> tuple[int | None, Value]:
    """A number such as 0xffff; any other text counts as unreadable."""
    value = ports.read(host, path)
    if value.text is None or _HEX.match(value.text.strip()):
        return (int(value.text, 16) if value.text else None), value
    return None, Value(unreadable=f"{path} says {value.text[:60]!r}, which is not a hexadecimal number")
