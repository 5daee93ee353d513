# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interrupts: the CPUs on which they arrive, and how often (kernel/irq/proc.c)."""

from __future__ import annotations

import re
from typing import Collection, Iterator, Mapping

from ..host.host import Host
from ..model import cpulist, values
from ..model.errors import HostError
from ..model.record import NamedTuple

COUNTS = "/proc/interrupts"


def effective_path(irq: object) -> str:
    return f"/proc/irq/{irq}/effective_affinity_list"


def effective(host: Host, irq: int) -> tuple[int, ...] | None:
    """CPUs on which an interrupt arrives; empty if it was not started, None if this kernel does not show
    them. Raises HostError."""
    return _cpus(host, effective_path(irq))


def allowed(host: Host, irq: int) -> tuple[int, ...] | None:
    """CPUs on which an interrupt may arrive; None if it is gone. Raises HostError."""
    return _cpus(host, f"/proc/irq/{irq}/smp_affinity_list")


def _cpus(host: Host, path: str) -> tuple[int, ...] | None:
    try:
        return cpulist.parse(host.read(path).strip())
    except ValueError as error:
        raise HostError("understand", path, None, str(error)) from error
    except HostError as error:
        if error.absent:
            return None
        raise


class Counted(NamedTuple):
    """counts: CPU → arrivals since boot, for the online ones. name: of the last handler; may be empty."""

    irq: int
    counts: Mapping[int, int]
    name: str


def counted(host: Host, only: Collection[int] | None = None) -> Iterator[Counted]:
    """Interrupts with a number. only: the wanted ones, as the file is the longest of a large node. Raises
    HostError."""
    header, *lines = host.read(COUNTS).splitlines() or [""]
    columns = [int(cpu) for cpu in re.findall(r"CPU([0-9]+)", header, re.ASCII)]
    if not columns:
        raise HostError("understand", COUNTS, None, "it has no columns of CPUs")
    # One match a line: half a million fields of a large node, each by itself, take half of a run.
    row = re.compile(rf"((?:\s+[0-9]{{1,20}}){{{len(columns)}}})(?:\s(.*))?\Z", re.ASCII)
    for line in lines:
        number, _colon, rest = line.partition(":")
        irq = values.number(number.strip())
        if irq is None or (only is not None and irq not in only):
            continue
        match = row.match(rest)
        if match is None:
            raise HostError("understand", COUNTS, None, f"interrupt {irq} has no number for each CPU")
        counts = dict(zip(columns, map(int, match.group(1).split())))
        yield Counted(irq, counts, ((match.group(2) or "").split() or [""])[-1])
