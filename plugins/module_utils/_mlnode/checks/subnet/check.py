# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The InfiniBand subnet of this node: its manager, its links and errors, and what has changed in it.

ibnetdiscover looks once, through /dev/infiniband/umad*, and writes a cache, from which the other tools of
infiniband-diags report. The cache that was accepted is kept, and iblinkinfo --diff compares with it. What
could not be looked at is unknown, and nothing of it is kept.
"""

from __future__ import annotations

import re
import tempfile
from typing import Any, Callable, Mapping, Sequence, TypeVar

from ...host import system
from ...host.host import Host, Mounts
from ...model.errors import DeclarationError, HostError
from ...model.record import dataclass, field, regex
from ...model.schema import Option, Table
from .. import end
from ..model import Check, Verdict, skip
from . import fabric, reports
from .reports import SUBNET, SubnetError

T = TypeVar("T")

#: ibnetdiscover and ibqueryerrors ask each port: a subnet of 10000 takes minutes where one of them is slow
SECONDS = 300
MAX_SECONDS = 3600

MOUNTS: Mounts = {}

OPTIONS: Table = {
    "port": Option("str", default=""),
    "baseline": Option("str", choices=("keep", "reset"), default="keep"),
    "timeout": Option("int", default=SECONDS),
    **end.fail_on("unknown"),
}

_PORT = regex(r"([A-Za-z0-9_.-]{1,64})(?:/([0-9]{1,3}))?\Z", re.ASCII)

#: Counters of load and of multicast, not of errors (ibqueryerrors(8): --suppress-common)
_NO_ERRORS = "PortXmitWait,PortRcvSwitchRelayErrors"

_LOOK = "load ib_umad, look from a port with a cable into the subnet, and run the tool by hand as root"
#: What to do where a report could not be read
_HELP = {"manager": reports.NO_MANAGER, "baseline": "baseline: reset takes a new one, where it is damaged"}


@dataclass(frozen=True)
class Request:
    """port: mlx5_0 or mlx5_0/1, or "" for the first InfiniBand port that is active, which the tools choose
    themselves. writable: the look may be kept; reset: it replaces the one that was kept."""

    port: str = ""
    reset: bool = False
    writable: bool = False
    seconds: float = SECONDS


@dataclass
class Result:
    """counts: nodes by their kind, none where they could not be looked at."""

    checks: list[Check] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


def answer(host: Host, given: Mapping[str, Any], dry: bool) -> dict[str, Any]:
    """Result of the module ib_subnet. Raises DeclarationError, HostError."""
    parse(given["port"], given["timeout"])
    writable = host.is_superuser() and not dry
    seen = look(host, Request(given["port"], given["baseline"] == "reset", writable, given["timeout"]))
    return end.result("ib_subnet", seen.checks, given["fail_on"], subnet=seen.counts)


def parse(port: str, seconds: int) -> None:
    """Raises DeclarationError."""
    if port and not _PORT.match(port):
        raise DeclarationError(f"port: {port!r} is not a device or port, such as mlx5_0 or mlx5_0/1")
    if not 1 <= seconds <= MAX_SECONDS:
        raise DeclarationError(f"timeout: {seconds} is not between 1 and {MAX_SECONDS} seconds")


def look(host: Host, request: Request) -> Result:
    """All checks. What could not be looked at is in them as unknown. Raises HostError."""
    result = Result()
    try:
        # Closed to others, as the tools open what they find there.
        with tempfile.TemporaryDirectory(prefix="mlnode-") as folder:
            _Looker(host, request, result, f"{folder}/cache").run()
    except OSError as error:
        raise HostError("make", "a temporary folder", error.errno) from error
    return result


class _Looker:
    def __init__(self, host: Host, request: Request, result: Result, cache: str) -> None:
        self._host, self._request, self._result, self._cache = host, request, result, cache
        device, _slash, number = request.port.partition("/")
        self._port = [*(["-C", device] if device else []), *(["-P", number] if number else [])]
        # One for each port that is named, as each may be in another subnet.
        self._kept = f"/var/lib/mlnode/{'-'.join(filter(None, ('ib-subnet', device, number)))}.cache"

    def run(self) -> None:
        self._judge("manager", ["sminfo"], reports.manager)
        nodes = self._ask("topology", ["ibnetdiscover", "--list", "--cache", self._cache], reports.nodes)
        if nodes is None:
            return
        self._result.counts = reports.counts(nodes)
        report = ["iblinkinfo", "--line", "--load-cache", self._cache]
        self._judge("links", report, lambda text: [*reports.links(text), *fabric.checks(text, nodes)])
        self._topology(report)
        command = ["ibqueryerrors", "--suppress", _NO_ERRORS, "--load-cache", self._cache]
        self._judge("errors", command, lambda text: reports.errors(text, len(nodes)))
        if any(node.name == fabric.AGGREGATION_NODE for node in nodes):
            self._judge("sharp", ["saquery", "SR"], lambda text: fabric.sharp(text, nodes))

    def _topology(self, report: Sequence[str]) -> None:
        source = f"iblinkinfo --diff {self._kept}"
        try:
            # Reads it, as the tool would wait for a FIFO in its place.
            if not self._request.reset and self._host.content(self._kept) is not None:
                command = [*report, "--diff", self._kept, "--diffcheck", "port"]
                self._judge("baseline", command, lambda text: reports.topology(text, source))
                return
            if self._request.writable:
                self._host.write_file(self._kept, system.contents(self._cache, self._cache), mode=0o644)
        except HostError as error:
            self._unknown("baseline", str(error), self._kept, _HELP["baseline"])
            return
        counts = ", ".join(f"{number} {name}" for name, number in self._result.counts.items())
        kept = "kept, for later looks" if self._request.writable else "not kept, as nothing may be written"
        self._result.checks.append(skip("topology", SUBNET, f"{counts}: {kept}", source))

    def _judge(self, name: str, command: Sequence[str], judge: Callable[[str], list[Check]]) -> None:
        self._result.checks += self._ask(name, command, judge) or []

    def _ask(self, name: str, command: Sequence[str], use: Callable[[str], T]) -> T | None:
        """The result of use for a tool's report; None where the tool could not look, which is a finding."""
        tool = command[0]
        try:
            done = self._host.run([*command, *self._port], self._request.seconds)
            if tool == "sminfo" and done.rc and "open" not in done.err:
                return use(done.out)  # it could ask, and no manager answered
            # ibqueryerrors ends with 1 where it reports errors.
            if done.err.strip() or done.rc not in (0, int(tool == "ibqueryerrors")):
                # Errors may be on either output (ibdiag_common.c: ibexit), and come last.
                output = " ".join(f"{done.out} {done.err}".split())[-300:]
                raise SubnetError(f"{tool} ended with {done.rc} and could not look at all of it: {output}")
            return use(done.out)
        except HostError as error:
            slow = "raise timeout, or look at the subnet manager"
            self._unknown(name, str(error), tool, "install infiniband-diags" if error.absent else slow)
        except SubnetError as error:
            self._unknown(name, str(error), tool, _HELP.get(name, _LOOK))
        return None

    def _unknown(self, name: str, found: str, source: str, advice: str) -> None:
        self._result.checks.append(Check(name, SUBNET, Verdict.UNKNOWN, "", found, source, advice))
