# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Increases of error counters of ports, their interfaces and PCI functions.

One finding per group of counters of a port or device. It passes only if every judged counter was compared
with an earlier look.
"""

from __future__ import annotations

import re
from typing import Mapping, Sequence, Tuple

from ...host.host import Host
from ...linux.link_counters import Book, Rise
from ...model.errors import HostError
from ...model.record import dataclass, regex
from ...model.setting import Value
from ...topology.model import RdmaDevice, Topology
from ...topology.sysfs import integer
from .. import rdma_limits
from ..expect import Expectations
from ..model import Check, Subject, Verdict
from ..rdma_limits import BY_NAME, COUNTERS, Counter, Limit
from . import ports as rdma_ports
from .ports import CLASS, ETHERNET, NETS, PCI, Port

NAMES = tuple(dict.fromkeys(counter.check for counter in COUNTERS))

#: The last line of an AER file is the total (drivers/pci/pcie/aer.c)
_TOTAL = regex(r"^TOTAL_ERR_[A-Z]+ ([0-9]{1,20})$", re.MULTILINE | re.ASCII)

#: From the worst to the best
_ORDER = (Verdict.FAIL, Verdict.WARN, Verdict.UNKNOWN, Verdict.SKIP, Verdict.PASS)


@dataclass(frozen=True)
class Member:
    """A counter of a group, as read."""

    counter: Counter
    path: str
    value: Value


#: Verdict on one counter, and the reason
_Judgement = Tuple[Verdict, str]


def checks(host: Host, topology: Topology, expect: Expectations, book: Book) -> list[Check]:
    known = rdma_ports.subjects(topology, expect)
    checks = []
    for device in known.devices:
        group = Group(book, device, _identity(host, device))
        for port in known.ports_of(device):
            checks += [group.judge(name, port.name, members, port) for name, members in _of_port(host, port)]
        ports = known.ports_of(device)
        checks.append(group.judge("aer", device.name, _aer(host, device), ports[0]))
    return checks


def _identity(host: Host, device: RdmaDevice) -> str:
    guid = host.value(f"{CLASS}/{device.name}/node_guid").text or ""
    return f"{device.address or 'software'} {guid.strip()}"


# -- reading --------------------------------------------------------------------------------


def _of_port(host: Host, port: Port) -> list[tuple[str, list[Member]]]:
    names = ["fatal_counters", "degradation", "port_errors", "transport"]
    if port.layer == "Unspecified":  # EFA's name
        names.append("efa")
    groups = [(name, _files(host, port, name)) for name in names]
    path = f"{NETS}/carrier_down_count"
    value = Value(absent="no interface of this network namespace is on it")
    if port.nic is not None:
        path = f"{NETS}/{port.nic.name}/carrier_down_count"
        value = rdma_ports.read(host, path)
    flap = Member(BY_NAME["carrier_down_count"], path, value)
    return [*groups, ("nic_discards", _statistics(host, port)), ("flap", [flap])]


def _files(host: Host, port: Port, check: str) -> list[Member]:
    paths = [
        (counter, f"{port.folder}/{counter.place}/{counter.name}")
        for counter in COUNTERS
        if counter.check == check and counter.place in ("counters", "hw_counters")
    ]
    return [Member(counter, path, rdma_ports.read(host, path)) for counter, path in paths]


def _statistics(host: Host, port: Port) -> list[Member]:
    """All existing ones with one request, because the driver returns all of them each time."""
    counters = [counter for counter in COUNTERS if counter.place == "statistic"]
    if port.nic is None or port.layer != ETHERNET:
        why = Value(absent="no Ethernet interface of this network namespace is on it")
        return [Member(counter, "", why) for counter in counters]
    folder = f"/ethtool/{port.nic.name}/statistic"
    values: dict[str, Value] = {}
    why = Value(absent=f"{port.nic.name} has no such statistics (ethtool -S)")
    try:
        here = [name for name in host.names(folder) if name in BY_NAME]
        texts = host.read(f"{folder}/{','.join(here)}").split() if here else []
        values = {name: Value(text) for name, text in zip(here, texts)}
    except HostError as error:
        why = Value(unreadable=str(error))
    return [
        Member(counter, f"{folder}/{counter.name}", values.get(counter.name, why)) for counter in counters
    ]


def _aer(host: Host, device: RdmaDevice) -> list[Member]:
    members = []
    for counter in (counter for counter in COUNTERS if counter.place == "pci"):
        path = f"{PCI}/{device.address}/{counter.name}"
        value = Value(absent="no PCI function: a device in software")
        if device.address:
            value = rdma_ports.read(host, path)
        if value.text is not None:
            total = _TOTAL.search(value.text)
            value = Value(total.group(1)) if total else Value(unreadable=f"{path} has no total")
        members.append(Member(counter, path, value))
    return members


# -- judging --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Group:
    """The counters of one device, compared with the recorded ones."""

    book: Book
    device: RdmaDevice
    identity: str

    def judge(self, check: str, target: str, members: Sequence[Member], port: Port) -> Check:
        declared: Mapping[str, tuple[Limit, ...]] = port.expect.get("counters", {})
        known = self.book.known(self.device.name, self.identity)
        here = [
            member
            for member in members
            if member.value.absent is None or member.path in known or declared.get(member.counter.name)
        ]
        source = ", ".join(dict.fromkeys(member.path.rpartition("/")[0] for member in here or members[:1]))
        subject = Subject(check, target, source)
        if not here:
            return subject.skip(members[0].value.problem)
        counters = [member.counter for member in here]
        limits = {counter.name: declared.get(counter.name, counter.limits) for counter in counters}
        judgements = [self._judgement(member, limits[member.counter.name]) for member in here]
        # Counters without a limit are reported if all others pass, and never decide the verdict.
        limited = [judgement for judgement, member in zip(judgements, here) if limits[member.counter.name]]
        worst = min((verdict for verdict, _why in limited), key=_ORDER.index, default=Verdict.SKIP)
        decisive = [judgement for judgement in limited if judgement[0] is worst]
        if worst is Verdict.PASS or not limited:
            decisive = judgements
        evidence = "; ".join(dict.fromkeys(why for _verdict, why in decisive))
        expected = "; ".join(f"{name} {limit}" for name, some in limits.items() for limit in some)
        advice = rdma_limits.ADVICE[check] if worst in (Verdict.FAIL, Verdict.WARN) else ""
        advice = advice if limited else "declare limits (counters) to have it judged"
        return subject.made(worst, evidence, expected=expected, advice=advice)

    def _judgement(self, member: Member, limits: Sequence[Limit]) -> _Judgement:
        name, text = member.counter.name, member.value.text
        number = integer(text or "")
        if number is None or number < 0:
            self.book.keep(self.device.name, self.identity, member.path)
            strange = f"{member.path} says {(text or '')[:60]!r}, which is not a number"
            return Verdict.UNKNOWN, member.value.problem or strange
        rises = self.book.look(self.device.name, self.identity, member.path, number)
        most = (1 << member.counter.bits) - 1
        if most and number >= most:
            reason = f"{name} stands at its end, {number}, and rises no more: perfquery -R clears it"
            return Verdict.UNKNOWN, reason
        if self.book.problem:
            return Verdict.UNKNOWN, self.book.problem
        if not rises.spans:
            return Verdict.SKIP, f"{name} {number}: {rises.why}"
        for rise in rises.spans:
            for limit in limits:
                if not limit.allows(rise.by, rise.seconds):
                    return member.counter.over, f"{_words(name, number, rise)}, where {limit} is allowed"
        return Verdict.PASS, _words(name, number, rises.spans[0])


def _words(name: str, number: int, rise: Rise) -> str:
    return f"{name} +{rise.by} to {number} in {_duration(rise.seconds)}"


def _duration(seconds: float) -> str:
    """Text in the largest unit that gives at least two."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
