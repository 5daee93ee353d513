# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses, rules and routes of a host, asked and set through ip(8); or as they were captured."""

from __future__ import annotations

import errno
import json
from typing import Any, Mapping, Protocol, Sequence

from .. import captured
from ..errors import HostError
from ..host import Host
from . import tables
from .tables import PRIORITY, PROTOCOL, Address, Route, Rule

#: Of the captured file, see capture()
FORMAT = 1

#: What is asked → the command. -N, as names of tables and protocols are an administrator's to choose.
ASKED = {
    "addresses": ("addr", "show"),
    "rules": ("rule", "show"),
    "routes": ("route", "show", "table", "all"),
}


class Source(Protocol):
    """Who answers. Both raise HostError."""

    def ask(self, what: str) -> Any: ...
    def do(self, *words: str) -> None: ...


class Ip:
    """The running kernel."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def ask(self, what: str) -> Any:
        command = ["ip", "-j", "-N", "-4", *ASKED[what]]
        out = self._run(command)
        try:
            return json.loads(out.strip() or "[]")  # of nothing it may print nothing
        except (ValueError, RecursionError) as error:
            raise _senseless(" ".join(command), error) from error

    def do(self, *words: str) -> None:
        self._run(["ip", "-4", *words])

    def _run(self, command: Sequence[str]) -> str:
        try:
            done = self._host.run(command)
        except HostError as error:
            # That there is no program is no answer to what was asked.
            words = "ip is not installed: install iproute2" if error.absent else error.kernel
            raise HostError("run", " ".join(command), None, words) from error
        if done.rc != 0:
            lines = done.err.strip().splitlines()
            raise HostError(
                "run", " ".join(command), None, lines[-1] if lines else "it failed without a word"
            )
        return done.out


class Captured:
    """A machine as capture() saw it. It takes no changes."""

    def __init__(self, path: str, answers: Mapping[str, Any]) -> None:
        self._path = path
        self._answers = answers

    @classmethod
    def of(cls, path: str, content: bytes) -> Captured:
        """Raises HostError."""
        try:
            return cls(path, captured.answers(content, FORMAT, "node", lambda _answers: ""))
        except ValueError as error:
            raise HostError("read", path, None, str(error)) from error

    def ask(self, what: str) -> Any:
        if what not in self._answers:
            raise HostError("read", self._path, None, f"{what} were not captured")
        return self._answers[what]

    def do(self, *words: str) -> None:
        raise HostError(f"do `ip {' '.join(words)}` in", self._path, errno.EROFS)


def capture(source: Source) -> dict[str, Any]:
    """All answers of a host, for ROOT/rail/ip.json of a captured tree:

    {"format": 1, "answers": {"addresses": what `ip -j -N -4 addr show` prints, "rules": ..., "routes": ...}}
    """
    answers = {}
    for what in ASKED:
        try:
            answers[what] = source.ask(what)
        except HostError:  # it stays unreadable
            continue
    return {"format": FORMAT, "answers": answers}


# -- what is there -------------------------------------------------------------------------


def addresses(source: Source) -> dict[str, list[Address]]:
    """Interface → its IPv4 addresses. Raises HostError."""
    try:
        return tables.addresses(source.ask("addresses"))
    except ValueError as error:
        raise _senseless("ip addr show", error) from error


def rules(source: Source) -> list[Rule]:
    """Raises HostError."""
    try:
        return tables.rules(source.ask("rules"))
    except ValueError as error:
        raise _senseless("ip rule show", error) from error


def routes(source: Source) -> list[Route]:
    """Raises HostError."""
    try:
        return tables.routes(source.ask("routes"))
    except ValueError as error:
        raise _senseless("ip route show", error) from error


def _senseless(command: str, error: Exception) -> HostError:
    return HostError("run", command, None, f"it printed what makes no sense: {str(error)[:100]}")


# -- changes -------------------------------------------------------------------------------


def set_rules(source: Source, table: int, wanted: Sequence[Rule]) -> None:
    """Make ours of a table these, and leave those of others. Raises HostError."""
    now = [rule for rule in rules(source) if rule.table == table and not rule.words]
    for rule in now:
        if rule not in wanted:
            source.do("rule", "del", *_rule(rule))
    for rule in wanted:
        if rule not in now:
            source.do("rule", "add", *_rule(rule))


def set_routes(source: Source, table: int, wanted: Sequence[Route]) -> None:
    """The same of routes. The old ones go first, as a table has one way to each network."""
    now = [route for route in routes(source) if route.table == table and not route.words]
    for route in sorted(now, key=lambda route: route.order, reverse=True):
        if route not in wanted:
            source.do("route", "del", *_route(route))
    for route in sorted(wanted, key=lambda route: route.order):
        if route not in now:
            source.do("route", "add", *_route(route))


def _rule(rule: Rule) -> list[str]:
    priority, protocol = str(PRIORITY), str(PROTOCOL)
    return ["from", rule.address, "lookup", str(rule.table), "priority", priority, "protocol", protocol]


def _route(route: Route) -> list[str]:
    way = ["via", route.via] if route.via else []
    return [route.network, *way, "dev", route.nic, "table", str(route.table), "protocol", str(PROTOCOL)]
