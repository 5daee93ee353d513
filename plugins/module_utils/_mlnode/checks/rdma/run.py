# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All checks of a node's RDMA devices and their requirements."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Collection, Iterable, Iterator, Mapping, Sequence, Tuple

from ...drivers import dcb, ethtool
from ...host.host import Host, Mounts
from ...linux import link_counters
from ...linux.link_counters import Book
from ...model import schema
from ...model.errors import HostError
from ...model.schema import Option, Table
from ...topology import hardware
from ...topology.model import Topology
from .. import expect as expectations
from .. import module_result
from ..expect import Expectations
from ..model import Check, Look, Subject, findings
from ..pcie import checks as pcie
from . import counters as rdma_counters
from . import gid, gpudirect, inventory, link, memlock, mlxlink, neighbour, node, qos, replies, rules, subnet

MOUNTS: Mounts = {dcb.TOP: dcb.driver, ethtool.TOP: ethtool.driver}

OPTIONS: Table = {
    "expect": Option("dict", default={}),
    "baseline": Option("str", choices=("keep", "reset"), default="keep"),
    "skip": Option("list", elements="str", default=[]),
    **module_result.fail_on("fail"),
}

#: One subject: the names of its checks, and their function
Area = Tuple[Tuple[str, ...], Callable[[Host, Topology, Any], Iterable[Check]]]

#: In the order of a manual diagnosis: presence, link, and the layers above
AREAS: tuple[Area, ...] = (
    (inventory.NAMES, inventory.checks),
    (rules.NAMES, rules.checks),
    (link.NAMES, link.checks),
    (mlxlink.NAMES, mlxlink.checks),
    (neighbour.NAMES, neighbour.checks),
    (subnet.NAMES, subnet.checks),
    (gid.NAMES, gid.checks),
    (qos.NAMES, qos.checks),
    (node.NAMES, node.checks),
    (replies.NAMES, replies.checks),
    (pcie.NAMES, pcie.checks),
    (gpudirect.NAMES, gpudirect.checks),
    (memlock.NAMES, memlock.checks),
)

#: Check of the recorded counters, reported only if recording fails
BASELINE = "baseline"

#: Names that a caller may skip
NAMES: tuple[str, ...] = (
    *(name for names, _checks in AREAS for name in names),
    *rdma_counters.NAMES,
    BASELINE,
)


def answer(host: Host, given: Mapping[str, Any], dry: bool) -> dict[str, Any]:
    """Result of the module rdma_check. Raises DeclarationError."""
    wanted, skipped = expectations.parse(given["expect"]), given["skip"]
    schema.refuse_others("skip", skipped, "check", NAMES)
    writable = host.is_superuser() and not dry
    checks = all_checks(host, wanted, skipped, given["baseline"] == "reset", writable)
    return module_result.result("rdma_check", checks, given["fail_on"])


def all_checks(
    host: Host,
    expect: Expectations,
    leave_out: Collection[str] = (),
    reset: bool = False,
    writable: bool = False,
) -> list[Check]:
    """Every check of every declared port and of the node, without the skipped ones.

    reset: the present counters become the baseline. writable: the present counters may be stored; otherwise
    this run writes nothing.
    """
    topology = hardware.topology(host)
    book = Book(host, reset, writable)

    def counters() -> Iterator[Check]:
        yield from rdma_counters.checks(host, topology, expect, book)
        try:
            book.save()
        except HostError as error:
            advice = "make room for it, or the next run has nothing to compare with"
            subject = Subject(BASELINE, source=link_counters.PATH, expected="is kept")
            yield subject.unknown(str(error), advice=advice)

    looks: list[tuple[Sequence[str], Look]] = [
        (names, partial(look, host, topology, expect)) for names, look in AREAS
    ]
    return [
        check
        for names, look in [*looks, (rdma_counters.NAMES, counters)]
        if not {*names} <= {*leave_out}
        for check in findings([Subject(name) for name in names], look)
        if check.name not in leave_out
    ]
