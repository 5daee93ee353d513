# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports of a run about all its hosts, as they come in, in any order.

Equal findings are kept once: of 2,000 hosts with 80 settings each, most have the same to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...module_utils._mlnode.checks.model import Verdict
from ...module_utils._mlnode.model.cause import DIFFERS, Cause, sentence
from ...module_utils._mlnode.model.setting import Layer, Severity, Status
from .. import agent_answer
from .names import natural

#: From the worst on
SEVERITIES = tuple(str(severity) for severity in Severity)

#: From the worst on. What a host may be: `not checked` is not a success, nor is a host of the inventory that
#: none of the merged reports has.
STATES = ("unreachable", "failed", "never answered", "differs", "not checked", "ok")

#: Reasons for states that no module reports
SILENT = {"never answered": "no report has it", "not checked": "no module reported anything about it"}

#: Statuses of settings and verdicts of checks, from the worst on, as far as they are not a success
BAD = (
    str(Verdict.FAIL),
    str(Verdict.PENDING),
    str(Verdict.WARN),
    *(str(status) for status in Status if status.is_drift),
)

#: Nothing is wrong, and nothing was shown to be right
NEITHER = (str(Status.UNSUPPORTED), str(Verdict.SKIP))

#: Every word that a finding may end with
STATUSES = tuple(dict.fromkeys((*BAD, *map(str, Status), *map(str, Verdict))))

#: What a check that does not pass costs, where it has no severity of its own
_COST = {
    str(Verdict.FAIL): str(Severity.HIGH),
    str(Verdict.PENDING): str(Severity.MEDIUM),
    str(Verdict.WARN): str(Severity.MEDIUM),
    str(Verdict.UNKNOWN): str(Severity.MEDIUM),
}


#: The kind of what node_revert reports
_REVERT = "revert"


class Finding(NamedTuple):
    """A setting or a check of one host. None where the module gave none, as checks have no causes."""

    kind: str
    key: str
    status: str
    severity: str
    declared: str | None = None
    want: str | None = None
    runtime: str | None = None
    boot: str | None = None
    boot_source: str | None = None
    origin: str | None = None
    path: str | None = None
    reason: str | None = None
    ignored: str | None = None
    causes: tuple[Cause, ...] = ()

    @property
    def bad(self) -> bool:
        return self.status in BAD and not self.ignored

    @property
    def state(self) -> str:
        """The status, and `ignored` where an exception holds for it."""
        return "ignored" if self.ignored and self.status in BAD else self.status

    @property
    def why(self) -> str:
        """The reason without the runtime value, which has its own field: what is left is the same for all
        settings that have one cause, such as an agent that does not run."""
        if not self.causes:
            return self.reason or ""
        return sentence(cause for cause in self.causes if cause.code != DIFFERS)

    def document(self) -> dict[str, Any]:
        return {**self._asdict(), "causes": [cause.document() for cause in self.causes]}


#: Fields of a finding that are text, or missing
TEXTS = Finding._fields[4:-1]


class Waiver(NamedTuple):
    """An exception as node_drift was given it."""

    key: str
    reason: str
    until: str


class Part(NamedTuple):
    """A report that was merged. hosts: number of those that count. superseded: hosts of which a newer report
    counts. foreign: hosts that the inventory lacks."""

    report: str
    playbook: str
    started: str
    ended: str
    hosts: int
    superseded: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


class Pair(NamedTuple):
    """Measurement between two nodes on one rail. share: of its limit, 1 or more where it keeps it; None
    where there is no value or no limit. value, reason: for people."""

    one: str
    other: str
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
        return self.unnamed + Counter((one.state, one.severity) for one in self.findings.values())

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
        """The highest severity of what is bad; empty if nothing is."""
        severities = {finding.severity for finding in self.findings.values() if finding.bad}
        return next((severity for severity in SEVERITIES if severity in severities), "")


class Outlier(NamedTuple):
    """A setting that is not as expected on some hosts. of: number of hosts that reported it. why: the reason,
    where it is one on all of these hosts."""

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
    #: Of a fleet that several reports are about
    merged: list[Part] = field(default_factory=list)
    campaigns: list[Pairs] = field(default_factory=list)
    #: Host of the inventory that is in no group of nodes → its groups
    left_alone: dict[str, str] = field(default_factory=dict)
    #: Setting that an inventory declares, and why some hosts have it not → these hosts
    unsupported: dict[str, list[str]] = field(default_factory=dict)
    #: Cause for which settings are unsupported → the hosts that share it
    causes: dict[str, list[str]] = field(default_factory=dict)
    _texts: dict[str, str] = field(default_factory=dict, repr=False)
    _known: dict[Finding, Finding] = field(default_factory=dict, repr=False)

    def host(self, name: str, groups: Iterable[str] = ()) -> Host:
        if name not in self.hosts:
            self.hosts[name] = Host(name, tuple(groups))
        return self.hosts[name]

    def ordered(self) -> list[Host]:
        return sorted(self.hosts.values(), key=lambda host: natural(host.name))

    def take(self, host: Host, result: Mapping[str, Any], module: str) -> list[Finding]:
        """Findings of a module. A later one about the same setting replaces an earlier one. Results that have
        another shape than those of mlnode's modules are ignored."""
        taken = [self._one(finding) for finding in findings(result, module)]
        for finding in taken:
            host.findings[finding.kind, finding.key] = finding
        for waiver, state in waivers(result):
            self.waivers.setdefault(waiver, Counter())[state] += 1
        if "compliant" in result and "verdict" in result:  # node_drift alone reports the node as a whole
            host.errors[:] = [_said(error) for error in _list(result.get("errors"))]
        return taken

    def _one(self, finding: Finding) -> Finding:
        known = self._known.get(finding)
        if known is None:
            texts = {name: getattr(finding, name) for name in TEXTS}
            shared = {name: self._texts.setdefault(text, text) for name, text in texts.items() if text}
            known = finding._replace(**shared)  # type: ignore[arg-type]  # the names of texts only
            self._known[known] = known
        return known

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
        """Those of all hosts."""
        found: Counter[tuple[str, str]] = Counter()
        for host in self.hosts.values():
            found.update(host.counts)
        return dict(found)

    def outliers(self) -> list[Outlier]:
        """The worst first, and the rarest: one of 512 is easily missed, and 512 of 512 is not."""
        seen: Counter[tuple[str, str]] = Counter()
        # Hosts of which a merged report only counts what is right: each may have reported any setting.
        unnamed = sum(bool(host.unnamed) for host in self.hosts.values())
        bad: dict[tuple[str, str], list[tuple[str, Finding]]] = {}
        for host in self.ordered():
            for knob, finding in host.findings.items():
                seen[knob] += 0 if host.unnamed else 1
                if finding.bad:
                    bad.setdefault(knob, []).append((host.name, finding))
        outliers = []
        for knob, items in bad.items():
            severities = {finding.severity for _host, finding in items}
            statuses = {finding.status for _host, finding in items}
            reasons = {finding.why for _host, finding in items}
            outliers.append(
                Outlier(
                    *knob,
                    next((one for one in SEVERITIES if one in severities), SEVERITIES[-1]),
                    tuple(one for one in BAD if one in statuses),
                    tuple(host for host, _finding in items),
                    seen[knob] + unnamed,
                    reasons.pop() if len(reasons) == 1 else "",
                )
            )
        return sorted(outliers, key=lambda item: (SEVERITIES.index(item.severity), len(item.hosts)))

    def alike(self, wanted: Callable[[Finding], bool]) -> list[tuple[Finding, list[str]]]:
        """Findings with the names of all hosts that report exactly this; in the order of outliers, and what
        does not count after them."""
        place = {(item.kind, item.key): number for number, item in enumerate(self.outliers())}
        found: dict[Finding, list[str]] = {}
        for host in self.ordered():
            for finding in host.findings.values():
                if wanted(finding):
                    found.setdefault(finding, []).append(host.name)

        def rank(item: tuple[Finding, list[str]]) -> tuple[int, int, int]:
            finding, names = item
            at = place[finding.kind, finding.key] if finding.bad else len(place)
            return at, SEVERITIES.index(finding.severity), len(names)

        return sorted(found.items(), key=rank)

    def ranked(self) -> list[Host]:
        """The worst host first, and of equally bad ones that with the rarest trouble: forty nodes with
        another governor do not stand above the only one whose link is down."""
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
                min((often[one] for one in bad if one[2] == worst), default=0),
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
    found: dict[Any, list[Outlier]] = {}
    for item in outliers:
        found.setdefault((item.why, item.hosts) if item.why else item, []).append(item)
    return [*found.values()]


def findings(result: Mapping[str, Any], module: str, depth: int = 2) -> Iterator[Finding]:
    """Of one result, and of those of a loop or of areas. module: what checks are called together. depth: the
    areas of the results of a loop are the deepest."""
    areas = result.get("areas")
    for item in (*_list(result.get("results")), *(areas.values() if isinstance(areas, Mapping) else ())):
        if isinstance(item, Mapping) and depth:
            yield from findings(item, module, depth - 1)
    for item in _list(result.get("settings")):
        if isinstance(item, Mapping) and {"kind", "key", "status", "severity"} <= {*item}:
            yield _setting(item)
    if isinstance(result.get("reverted"), list):
        yield from _reverted(result)
    for item in _list(result.get("checks")):
        if isinstance(item, Mapping) and {"name", "target", "verdict"} <= {*item}:
            yield _check(item, module)


def _reverted(result: Mapping[str, Any]) -> Iterator[Finding]:
    """Of a revert: each value that was put back, and whether anything stays."""
    put_back = [item for item in _list(result.get("reverted")) if isinstance(item, Mapping)]
    for item in put_back:
        key, value = _said(item.get("key")), agent_answer.text(item.get("value"))
        yield Finding(_REVERT, key, str(Status.CHANGED), str(Severity.LOW), runtime=value)
    stays = [_said(line) for line in _list(result.get("stays"))]
    waits = result.get("reboot_required") is True
    status = Status.PENDING_REBOOT if stays or waits else Status.OK
    reasons = [*stays, *(["the running kernel keeps its command line until a reboot"] if waits else [])]
    yield Finding(
        *(_REVERT, "revert", str(status), str(Severity.MEDIUM)),
        want="as before the first run",
        runtime=f"{len(put_back)} put back" if put_back else "nothing to put back",
        reason="; ".join(reasons),
    )


def waivers(result: Mapping[str, Any]) -> Iterator[tuple[Waiver, str]]:
    for item in _list(result.get("exceptions")):
        if isinstance(item, Mapping) and {"key", "reason", "until", "state"} <= {*item}:
            yield Waiver(*(_said(item[name]) for name in Waiver._fields)), _said(item["state"])


def _setting(item: Mapping[str, Any]) -> Finding:
    return Finding(
        _said(item["kind"]),
        _said(item["key"]),
        _word(item["status"], STATUSES, str(Status.UNKNOWN)),
        _word(item["severity"], SEVERITIES, str(Severity.MEDIUM)),
        **{name: agent_answer.text(item.get(name)) for name in TEXTS},
        causes=tuple(cause(one) for one in _list(item.get("causes")) if isinstance(one, Mapping)),
    )


def cause(item: Mapping[str, Any]) -> Cause:
    """As a row has it. Anything that is missing is empty."""
    layer = Layer.BOOT if item.get("layer") == Layer.BOOT else Layer.RUNTIME
    line = item.get("line")
    code, file, text = (_said(item.get(name)) for name in ("code", "file", "text"))
    return Cause(layer, code, file, line if isinstance(line, int) else 0, text)


def _check(item: Mapping[str, Any], module: str) -> Finding:
    verdict = _word(item["verdict"], STATUSES, str(Verdict.UNKNOWN))
    return Finding(
        module,
        f"{_said(item['name'])} {_said(item['target'])}",
        verdict,
        _word(item.get("severity"), SEVERITIES, _COST.get(verdict, str(Severity.LOW))),
        want=agent_answer.text(item.get("expected")) or None,
        runtime=agent_answer.text(item.get("found")),
        path=agent_answer.text(item.get("source")),
        reason=agent_answer.text(item.get("advice")),
    )


def _word(value: Any, known: tuple[str, ...], otherwise: str) -> str:
    """A word of a newer version is not taken for a success."""
    return known[known.index(value)] if isinstance(value, str) and value in known else otherwise


def _said(value: Any) -> str:
    return agent_answer.text(value) or ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
