# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bandwidth of a port, compared with its rate: measured with ib_write_bw between two nodes.

It takes the link for some seconds, so that it is not one of the checks that run by default.
"""

from __future__ import annotations

import re
from typing import Any, Collection, Mapping

from ...host.host import Host
from ...linux import jobs, perftest
from ...model import cpulist, schema
from ...model.errors import DeclarationError, RefusedError
from ...model.record import dataclass, regex
from ...model.schema import Option, Table
from ...topology import read
from .. import end
from ..model import Check, Verdict
from . import usable
from .ports import Port
from .usable import UnusableError

MOUNTS = read.MOUNTS

NAME = "bandwidth"

#: What `allow` may switch off
GUARDS = ("busy",)
_ALLOW = Option("list", elements="str", choices=GUARDS, default=[])

OPTIONS: Table = {
    "device": Option("str", required=True),
    "port": Option("int", default=1),
    "serve": Option("bool", default=False),
    "peer": Option("str"),
    "gid_index": Option("int"),
    "size": Option("int", default=65536),
    "duration": Option("int", default=perftest.LEAST_SECONDS),
    "tcp_port": Option("int", default=perftest.TCP_PORT),
    "timeout": Option("int", default=60),
    "fraction": Option("float", default=0.9),
    "least": Option("float"),
    "allow": _ALLOW,
    **end.fail_on("unknown"),
}

#: As many as a message bears; there may be hundreds
_LISTED = 4

#: None begins with a dash, which would make it an option of the program
_DEVICE = regex(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,62}\Z", re.ASCII)
#: An IPv4 address or a name: perftest agrees over IPv4
_PEER = regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}\Z", re.ASCII)

#: Option → what it may be. Sizes are those of perftest's own series; mlx5 has 256 GIDs
_RANGES: Mapping[str, range] = {
    "port": range(1, 256),
    "gid_index": range(256),
    "size": range(2, (1 << 23) + 1),
    "duration": range(perftest.LEAST_SECONDS, 3601),
    "tcp_port": range(1024, 65536),
    "timeout": range(86_401),
}


@dataclass(frozen=True)
class Wanted:
    """Input of a measurement. peer: "" serves. gid_index: None for the one that is found. least: Gb/s."""

    device: str
    port: int
    peer: str
    gid_index: int | None
    size: int
    duration: int
    tcp_port: int
    timeout: int
    fraction: float
    least: float | None
    allow: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measured:
    """gbits: None where nothing was."""

    check: Check
    gbits: float | None = None


def answer(host: Host, given: Mapping[str, Any], dry: bool) -> dict[str, Any]:
    """Result of the module rdma_bandwidth. Raises DeclarationError, RefusedError."""
    measured = measure(host, parse(given), dry=dry)
    more = {} if measured.gbits is None else {"gbits": measured.gbits}
    return end.result("rdma_bandwidth", [measured.check], given["fail_on"], **more)


def parse(raw: Mapping[str, Any]) -> Wanted:
    """Raises DeclarationError."""
    if bool(raw.get("serve")) == (raw.get("peer") is not None):
        raise DeclarationError("give one of serve: true and peer: ADDRESS")
    device, peer = raw["device"], raw.get("peer")
    if not _DEVICE.match(device):
        raise DeclarationError(f"device: {device!r} is not an RDMA device such as mlx5_0")
    if peer is not None and not _PEER.match(peer):
        raise DeclarationError(f"peer: {peer!r} is neither an IPv4 address nor a name")
    for name, allowed in _RANGES.items():
        if raw.get(name) is not None and raw[name] not in allowed:
            raise DeclarationError(f"{name}: {raw[name]} is not between {allowed[0]} and {allowed[-1]}")
    if not 0 < raw["fraction"] <= 1:
        raise DeclarationError(f"fraction: {raw['fraction']:g} is not above 0 and at most 1")
    least = raw.get("least")
    if least is not None and not 0 < least < float("inf"):
        raise DeclarationError(f"least: {least:g} is not a bandwidth in Gb/s")
    allow = schema.value("allow", _ALLOW, raw.get("allow") or [])
    ranged: dict[str, Any] = {name: raw.get(name) for name in _RANGES}
    return Wanted(
        device=device,
        peer=peer or "",
        fraction=raw["fraction"],
        least=least,
        allow=tuple(allow),
        **ranged,
    )


def measure(host: Host, wanted: Wanted, dry: bool = False) -> Measured:
    """Run one side, and judge it. dry: check only that it could begin. Raises HostError, RefusedError."""
    topology = read.of(host)
    name = f"{wanted.device}/{wanted.port}"
    target = f"{name} -> {wanted.peer}" if wanted.peer else name
    try:
        port = usable.find(host, topology, wanted.device, wanted.port)
        goal, gid = Goal.of(wanted, port), usable.gid(host, port, wanted.gid_index)
    except UnusableError as stop:
        return Measured(Check(NAME, target, stop.verdict, "", stop.found, stop.source, stop.advice))
    _refuse_busy(host, name, wanted.allow)
    cpus = usable.cpus(topology, port.device)
    request = perftest.Request(
        device=wanted.device,
        port=wanted.port,
        peer=wanted.peer,
        gid=gid,
        size=wanted.size,
        seconds=wanted.duration,
        tcp_port=wanted.tcp_port,
        wait=wanted.timeout,
    )
    source, expected = " ".join(request.command), str(goal)
    if dry:
        return Measured(Check(NAME, target, Verdict.SKIP, expected, "nothing is sent in check mode", source))
    run = perftest.measure(host, request, cpus)
    if run.gbits is None:
        return Measured(Check(NAME, target, Verdict.UNKNOWN, expected, run.words, source, run.advice))
    where = f"on CPUs {cpulist.render(cpus)}" if cpus else "on any CPU, as its NUMA node is not known"
    return Measured(goal.judge(target, run.gbits, where, source), run.gbits)


# -- what it has to be ---------------------------------------------------------------------


@dataclass(frozen=True)
class Goal:
    """Least bandwidth that passes, in Gb/s, with the reason; None, with the reason, where it is unknown."""

    gbits: float | None
    words: str

    @classmethod
    def of(cls, wanted: Wanted, port: Port) -> Goal:
        if wanted.least is not None:
            return cls(wanted.least, "as declared")
        data, why = usable.gbits(port)
        if data is None:
            return cls(None, why)
        return cls(wanted.fraction * data, f"{wanted.fraction:g} of {data:g}")

    def __str__(self) -> str:
        return "" if self.gbits is None else f"at least {self.gbits:g} Gb/s, {self.words}"

    def judge(self, target: str, gbits: float, where: str, source: str) -> Check:
        found = f"{gbits:g} Gb/s {where}"
        if self.gbits is None:
            found += f"; {self.words}"
            return Check(NAME, target, Verdict.UNKNOWN, "", found, source, "declare least, in Gb/s")
        if gbits >= self.gbits:
            return Check(NAME, target, Verdict.PASS, str(self), found, source)
        advice = (
            "look at rate, pcie_link, max_read_request and relaxed_ordering of both sides (rdma_check), and "
            "at other senders"
        )
        return Check(NAME, target, Verdict.FAIL, str(self), found, source, advice)


# -- before it begins ----------------------------------------------------------------------


def _refuse_busy(host: Host, target: str, allow: Collection[str]) -> None:
    running = [] if "busy" in allow else jobs.running(host)
    if running:
        more = f" and {len(running) - _LISTED} more" if len(running) > _LISTED else ""
        reason = (
            f"{target}: this takes the whole link, under what runs here: {', '.join(running[:_LISTED])}{more}"
        )
        raise RefusedError(schema.unless_allowed("busy", reason, allow))
