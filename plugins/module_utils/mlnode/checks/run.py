# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All checks of the RDMA devices of a node and of what they need."""

from __future__ import annotations

from typing import Any, Callable, Collection, Sequence, Tuple

from .. import dcb, ethtool
from ..errors import HostError
from ..host import Host, Mounts
from ..topology import read
from ..topology.model import Topology
from . import (
    counters,
    gpudirect,
    memlock,
    mlxlink,
    pcie,
    qos,
    rdma_counters,
    rdma_gid,
    rdma_inventory,
    rdma_link,
    rdma_node,
    rdma_replies,
    rdma_rules,
    rdma_subnet,
)
from .counters import Book
from .expect import Expectations
from .model import Check, Verdict

MOUNTS: Mounts = {dcb.TOP: dcb.driver, ethtool.TOP: ethtool.driver}

#: One subject: the names of its checks, and what makes them
Area = Tuple[Tuple[str, ...], Callable[[Host, Topology, Any], Sequence[Check]]]

#: In the order in which a person would look: what is there, whether it is up, what is on top
AREAS: tuple[Area, ...] = (
    (rdma_inventory.NAMES, rdma_inventory.checks),
    (rdma_rules.NAMES, rdma_rules.checks),
    (rdma_link.NAMES, rdma_link.checks),
    (mlxlink.NAMES, mlxlink.checks),
    (rdma_subnet.NAMES, rdma_subnet.checks),
    (rdma_gid.NAMES, rdma_gid.checks),
    (qos.NAMES, qos.checks),
    (rdma_node.NAMES, rdma_node.checks),
    (rdma_replies.NAMES, rdma_replies.checks),
    (pcie.NAMES, pcie.checks),
    (gpudirect.NAMES, gpudirect.checks),
    (memlock.NAMES, memlock.checks),
)

#: Check of the kept counters; reported only where that fails
BASELINE = "baseline"

#: The names that a caller may leave out
NAMES: tuple[str, ...] = (
    *(name for names, _checks in AREAS for name in names),
    *rdma_counters.NAMES,
    BASELINE,
)


def all_checks(
    host: Host,
    expect: Expectations,
    leave_out: Collection[str] = (),
    reset: bool = False,
    writable: bool = False,
) -> list[Check]:
    """Every check of every declared port and of the node, but those left out.

    reset: what the counters are now becomes what they are compared with. writable: what they are now may be
    kept, else this run writes nothing at all.
    """
    topology = read.of(host)
    found: list[Check] = []
    for names, checks in AREAS:
        if not {*names} <= {*leave_out}:
            found += checks(host, topology, expect)
    if not {*rdma_counters.NAMES} <= {*leave_out}:
        book = Book(host, reset, writable)
        found += rdma_counters.checks(host, topology, expect, book)
        found += _kept(book)
    return [check for check in found if check.name not in leave_out]


def _kept(book: Book) -> list[Check]:
    try:
        book.save()
    except HostError as error:
        advice = "make room for it, or the next run has nothing to compare with"
        return [Check(BASELINE, "node", Verdict.UNKNOWN, "is kept", str(error), counters.PATH, advice)]
    return []
