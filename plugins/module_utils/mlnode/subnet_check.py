# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is the InfiniBand subnet that this node is in what it was, and are its links up, fast and free of errors?

infiniband-diags looks at it through /dev/infiniband/umad*, which only reads. What could not be looked at is
unknown, and nothing of it is kept.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Sequence, TypeVar

from . import subnet, subnet_book, subnet_moves, subnet_rises
from .checks.model import Check, Verdict
from .errors import DeclarationError, HostError, MlnodeError
from .host import Host
from .subnet import Fabric, Link, Manager, SubnetError
from .subnet_book import Kept, Look
from .topology import read

MOUNTS = read.MOUNTS

T = TypeVar("T")

NAMES = ("access", "manager", "topology", "links", "errors", "baseline")

#: Whom each check is about where it names nobody
SUBNET = "subnet"

#: iblinkinfo and ibqueryerrors ask for each port: a subnet of 10000 takes minutes where one of them is slow
SECONDS = 300
MAX_SECONDS = 3600

#: As sminfo calls it
MASTER = "SMINFO_MASTER"
_NO_MANAGER = (
    "no subnet manager manages the subnet: look whether one runs (opensm, UFM, a switch), and at its log"
)

_DEVICES = "/dev/infiniband"
_PORT = re.compile(r"([A-Za-z0-9_.-]{1,64})(?:/([0-9]{1,3}))?\Z", re.ASCII)

#: Counters that tell of load and of multicast, not of errors (ibqueryerrors(8): --suppress-common)
_NO_ERRORS = "PortXmitWait,PortRcvSwitchRelayErrors"


@dataclass(frozen=True)
class Request:
    """port: mlx5_0 or mlx5_0/1, or "" for the first InfiniBand port that is up. writable: what is found may
    be kept; reset: it is what later looks are compared with."""

    port: str = ""
    reset: bool = False
    writable: bool = False
    seconds: float = SECONDS


@dataclass
class Result:
    checks: list[Check] = field(default_factory=list)
    port: str = ""
    fabric: Fabric | None = None
    manager: Manager | None = None

    def document(self) -> dict[str, Any]:
        """What was found, in numbers."""
        kinds = {"switches": "switch", "hcas": "HCA", "routers": "router"}
        fabric = self.fabric
        return {
            "port": self.port,
            "manager": f"0x{self.manager.guid}" if self.manager else "",
            **{name: fabric.count(kind) if fabric else 0 for name, kind in kinds.items()},
            "cables": len(fabric.cables) if fabric else 0,
        }


def parse(port: str, seconds: int) -> None:
    """Raises DeclarationError."""
    if port and not _PORT.match(port):
        raise DeclarationError(f"port: {port!r} is no device or port, such as mlx5_0 or mlx5_0/1")
    if not 1 <= seconds <= MAX_SECONDS:
        raise DeclarationError(f"timeout: {seconds} is not between 1 and {MAX_SECONDS} seconds")


def look(host: Host, request: Request, now: Callable[[], float] = time.time) -> Result:
    """All checks. What could not be looked at is in them as unknown."""
    result = Result()
    try:
        result.port, words = _port(host, request.port)
    except MlnodeError as error:
        words = str(error)
    if words:
        advice = "look from another node or port that has a cable into the subnet; load ib_umad"
        result.checks.append(_unknown("access", words, _DEVICES, advice))
        return result
    _Looker(host, request, result, now).run()
    return result


def _port(host: Host, wanted: str) -> tuple[str, str]:
    """The port to look from, and why there is none. Raises HostError."""
    if not any(name.startswith("umad") for name in host.names(_DEVICES)):
        return "", f"{_DEVICES}/umad* does not exist: no InfiniBand device, or ib_umad is not loaded"
    ports = [
        (f"{device.name}/{port.number}", device.name, port)
        for device in read.of(host).rdma
        for port in device.ports
        if port.link_layer == "InfiniBand"
    ]
    if wanted:
        named = [name for name, device, _port in ports if wanted in (name, device)]
        return (named[0], "") if named else ("", f"{wanted} is no InfiniBand port of this node")
    up = [name for name, _device, port in ports if "ACTIVE" in (port.state or "")]
    return (up[0], "") if up else ("", "this node has no InfiniBand port that is ACTIVE")


class _Looker:
    def __init__(self, host: Host, request: Request, result: Result, now: Callable[[], float]) -> None:
        self._host, self._request, self._result, self._now = host, request, result, now
        self._file = subnet_book.path(request.port)
        self._names: dict[str, str] = {}

    def run(self) -> None:
        self._manager()
        fabric = self._ask("topology", ["ibnetdiscover"], subnet.fabric)
        if fabric is None:
            return
        self._result.fabric = fabric
        links = self._ask("links", ["iblinkinfo", "--line"], subnet.links)
        # Thresholds of the site would hide counters: what is not named has to be 0.
        command = ["ibqueryerrors", "--threshold-file", "/dev/null", "--suppress", _NO_ERRORS]
        errors = self._ask("errors", command, lambda text: subnet.errors(text, len(fabric.nodes)), (0, 1))
        kept, readable = self._kept()
        self._names = subnet.names([fabric, *([kept.fabric] if kept else [])])
        by_end = subnet_moves.by_end(fabric, links) if links is not None else None
        if links is not None and by_end is None:
            words = "iblinkinfo does not tell all ports that ibnetdiscover does"
            advice = "look again: it was cut off, or the subnet changed meanwhile"
            self._add(_unknown("links", words, "iblinkinfo --line", advice))
        if by_end is not None:
            self._links(fabric, by_end)
        if readable:
            self._topology(fabric, kept, by_end or {})
            now = None
            if errors is not None:
                now = Look(self._now(), by_port(fabric, errors))
                wide = {name for counts in errors.values() for name, count in counts.items() if count.wide}
                self._errors(fabric, kept, now, wide)
            self._save(fabric, kept, now)

    # -- asking ----------------------------------------------------------------------------

    def _ask(
        self, name: str, command: Sequence[str], make: Callable[[str], T], fine: Sequence[int] = (0,)
    ) -> T | None:
        """What a tool says; None where it could not look, which is a finding."""
        device, number = self._result.port.rsplit("/", 1)
        whole = [*command, "-C", device, "-P", number]
        source = " ".join(command)
        try:
            done = self._host.run(whole, self._request.seconds)
            if done.rc not in fine:
                problem = f"{command[0]} failed: {_last(done.err) or f'exit status {done.rc}'}"
                if name == "manager" and "open" not in done.err:
                    # It could ask, and nobody answered.
                    self._add(Check(name, SUBNET, Verdict.FAIL, MASTER, problem, source, _NO_MANAGER))
                    return None
                raise SubnetError(problem)
            if done.err.strip():
                raise SubnetError(f"{command[0]} could not look at all of it: {_last(done.err)}")
            return make(done.out)
        except HostError as error:
            advice = (
                "install infiniband-diags" if error.absent else "raise timeout, or look at the subnet manager"
            )
            self._add(_unknown(name, str(error), source, advice))
        except SubnetError as error:
            advice = "run it by hand as root, and look at the nodes that it names"
            self._add(_unknown(name, str(error), source, advice))
        return None

    def _manager(self) -> None:
        found = self._ask("manager", ["sminfo"], subnet.manager)
        self._result.manager = found
        if found is not None:
            words = f"0x{found.guid}, priority {found.priority}, {found.state}"
            advice = "" if found.master else _NO_MANAGER
            verdict = Verdict.PASS if found.master else Verdict.FAIL
            self._add(Check("manager", SUBNET, verdict, MASTER, words, "sminfo", advice))

    def _kept(self) -> tuple[Kept | None, bool]:
        """What is kept, and whether it could be read."""
        if self._request.reset:
            return None, True
        try:
            return subnet_book.load(self._host, self._file), True
        except MlnodeError as error:
            self._add(_unknown("baseline", str(error), self._file))
            return None, False

    def _save(self, fabric: Fabric, kept: Kept | None, now: Look | None) -> None:
        if not self._request.writable:
            return
        base = kept.base if kept and kept.base else now
        if kept and kept.base and kept.last and now:
            base = subnet_rises.base_of(kept.base, kept.last, now)
        last = now or (kept.last if kept else None)
        try:
            subnet_book.save(self._host, self._file, Kept(kept.fabric if kept else fabric, base, last))
        except MlnodeError as error:
            advice = "make room for it, or the next run has nothing to compare with"
            self._add(_unknown("baseline", str(error), self._file, advice))

    # -- judging ---------------------------------------------------------------------------

    def _add(self, *checks: Check) -> None:
        self._result.checks += checks

    def _links(self, fabric: Fabric, by_end: Mapping[subnet.End, Link]) -> None:
        found = []
        for one, other in fabric.cables:
            words = f"{self._label(one)} - {self._label(other)}"
            sides = [by_end[one], by_end[other]]
            dark = [side for side in sides if not side.up]
            slow = [side for side in sides if side.could]
            if dark:
                advice = (
                    "look at the cable, whether the port is enabled (ibportstate), and at the subnet manager"
                )
                found.append(_link(words, "Active/LinkUp", str(dark[0]), advice))
            elif slow:
                advice = "the link trained down: reseat or replace the cable or transceiver"
                found.append(_link(words, slow[0].could, str(slow[0]), advice))
        for end, link in sorted(by_end.items()):
            if end not in fabric.ends and link.physical == "LinkUp":
                words = f"{link}, and nobody answers at its other end"
                target, advice = self._label(end), "look at the node or switch at the other end of the cable"
                found.append(Check("links", target, Verdict.UNKNOWN, "", words, "iblinkinfo --line", advice))
        good = f"{len(fabric.cables)} cables Active, as fast and wide as both ends can be"
        self._add(*(found or [Check("links", SUBNET, Verdict.PASS, "", good, "iblinkinfo --line")]))

    def _topology(self, fabric: Fabric, kept: Kept | None, by_end: Mapping[subnet.End, Link]) -> None:
        source = f"ibnetdiscover, {self._file}"
        if kept is None:
            what = (
                "is kept, for later looks" if self._request.writable else "nothing is kept to compare it with"
            )
            self._add(Check("topology", SUBNET, Verdict.SKIP, "", f"{fabric}: {what}", source))
            return
        found = [
            Check("topology", change.target, change.verdict, change.was, change.now, source, change.advice)
            for change in subnet_moves.changes(kept.fabric, fabric, self._names.__getitem__, by_end)
        ]
        good = Check("topology", SUBNET, Verdict.PASS, "as kept", str(fabric), source)
        self._add(*(found or [good]))

    def _errors(self, fabric: Fabric, kept: Kept | None, now: Look, wide: set[str]) -> None:
        source = "ibqueryerrors"
        if kept is None or kept.base is None or kept.last is None:
            what = (
                "is kept, for later looks" if self._request.writable else "nothing is kept to compare it with"
            )
            self._add(Check("errors", SUBNET, Verdict.SKIP, "", f"a first look, which {what}", source))
            return
        found = []
        for one, other in fabric.cables:
            sides = [
                (end, subnet_rises.judge(_key(end), kept.base, kept.last, now, wide)) for end in (one, other)
            ]
            verdict = subnet_rises.worst(verdict for _end, words in sides for verdict, _said in words)
            if verdict is not Verdict.PASS:
                said = [f"{self._label(end)}: {what}" for end, words in sides for _verdict, what in words]
                target = f"{self._label(one)} - {self._label(other)}"
                found.append(
                    Check("errors", target, verdict, "", "; ".join(said), source, subnet_rises.ADVICE)
                )
        good = f"{len(fabric.cables)} cables, no counter of which has risen beyond its limit"
        self._add(*(found or [Check("errors", SUBNET, Verdict.PASS, "", good, source)]))

    def _label(self, end: subnet.End) -> str:
        return f"{self._names[end.node]}/{end.port}"


def by_port(fabric: Fabric, errors: Mapping[tuple[str, int], Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Of every end of a cable, by its node: the port GUID of a switch need not be its node GUID."""
    found: dict[str, dict[str, int]] = {_key(end): {} for end in fabric.ends}
    for (guid, number), counts in errors.items():
        key = _key(subnet.End(fabric.owners.get(guid, guid), number))
        if key in found:
            found[key] = {name: count.value for name, count in counts.items()}
    return found


def _key(end: subnet.End) -> str:
    return f"{end.node}/{end.port}"


def _unknown(name: str, words: str, source: str, advice: str = "") -> Check:
    return Check(name, SUBNET, Verdict.UNKNOWN, "", words, source, advice)


def _link(target: str, expected: str, words: str, advice: str) -> Check:
    return Check("links", target, Verdict.FAIL, expected, words, "iblinkinfo --line", advice)


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
