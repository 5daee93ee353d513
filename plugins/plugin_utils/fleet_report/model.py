# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports of a run about all its hosts, as they come in, in any order.

Equal findings are kept once: of 2,000 hosts with 80 settings each, most have the same to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...module_utils._mlnode.model.values import by_key
from .finding import BAD, SEVERITIES, Finding, Waiver, findings, listed, said, waivers
from .names import natural

#: A look at the subnet, which one node takes for all: it says nothing about this node or another
OF_SUBNET = "ib_subnet"

#: States of a host, the worst first. `not checked` is not a success, nor is a host of the inventory that is
#: in none of the merged reports.
STATES = ("unreachable", "failed", "never answered", "differs", "not checked", "ok")

#: Reasons for states that no module reports
SILENT = {"never answered": "no report has it", "not checked": "no module reported anything about it"}


class Part(NamedTuple):
    """A merged report. hosts: number of hosts that count. superseded: hosts with a newer report. foreign:
    hosts outside the inventory."""

    report: str
    playbook: str
    started: str
    ended: str
    hosts: int
    superseded: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


class Pair(NamedTuple):
    """Measurement between two nodes on one rail. share: part of the limit, 1 or more if it is kept; None
    without a value or a limit. value, reason: for readers."""

    first: str
    second: str
    rail: int
    share: float | None
    verdict: str
    value: str
    reason: str


class Pairs(NamedTuple):
    """One campaign between the nodes of the fleet. leaves: node → its leaf switch, empty if not known."""

    kind: str
    name: str
    leaves: Mapping[str, str]
    pairs: tuple[Pair, ...]


class Deviation(NamedTuple):
    """A deviation of a job. who: its ranks or nodes. text: for readers."""

    verdict: str
    severity: str
    who: str
    text: str
    nodes: tuple[str, ...]


class Job(NamedTuple):
    """A job over its nodes. seen: ranks that were seen, for readers. alike: number of values that all ranks
    share. deviations: the worst first."""

    name: str
    nodes: tuple[str, ...]
    seen: str
    verdict: str
    alike: int
    deviations: tuple[Deviation, ...]


class Metric(NamedTuple):
    """Effect on one metric. ends: low, value and high in percent; None without an interval. area: whose
    effect it is, or empty for the whole declaration."""

    name: str
    unit: str
    better: str
    verdict: str
    ends: tuple[float, float, float] | None
    area: str = ""


class Effect(NamedTuple):
    """A result of effect.yml. least: the smallest effect that matters, in percent. notes: for people."""

    file: str
    name: str
    nodes: tuple[str, ...]
    stopped: str
    least: float
    metrics: tuple[Metric, ...]
    notes: tuple[str, ...] = ()


@dataclass
class Host:
    """errors: what kept parts of it from being looked at. failures: messages of the tasks that failed.
    unnamed: (status, severity) → number of findings that a merged report counts without their names. silent:
    its state where the report that was to have it has nothing, whatever another one has measured. skipped:
    why it was left out of this run on purpose."""

    name: str
    groups: tuple[str, ...] = ()
    findings: dict[tuple[str, str], Finding] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    unreachable: str = ""
    unnamed: Counter[tuple[str, str]] = field(default_factory=Counter)
    silent: str = ""
    skipped: str = ""

    @property
    def counts(self) -> Counter[tuple[str, str]]:
        """(status, severity) → findings; an ignored one has the status `ignored`."""
        return self.unnamed + Counter((finding.state, finding.severity) for finding in self.findings.values())

    @property
    def bad(self) -> list[Finding]:
        return [finding for finding in self.findings.values() if finding.bad]

    @property
    def state(self) -> str:
        if self.unreachable:
            return "unreachable"
        if self.errors or self.failures:
            return "failed"
        if self.silent == "never answered":
            return self.silent
        if any(finding.bad for finding in self.findings.values()):
            return "differs"
        if self.silent:
            return self.silent
        return "ok" if self.findings or self.unnamed else "not checked"

    @property
    def words(self) -> list[str]:
        """Reasons why it is unreachable, failed, or was not checked, as they were reported."""
        skipped = [self.skipped] if self.skipped and self.state == "not checked" else []
        return [*filter(None, [self.unreachable]), *self.failures, *self.errors, *skipped]

    @property
    def worst(self) -> str:
        """Highest severity of the bad findings; empty without any."""
        severities = {finding.severity for finding in self.findings.values() if finding.bad}
        return next((severity for severity in SEVERITIES if severity in severities), "")


class Outlier(NamedTuple):
    """A setting that differs on some hosts. of: number of hosts that reported it. why: the reason, if all of
    these hosts have the same."""

    kind: str
    key: str
    severity: str
    statuses: tuple[str, ...]
    hosts: tuple[str, ...]
    of: int
    why: str = ""


@dataclass
class Fleet:
    """All hosts of a run."""

    playbook: str = ""
    check_mode: bool = False
    started: str = ""
    ended: str = ""
    hosts: dict[str, Host] = field(default_factory=dict)
    #: Exception → the states that hosts gave it: used, expired, unused
    waivers: dict[Waiver, Counter[str]] = field(default_factory=dict)
    #: Reports of a merged fleet
    merged: list[Part] = field(default_factory=list)
    campaigns: list[Pairs] = field(default_factory=list)
    #: The worst first
    jobs: list[Job] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    #: Host of the inventory that is in no group of nodes → its groups
    left_alone: dict[str, str] = field(default_factory=dict)
    #: Setting that an inventory declares, and why some hosts have it not → these hosts
    unsupported: dict[str, list[str]] = field(default_factory=dict)
    #: Cause for which settings are unsupported → the hosts that share it
    causes: dict[str, list[str]] = field(default_factory=dict)
    _known: dict[Finding, Finding] = field(default_factory=dict, repr=False)

    def host(self, name: str, groups: Iterable[str] = ()) -> Host:
        if name not in self.hosts:
            self.hosts[name] = Host(name, tuple(groups))
        return self.hosts[name]

    def ordered(self) -> list[Host]:
        return sorted(self.hosts.values(), key=lambda host: natural(host.name))

    def take(self, host: Host, result: Mapping[str, Any], module: str) -> list[Finding]:
        """Findings of a module. A later finding about the same setting replaces an earlier one. Results with
        another structure than the results of mlnode's modules are ignored."""
        taken = [self._known.setdefault(finding, finding) for finding in findings(result, module)]
        for finding in taken:
            host.findings[finding.kind, finding.key] = finding
        for waiver, state in waivers(result):
            self.waivers.setdefault(waiver, Counter())[state] += 1
        if "compliant" in result and "verdict" in result:  # node_drift alone reports the node as a whole
            host.errors[:] = [said(error) for error in listed(result.get("errors"))]
        return taken

    def knobs(self) -> list[tuple[str, str]]:
        """Each kind and key that any host has reported: kinds together, otherwise in the order of tasks."""
        kinds: dict[str, dict[tuple[str, str], None]] = {}
        for host in self.ordered():
            for knob in host.findings:
                kinds.setdefault(knob[0], {})[knob] = None
        return [knob for knobs in kinds.values() for knob in knobs]

    def states(self) -> dict[str, int]:
        """From the worst on, without those that no host is in."""
        counts = Counter(host.state for host in self.hosts.values())
        return {state: counts[state] for state in STATES if counts[state]}

    def counts(self) -> dict[tuple[str, str], int]:
        """Counts of all hosts."""
        counts: Counter[tuple[str, str]] = Counter()
        for host in self.hosts.values():
            counts.update(host.counts)
        return dict(counts)

    def _holders(self) -> dict[Finding, list[str]]:
        """Finding → the names of all hosts that report exactly this, in their order."""
        return by_key((finding, host.name) for host in self.ordered() for finding in host.findings.values())

    def outliers(self) -> list[Outlier]:
        """The worst first, and the rarest: one of 512 is easily missed, and 512 of 512 is not."""
        # A merged report only counts the correct settings of these hosts: each may have reported any setting.
        unnamed = {host.name for host in self.hosts.values() if host.unnamed}
        place = {host.name: at for at, host in enumerate(self.ordered())}
        seen: Counter[tuple[str, str]] = Counter()
        bad: dict[tuple[str, str], dict[Finding, list[str]]] = {}
        for finding, names in self._holders().items():
            knob = finding.kind, finding.key
            seen[knob] += len({*names} - unnamed)
            if finding.bad:
                bad.setdefault(knob, {})[finding] = names
        outliers = []
        for knob, items in bad.items():
            whys = {finding.why for finding in items}
            outliers.append(
                Outlier(
                    *knob,
                    min((finding.severity for finding in items), key=SEVERITIES.index),
                    tuple(sorted({finding.status for finding in items}, key=BAD.index)),
                    tuple(
                        sorted((name for names in items.values() for name in names), key=place.__getitem__)
                    ),
                    seen[knob] + len(unnamed),
                    whys.pop() if len(whys) == 1 else "",
                )
            )
        return sorted(outliers, key=lambda item: (SEVERITIES.index(item.severity), len(item.hosts)))

    def alike(self, wanted: Callable[[Finding], bool]) -> list[tuple[Finding, list[str]]]:
        """Findings with the names of all hosts that report exactly this, in the order of outliers; then all
        findings that do not count."""
        place = {(item.kind, item.key): number for number, item in enumerate(self.outliers())}

        def rank(item: tuple[Finding, list[str]]) -> tuple[int, int, int]:
            finding, names = item
            at = place[finding.kind, finding.key] if finding.bad else len(place)
            return at, SEVERITIES.index(finding.severity), len(names)

        return sorted((item for item in self._holders().items() if wanted(item[0])), key=rank)

    def ranked(self) -> list[Host]:
        """The worst host first; among equals, the host with the rarest problem. Forty nodes with another
        governor must not hide the only node with a link down."""
        hosts = self.ordered()
        words = Counter((host.state, tuple(host.words)) for host in hosts)
        often = Counter(
            (finding.kind, finding.key, finding.severity) for host in hosts for finding in host.bad
        )

        def rank(host: Host) -> tuple[int, ...]:
            worst = host.worst
            bad = [(finding.kind, finding.key, finding.severity) for finding in host.bad]
            counts = Counter(severity for _kind, _key, severity in bad)
            return (
                STATES.index(host.state),
                words[host.state, tuple(host.words)] if host.words else 0,
                SEVERITIES.index(worst) if worst else len(SEVERITIES),
                min((often[key] for key in bad if key[2] == worst), default=0),
                *(-counts[severity] for severity in SEVERITIES),
            )

        return sorted(hosts, key=rank)

    def troubles(self) -> dict[tuple[str, str], list[str]]:
        """Hosts about which something is not known, by state and reason, the worst first. The reason may be
        empty."""
        alike: dict[tuple[str, str], list[str]] = {}
        for host in self.ranked():
            if host.state not in ("differs", "ok"):
                words = " ".join("; ".join(dict.fromkeys(host.words)).split())
                alike.setdefault((host.state, words), []).append(host.name)
        return alike

    def unused(self) -> list[Waiver]:
        """Exceptions that no host has a use for."""
        return [waiver for waiver, states in self.waivers.items() if {*states} == {"unused"}]


def causes(outliers: Iterable[Outlier]) -> list[list[Outlier]]:
    """Outliers in their order; those that have one reason on the same hosts are together, as one repair is
    enough for them."""
    groups = by_key(((item.why, item.hosts) if item.why else item, item) for item in outliers)
    return [*groups.values()]
