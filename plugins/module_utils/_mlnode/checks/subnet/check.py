# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The InfiniBand subnet of this node: its manager, its links and errors, and changes in it.

ibnetdiscover scans once, through /dev/infiniband/umad*, and writes a cache for the other tools of
infiniband-diags. The accepted cache is stored, and iblinkinfo --diff compares with it. A part that could not
be scanned is unknown and is not stored.

The counters of uplinks are read twice: with a wait in between, or in two calls before and after a benchmark.
"""

from __future__ import annotations

import re
import tempfile
from typing import Any, Callable, Mapping, Sequence, TypeVar

from ...host import system
from ...host.host import Host, Mounts
from ...model.errors import DeclarationError, HostError, listed
from ...model.record import dataclass, field, regex
from ...model.schema import Option, Table
from .. import module_result
from ..campaign.clock import Clock
from ..model import Check, Subject, Verdict
from . import balance, fabric, reports, traffic
from .fabric import Switch
from .readings import Reader
from .reports import SUBNET, Node, SubnetError, Unanswered
from .traffic import Reading

T = TypeVar("T")

#: Seconds. ibnetdiscover and ibqueryerrors ask each port: with a slow one, a subnet of 10000 takes minutes
SECONDS = 300
MAX_SECONDS = 3600
#: Largest ratio of down to up: a leaf has fewer than a thousand ports
MAX_RATIO = 1000.0

MOUNTS: Mounts = {}

OPTIONS: Table = {
    "port": Option("str", default=""),
    "baseline": Option("str", choices=("keep", "reset"), default="keep"),
    "scope": Option("str", choices=("subnet", "uplinks"), default="subnet"),
    "oversubscription": Option("float"),
    "balance": Option("int", default=0),
    "since": Option("dict"),
    "nodes": Option("list", elements="str", default=[]),
    "timeout": Option("int", default=SECONDS),
    **module_result.fail_on("unknown"),
}

_PORT = regex(r"([A-Za-z0-9_.-]{1,64})(?:/([0-9]{1,3}))?\Z", re.ASCII)

#: Counters of load and of multicast, not of errors (ibqueryerrors(8): --suppress-common)
_NO_ERRORS = "PortXmitWait,PortRcvSwitchRelayErrors"

_SILENT = "look at the silent ports (links), and repeat"
#: Advice for a report that could not be read
_HELP = {
    "manager": reports.NO_MANAGER,
    "baseline": "if it is damaged, take a new one with baseline: reset",
    balance.NAME: "see why the first reading failed",
}


@dataclass(frozen=True)
class Request:
    """A request to the module.

    port: mlx5_0 or mlx5_0/1; "" lets the tools choose the first active InfiniBand port. writable: the scan
    may be stored; reset: it replaces the stored one.

    only_uplinks: check nothing else. oversubscription: declared ratio of bandwidth down to bandwidth up of
    the leaves. balance: seconds between two readings of the uplinks' counters; since: the first of the two,
    from an earlier call. nodes: limits the check to their leaves; empty for all.
    """

    port: str = ""
    reset: bool = False
    writable: bool = False
    seconds: float = SECONDS
    only_uplinks: bool = False
    oversubscription: float | None = None
    balance: int = 0
    since: Mapping[str, Reading] | None = None
    nodes: Sequence[str] = ()


@dataclass
class Result:
    """counts: nodes by kind; empty if the scan failed. traffic: the first of two readings of the uplinks."""

    checks: list[Check] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    traffic: dict[str, Reading] = field(default_factory=dict)


def answer(host: Host, given: Mapping[str, Any], dry: bool) -> dict[str, Any]:
    """Result of the module ib_subnet. Raises DeclarationError, HostError."""
    seen = look(host, parse(given, host.is_superuser() and not dry))
    read = {guid: reading.document() for guid, reading in seen.traffic.items()}
    return module_result.result("ib_subnet", seen.checks, given["fail_on"], subnet=seen.counts, traffic=read)


def parse(given: Mapping[str, Any], writable: bool = False) -> Request:
    """Raises DeclarationError."""
    port, ratio, since = given["port"], given["oversubscription"], given["since"]
    if port and not _PORT.match(port):
        raise DeclarationError(f"port: {port!r} is not a device or port, such as mlx5_0 or mlx5_0/1")
    module_result.between("timeout", given["timeout"], 1, MAX_SECONDS, "seconds")
    module_result.between("balance", given["balance"], 0, MAX_SECONDS, "seconds")
    if ratio is not None and not 0 < ratio <= MAX_RATIO:
        raise DeclarationError(
            f"oversubscription: expected a ratio of down to up such as 2, up to {MAX_RATIO:g}, got {ratio:g}"
        )
    if given["balance"] and since is not None:
        raise DeclarationError("balance: it waits between two readings, and since is one; give one of both")
    return Request(
        port,
        given["baseline"] == "reset",
        writable,
        given["timeout"],
        given["scope"] == "uplinks",
        ratio,
        given["balance"],
        None if since is None else traffic.parse("since", since),
        given["nodes"],
    )


def look(host: Host, request: Request, clock: Clock | None = None) -> Result:
    """All checks. Parts that could not be read are unknown. Raises HostError."""
    result = Result()
    try:
        # Private, because the tools open any file that they find there.
        with tempfile.TemporaryDirectory(prefix="mlnode-") as folder:
            _Looker(host, request, result, f"{folder}/cache", clock or Clock()).run()
    except OSError as error:
        raise HostError("make", "a temporary folder", error.errno) from error
    return result


class _Looker:
    def __init__(self, host: Host, request: Request, result: Result, cache: str, clock: Clock) -> None:
        self._host, self._request, self._result, self._cache = host, request, result, cache
        self._clock = clock
        self._unanswered: list[Unanswered] = []
        device, _slash, number = request.port.partition("/")
        self._port = [*(["-C", device] if device else []), *(["-P", number] if number else [])]
        # One file per given port, because each may be in another subnet.
        self._kept = f"/var/lib/mlnode/{'-'.join(filter(None, ('ib-subnet', device, number)))}.cache"

    def run(self) -> None:
        request, result = self._request, self._result
        if not request.only_uplinks:
            self._judge("manager", ["sminfo"], reports.manager)
        err: list[str] = []
        scan = self._ask(
            "topology",
            ["ibnetdiscover", "--list", "--cache", self._cache],
            lambda text: (reports.unanswered("ibnetdiscover", err[-1]), reports.nodes(text)),
            err,
        )
        if scan is None:
            return
        self._unanswered, nodes = scan
        result.counts = reports.counts(nodes)
        report = ["iblinkinfo", "--line", "--load-cache", self._cache]
        both = self._ask(
            "links", report, lambda text: (self._links(text, err[-1]), fabric.read(text, nodes)), err
        )
        if not request.only_uplinks:
            if both:
                result.checks += [*both[0], *fabric.checks(both[1], request.oversubscription)]
            self._subnet(report, nodes)
        elif both:
            result.checks += [check for check in both[0] if check.verdict is Verdict.UNKNOWN]
        if both and (request.only_uplinks or request.balance or request.since is not None):
            self._balance(both[1])

    def _links(self, text: str, err: str) -> list[Check]:
        """Raises SubnetError."""
        self._unanswered += reports.unanswered("iblinkinfo", err)
        known = reports.ports(text.split("\n")) if self._unanswered else {}
        return [*reports.links(text, bool(known)), *reports.silence(self._unanswered, known)]

    def _subnet(self, report: Sequence[str], nodes: Sequence[Node]) -> None:
        """All checks except links and traffic."""
        self._topology(report)
        command = ["ibqueryerrors", "--suppress", _NO_ERRORS, "--load-cache", self._cache]
        err: list[str] = []
        errors = self._ask("errors", command, lambda text: reports.errors(text, len(nodes), err[0]), err)
        self._result.checks += errors or []
        if any(node.name == fabric.AGGREGATION_NODE for node in nodes):
            self._judge("sharp", ["saquery", "SR"], lambda text: fabric.sharp(text, nodes))

    def _balance(self, switches: dict[str, Switch]) -> None:
        request, result = self._request, self._result
        reader = Reader(self._host, self._port, request.seconds, self._clock)
        leaves = fabric.leaves(switches)
        here = {end.node for leaf in leaves for end in leaf.ends}
        missing = [node for node in request.nodes if node not in here]
        if missing:
            why = (
                f"no port at a leaf has the name of {listed(missing, 4)}; there are {listed(sorted(here), 4)}"
            )
            self._unknown(
                balance.NAME, why, "iblinkinfo", "name the ports after their nodes, as rdma-ndd does"
            )
        most = max((len(leaf.cables) for leaf in leaves), default=0)
        if request.nodes:
            leaves = [leaf for leaf in leaves if {end.node for end in leaf.ends} & {*request.nodes}]
        if request.since is not None and not request.since:
            self._unknown(balance.NAME, "since is empty: nothing was read before", "", _HELP[balance.NAME])
            return
        if request.since is not None:
            every = [*switches.values()]
            result.checks += balance.checks(request.since, reader.read(every, request.since))
            return
        result.checks += balance.alone({leaf.name: len(leaf.cables) for leaf in leaves}, most)
        first = reader.read(leaves)
        if request.balance:
            self._clock.sleep(request.balance)
            result.checks += balance.checks(first, reader.read(leaves, first))
            return
        result.traffic = first
        cables = sum(len(reading.cables) for reading in first.values())
        evidence = f"leaves: {len(first)}, uplinks: {cables}: read, for a second reading"
        result.checks.append(Subject(balance.NAME, SUBNET, "perfquery").skip(evidence))

    def _topology(self, report: Sequence[str]) -> None:
        source = f"iblinkinfo --diff {self._kept}"
        try:
            # Read it first: the tool would wait on a FIFO in its place.
            if not self._request.reset and self._host.content(self._kept) is not None:
                command = [*report, "--diff", self._kept, "--diffcheck", "port"]
                self._judge("baseline", command, lambda text: self._changes(text, source))
                return
            if self._unanswered:
                why = f"{len(self._unanswered)} queries had no answer: nothing is kept to compare with"
                self._unknown("topology", why, source, _SILENT)
                return
            if self._request.writable:
                self._host.write_file(self._kept, system.contents(self._cache, self._cache), mode=0o644)
        except HostError as error:
            self._unknown("baseline", str(error), self._kept, _HELP["baseline"])
            return
        counts = ", ".join(f"{number} {name}" for name, number in self._result.counts.items())
        kept = "kept, for later looks" if self._request.writable else "not kept, as nothing may be written"
        self._result.checks.append(Subject("topology", SUBNET, source).skip(f"{counts}: {kept}"))

    def _changes(self, text: str, source: str) -> list[Check]:
        """Raises SubnetError."""
        changes = reports.topology(text, source)
        if self._unanswered and all(check.verdict is Verdict.PASS for check in changes):
            evidence = f"no change in the part that answers; {len(self._unanswered)} queries had no answer"
            return [Subject("topology", SUBNET, source).unknown(evidence, advice=_SILENT)]
        return changes

    def _judge(self, name: str, command: Sequence[str], judge: Callable[[str], list[Check]]) -> None:
        self._result.checks += self._ask(name, command, judge) or []

    def _ask(
        self, name: str, command: Sequence[str], use: Callable[[str], T], err: list[str] | None = None
    ) -> T | None:
        """The result of `use` for a tool's report; None, with a finding, if the tool failed.

        err: receives the tool's standard error and a bad exit status, for `use` to judge.
        """
        tool = command[0]
        try:
            done = self._host.run([*command, *self._port], self._request.seconds)
            if tool == "sminfo" and done.rc and "open" not in done.err:
                return use(done.out)  # it could ask, but no manager answered
            # ibqueryerrors exits with 1 if it reports errors.
            failed = done.rc not in (0, int(tool == "ibqueryerrors"))
            if err is not None:
                err.append(f"{done.err}\n{tool} ended with {done.rc}" if failed else done.err)
            elif failed or done.err.strip():
                # Errors may be on either output, and come last (ibdiag_common.c: ibexit).
                output = " ".join(f"{done.out} {done.err}".split())[-300:]
                raise SubnetError(f"{tool} ended with {done.rc} and could not look at all of it: {output}")
            return use(done.out)
        except HostError as error:
            slow = "raise timeout, or look at the subnet manager"
            self._unknown(name, str(error), tool, "install infiniband-diags" if error.absent else slow)
        except SubnetError as error:
            self._unknown(name, str(error), tool, _HELP.get(name, reports.LOOK))
        return None

    def _unknown(self, name: str, why: str, source: str, advice: str) -> None:
        self._result.checks.append(Subject(name, SUBNET, source).unknown(why, advice=advice))
