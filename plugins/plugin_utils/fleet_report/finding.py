# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings, checks and exceptions, as the results of modules have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ...module_utils._mlnode.checks.model import Verdict
from ...module_utils._mlnode.model.cause import DIFFERS, Cause, sentence
from ...module_utils._mlnode.model.setting import Layer, Severity, Status
from .. import agent_answer

#: From the worst on
SEVERITIES = tuple(str(severity) for severity in Severity)

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

#: Severity of a check that does not pass, unless it has its own
_COST = {
    str(Verdict.FAIL): str(Severity.HIGH),
    str(Verdict.PENDING): str(Severity.MEDIUM),
    str(Verdict.WARN): str(Severity.MEDIUM),
    str(Verdict.UNKNOWN): str(Severity.MEDIUM),
}


#: Kind of the findings of node_revert
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
        """The status, or `ignored` while an exception applies."""
        return "ignored" if self.ignored and self.status in BAD else self.status

    @property
    def why(self) -> str:
        """The reason without the runtime value, which has its own field. The rest is the same for all
        settings with one cause, such as an agent that does not run."""
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


def findings(result: Mapping[str, Any], module: str, depth: int = 2) -> Iterator[Finding]:
    """Findings of one result, and of the results of a loop or of areas in it. module: common name of the
    checks. depth: the deepest results are the areas of a loop's results."""
    areas = result.get("areas")
    for item in (*listed(result.get("results")), *(areas.values() if isinstance(areas, Mapping) else ())):
        if isinstance(item, Mapping) and depth:
            yield from findings(item, module, depth - 1)
    for item in listed(result.get("settings")):
        if isinstance(item, Mapping) and {"kind", "key", "status", "severity"} <= {*item}:
            yield _setting(item)
    if isinstance(result.get("reverted"), list):
        yield from _reverted(result)
    for item in listed(result.get("checks")):
        if isinstance(item, Mapping) and {"name", "target", "verdict"} <= {*item}:
            yield _check(item, module)


def _reverted(result: Mapping[str, Any]) -> Iterator[Finding]:
    """Of a revert: each value that was put back, and whether anything stays."""
    put_back = [item for item in listed(result.get("reverted")) if isinstance(item, Mapping)]
    for item in put_back:
        key, value = said(item.get("key")), agent_answer.text(item.get("value"))
        yield Finding(_REVERT, key, str(Status.CHANGED), str(Severity.LOW), runtime=value)
    stays = [said(line) for line in listed(result.get("stays"))]
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
    for item in listed(result.get("exceptions")):
        if isinstance(item, Mapping) and {"key", "reason", "until", "state"} <= {*item}:
            yield Waiver(*(said(item[name]) for name in Waiver._fields)), said(item["state"])


def _setting(item: Mapping[str, Any]) -> Finding:
    return Finding(
        said(item["kind"]),
        said(item["key"]),
        _word(item["status"], STATUSES, str(Status.UNKNOWN)),
        _word(item["severity"], SEVERITIES, str(Severity.MEDIUM)),
        **{name: agent_answer.text(item.get(name)) for name in TEXTS},
        causes=tuple(cause(entry) for entry in listed(item.get("causes")) if isinstance(entry, Mapping)),
    )


def cause(item: Mapping[str, Any]) -> Cause:
    """As a row has it. Anything that is missing is empty."""
    layer = Layer.BOOT if item.get("layer") == Layer.BOOT else Layer.RUNTIME
    line = item.get("line")
    code, file, text = (said(item.get(name)) for name in ("code", "file", "text"))
    return Cause(layer, code, file, line if isinstance(line, int) else 0, text)


def _check(item: Mapping[str, Any], module: str) -> Finding:
    verdict = _word(item["verdict"], STATUSES, str(Verdict.UNKNOWN))
    return Finding(
        module,
        f"{said(item['name'])} {said(item['target'])}",
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


def said(value: Any) -> str:
    return agent_answer.text(value) or ""


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
