# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Huge pages of a pool that a job may use: the limits of its control groups (admin-guide/cgroup-v2.rst:
HugeTLB)."""

from __future__ import annotations

from typing import Iterator

from ...linux import cgroup_files
from ...linux.cgroup_files import Limit, Line
from ...model import values
from ...model.errors import HostError
from ...model.record import regex
from ...model.setting import Severity
from ..model import Check, Subject, Verdict
from . import remedy
from .model import Node, Place

NAME = "job_hugetlb"
#: Name of the values of all pools, if it is unknown which pools the node has
LIMIT = "hugetlb limit"
POOLS = "/sys/kernel/mm/hugepages"
_POOL = regex(r"hugepages-([0-9]{1,12})kB\Z")

#: Version → files with a limit: of pages in use, and of reserved ones, which runtimes set as well
_LIMITS = {1: ("limit_in_bytes", "rsvd.limit_in_bytes"), 2: ("max", "rsvd.max")}


def checks(place: Place, node: Node) -> Iterator[Check]:
    """Raises HostError."""
    subject = place.subject(
        NAME, source=POOLS, severity=Severity.MEDIUM, reference="admin-guide/mm/hugetlbpage.rst",
        reason="mmap(2) fails, or the program is killed by SIGBUS at its first access",
    )  # fmt: skip
    pools = _pools(node)
    if not pools:
        yield subject.skip("the node has no pool of huge pages")
        return
    try:
        known = cgroup_files.line(node.host, place.first.pid, "hugetlb")
        for size, count in pools.items():
            yield _pool(place, node, known, subject, size, count)
    except HostError as error:
        if not node.has_ended(place.first):
            place.lost(map(_value, pools), str(error))
            yield subject.unknown(str(error))


def _value(size: int) -> str:
    return f"hugetlb {named(size)} limit"


def _pools(node: Node) -> dict[int, int]:
    """KiB of a page → pages, of pools with pages. Raises HostError."""
    pools = {}
    for name in node.host.names(POOLS):
        match = _POOL.match(name)
        path = f"{POOLS}/{name}/nr_hugepages"
        count = values.number(node.host.read(path)) if match else 0
        if count is None:
            raise HostError("understand", path, None, "it has no number")
        if match and count:
            pools[int(match.group(1))] = count
    return pools


def named(kbytes: int) -> str:
    """2MB, as hugetlb_cgroup_file_init of mm/hugetlb_cgroup.c has it."""
    for unit, size in (("GB", 1 << 20), ("MB", 1 << 10)):
        if kbytes >= size:
            return f"{kbytes // size}{unit}"
    return f"{kbytes}KB"


def _pool(place: Place, node: Node, known: Line, subject: Subject, size: int, count: int) -> Check:
    """Raises HostError."""
    name, pool = named(size), size * count << 10
    least = _least(node, known, name)
    place.limit(_value(size), least and least.amount, known.hidden)
    words = f"{name} pages: {count} on the node"
    if least is None:
        evidence = f"{words}, no limit"
        if known.hidden:
            return subject.unknown(f"{evidence} is visible; {known.hidden}")
        return subject.judged(True, evidence)
    pages = (least.amount >> 10) // size
    evidence = f"{words}, at most {pages} by {known.words(least.group)}"
    refused = _refused(node, known, name, least)
    if refused:
        evidence += f"; {refused} {'request was' if refused == 1 else 'requests were'} refused"
    advice = remedy.hugetlb(place, name)
    fields = {"source": least.group.folder, "advice": advice}
    if refused:
        return subject.judged(False, evidence, expected="no request refused", bad=Verdict.WARN, **fields)
    if known.hidden:
        return subject.unknown(f"{evidence}; {known.hidden}", source=least.group.folder)
    if least.amount < pool:
        return subject.skip(evidence, **fields)
    return subject.judged(True, evidence, source=least.group.folder)


def _least(node: Node, known: Line, name: str) -> Limit | None:
    """Raises HostError."""
    limits: list[Limit] = []
    for part in _LIMITS[known.version]:
        file = f"hugetlb.{name}.{part}"
        if part.startswith("rsvd") and not _has(node, known, file):  # since Linux 5.7
            continue
        limit = cgroup_files.limit(node.host, known, file)
        limits += [limit] if limit is not None else []
    return min(limits, key=lambda limit: limit.amount) if limits else None


def _has(node: Node, known: Line, file: str) -> bool:
    return any(
        cgroup_files.value(node.host, f"{group.folder}/{file}").absent is None for group in known.groups
    )


def _refused(node: Node, known: Line, name: str, limit: Limit) -> int:
    """Requests beyond the limit of a group; 0 if the kernel does not count them. Raises HostError."""
    folder = limit.group.folder
    if known.version == 1:
        files = [f"{folder}/hugetlb.{name}.{part}failcnt" for part in ("", "rsvd.")]
        return sum(values.number(node.host.text(file)) or 0 for file in files)
    return cgroup_files.pairs(node.host.text(f"{folder}/hugetlb.{name}.events.local")).get("max", 0)
