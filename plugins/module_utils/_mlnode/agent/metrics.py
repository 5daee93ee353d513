# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`mlnode metrics`: the check of this node as a file for node_exporter, or on the standard output.

At most SERIES on a node without drift, one more for each rail and each NIC, LISTED more on drift, and those
of job_metrics if jobs are looked at: 10,000 nodes with 8 rails and 10 NICs are 1.2 million series at most.
Metrics of node_exporter itself, such as sockets in TIME_WAIT and the bytes of RDMA ports, are not repeated.
`watch` exports values that change by the minute.
"""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Sequence

from ..engine import declared, digests, lock
from ..engine.judge import waits_for_boot
from ..engine.kind import AGENT_KIND, Row, Spec
from ..engine.origin import Origin
from ..engine.origin_paths import is_known
from ..host import places
from ..host.host import Host
from ..knobs.metrics import kind as metrics
from ..knobs.pull.kind import kind as pulling
from ..linux import node_exporter
from ..model.errors import HostError, MlnodeError, UntrustedError
from ..model.record import NamedTuple
from ..model.setting import Status
from ..model.version import VERSION
from ..report.metrics import COUNTER, GAUGE, Family, Sample, render
from . import causes, checked, history, output, pauses, ports, waivers
from .arguments import ERROR, OK
from .checked import LastCheck
from .node import Survey, survey
from .registry import KINDS
from .waivers import Waiver

if TYPE_CHECKING:
    import argparse

#: Series of a node without drift and with each area of this library: the three states of 18 areas, and 11
#: others. Drifted settings that are listed.
SERIES, LISTED = 65, 20

#: A run that holds the lock changes the checked values: wait for it, within the time limit of the service
_WAIT_SECONDS, _POLL_SECONDS = 240.0, 0.2

#: State of a setting. `unsupported` is neither drift nor as declared, because no run can repair it.
_OK, _DRIFTED, _UNSUPPORTED = "ok", "drifted", "unsupported"
_STATES = (_OK, _DRIFTED, _UNSUPPORTED)

#: The one setting of a timer counts in the agent's area, because a fleet has a series for each state of an
#: area
_AREAS = {pulling.KIND: AGENT_KIND}


class Drift(NamedTuple):
    """A drifted setting and its cause."""

    row: Row
    cause: causes.Origin


class Result(NamedTuple):
    """text: the metrics. errors: reasons why the check is incomplete. fresh: drift that is new since the last
    check, or has another value."""

    text: str
    errors: tuple[str, ...]
    checked: LastCheck
    fresh: tuple[Drift, ...] = ()


def wait_for_run(host: Host) -> None:
    """Wait until no run changes this node, or for long enough."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while lock.is_held(host) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def folder(host: Host) -> str:
    """The folder of the file, as the declarations of this node have it. Raises MlnodeError."""
    claims = _claims(host, [])
    if not claims:
        raise HostError(
            "write", node_exporter.FILE, None, "no declaration has textfile_directory: see node_metrics"
        )
    textfile_folder = metrics.folder_of(host, claims[0])
    if textfile_folder.problem:
        raise HostError("write", node_exporter.FILE, None, textfile_folder.problem)
    return textfile_folder.path


def _claims(host: Host, errors: list[str]) -> list[str]:
    """Folders in all declarations. errors: list to which problems of declarations are added."""
    return [
        str(spec["textfile_directory"])
        for item in declared.load_all(host, errors)
        for spec in [item.kinds.get(metrics.kind.KIND, {})]
        if spec.get("textfile_directory")
    ]


def look(host: Host) -> Result:
    """Check the node. Never raises: what went wrong is in the metrics, too."""
    begun, start = time.time(), time.monotonic()
    before, now = checked.load(host), causes.seen(host)
    try:
        node = survey(host)
    except MlnodeError as error:
        node = Survey((), (str(error),))
    rows = [item.row for item in node.rows]
    exceptions = _exceptions(host)
    day = datetime.fromtimestamp(begun, timezone.utc).date()
    drifted = [row for row in rows if row.status.is_drift]
    judged = waivers.judge(exceptions, [row.setting.key for row in drifted], day)
    drifts = [_drift(host, row, before, now) for row in drifted if row.setting.key not in judged.ignored]
    known = checked.after(before, now, rows, {item.row.setting.key: item.cause for item in drifts}, begun)
    rate, known = pauses.rate(host, before, known)
    corrections = history.load(host).corrections
    families = (
        _settings(rows, {item.row.setting.key for item in drifts}),
        *_drifts(drifts),
        _family(
            "mlnode_corrections_total",
            COUNTER,
            "Settings that a run has set right again.",
            corrections,
        ),
        *_about(host),
        _family(
            "mlnode_reboot_required",
            GAUGE,
            "Whether a declared value waits for a reboot.",
            waits_for_boot(rows),
        ),
        _expiry(exceptions),
        *_pulled(host, rows),
        *_jobs(host),
        *([rate] if rate else []),
        ports.rails(host),
        ports.nics(host),
        # The time comes last: half a file lacks it and is not taken for a check.
        *_check(begun, time.monotonic() - start, node),
    )
    fresh = tuple(item for item in drifts if _is_fresh(item, before))
    return Result(render(families), node.errors, known, fresh)


def _is_fresh(drift: Drift, before: LastCheck) -> bool:
    was = before.settings.get(drift.row.setting.key)
    return was is None or not was.cause or was.runtime != drift.row.reading.runtime.text


def export(host: Host) -> Result:
    """Check the node, write the file and keep the state for the next check. If no declaration has a folder
    any more, remove the remaining file. Raises MlnodeError."""
    if not host.is_superuser():
        raise HostError("write", checked.PATH, None, "root is needed; --print shows the metrics")
    errors: list[str] = []
    is_left = host.exists(node_exporter.NOTE) and not _claims(host, errors) and not errors
    where = "" if is_left else folder(host)
    with lock.alone(host, places.CHECK_LOCK) as is_alone:
        if not is_alone:
            raise HostError("check", "this node", None, "another check is under way")
        if is_left:  # by a run that could not write there
            node_exporter.remove(host)
            return Result("", (), LastCheck())
        result = look(host)
        node_exporter.write(host, where, result.text)
        checked.save(host, result.checked)
        past = history.load(host).settings if result.fresh else {}
        for drift in result.fresh:
            history.report_drift(host, drift.row, drift.cause.words, past.get(drift.row.setting.key))
    return result


def _drift(host: Host, row: Row, before: LastCheck, now: causes.Seen) -> Drift:
    """The cause that the first check after the change has seen stays, as later ones know less."""
    known = before.settings.get(row.setting.key)
    if known and known.cause and known.runtime == row.reading.runtime.text and known.status == row.status:
        return Drift(row, known.cause)
    return Drift(row, causes.find_cause(host, row, before.seen, now))


def _exceptions(host: Host) -> list[Waiver]:
    """Exceptions of all declarations; the kind has already refused invalid ones."""
    try:
        given = [
            item
            for declaration in declared.load_all(host, [])
            for item in declaration.kinds.get(metrics.kind.KIND, {}).get("ignore", [])
        ]
        return waivers.parse(given)
    except (MlnodeError, KeyError, TypeError):
        return []


# -- the families --------------------------------------------------------------------------


def _family(name: str, kind: str, text: str, value: float, **labels: str) -> Family:
    return Family(name, kind, text, (Sample(float(value), labels),))


def _settings(rows: Sequence[Row], drifted: set[str]) -> Family:
    """Counts with zeros, so a rule can see a new state; areas without a declaration are left out."""
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        area = _AREAS.get(row.setting.kind, row.setting.kind)
        for state in _STATES:
            counts.setdefault((area, state), 0)
        counts[area, _state(row, drifted)] += 1
    samples = (Sample(number, {"area": area, "state": state}) for (area, state), number in counts.items())
    return Family("mlnode_settings", GAUGE, "Declared settings by area and state.", tuple(samples))


def _state(row: Row, drifted: set[str]) -> str:
    if row.setting.key in drifted:
        return _DRIFTED
    return _UNSUPPORTED if row.status is Status.UNSUPPORTED else _OK


def _drifts(drifts: Sequence[Drift]) -> tuple[Family, Family]:
    worst = sorted(drifts, key=lambda item: (_rank(item.row), item.row.setting.key))
    samples = tuple(
        Sample(
            1,
            {
                "area": item.row.setting.kind,
                "setting": item.row.setting.key,
                "cause": item.cause.label,
                "status": str(item.row.status),
            },
        )
        for item in worst[:LISTED]
    )
    text = f"Settings that are not as declared, at most {LISTED}, with the cause of each."
    rest = max(0, len(worst) - LISTED)
    return (
        Family("mlnode_drift_info", GAUGE, text, samples),
        _family(
            "mlnode_drift_unlisted_settings",
            GAUGE,
            "Drifted settings besides those in mlnode_drift_info.",
            rest,
        ),
    )


def _rank(row: Row) -> int:
    """Sort key: the most severe rows come first and are listed."""
    return ("high", "medium", "low").index(str(row.info.severity))


def _check(begun: float, took: float, node: Survey) -> tuple[Family, ...]:
    success = not node.errors
    return (
        _family("mlnode_check_duration_seconds", GAUGE, "Time that the check took.", round(took, 6)),
        _family("mlnode_check_success", GAUGE, "Whether the check has seen all that is declared.", success),
        _family(
            "mlnode_check_timestamp_seconds", GAUGE, "When the node was last checked, as Unix time.", begun
        ),
    )


def _about(host: Host) -> tuple[Family, Family]:
    digest, author = _declaration(host)
    return (
        _family("mlnode_build_info", GAUGE, "Version of mlnode.", 1, version=VERSION),
        _family(
            "mlnode_declaration_info",
            GAUGE,
            "Digest of all declarations of the node; author: mlnode if a run has written all of them.",
            1,
            digest=digest,
            author=author,
        ),
    )


def _declaration(host: Host) -> tuple[str, str]:
    """The digest, and `mlnode`, or `other` if a file differs from the last run's on this node."""
    try:
        items = declared.load_all(host)
        kinds = {
            f"{item.name} {kind}": _shared(kind, spec) for item in items for kind, spec in item.kinds.items()
        }
        digest = digests.digests({"all": kinds}).get("all", "")
        entries = {entry["file"]: entry for entry in Origin.load(host).entries() if "file" in entry}
        own = all(
            item.path in entries and is_known(entries[item.path], host.snapshot(item.path)) for item in items
        )
        return digest, "mlnode" if own else "other"
    except (MlnodeError, UntrustedError):
        return "unreadable", "unknown"


def _shared(kind: str, spec: Spec) -> Spec:
    """Without the name by which a node that pulls knows itself: nodes of one group have one digest."""
    return {**spec, "node": None} if kind == pulling.KIND else spec


def _expiry(exceptions: Sequence[Waiver]) -> Family:
    """Expiry of the next exception: no other is due before it."""
    name, text = (
        "mlnode_exception_expiry_timestamp_seconds",
        "End of the exception that ends next, as Unix time.",
    )
    if not exceptions:
        return Family(name, GAUGE, text, ())
    first = min(exceptions, key=lambda item: item.until)
    end = datetime(first.until.year, first.until.month, first.until.day, tzinfo=timezone.utc).timestamp()
    return _family(name, GAUGE, text, end + 86400, setting=first.key)


def _pulled(host: Host, rows: Sequence[Row]) -> tuple[Family, ...]:
    """State of pulling; 0 for unknown, such as before the first pull."""
    if not any(row.setting.kind == pulling.KIND for row in rows):
        return ()
    # Only here: most nodes do not pull.
    from . import pull

    try:
        at = pull.load(host, pull.enrolment(host)["node"]).at
    except MlnodeError:
        at = 0.0
    text = (
        "When this node last had its newest published declaration, in force or for its window, as Unix time; "
        "verdict: of the last pull."
    )
    name = "mlnode_pull_success_timestamp_seconds"
    return (_family(name, GAUGE, text, at, verdict=pull.last_verdict(host)),)


def _jobs(host: Host) -> tuple[Family, ...]:
    """Running jobs, if a declaration has them looked at."""
    specs = [item.kinds.get(metrics.kind.KIND, {}) for item in declared.load_all(host, [])]
    if not any(spec.get("jobs") for spec in specs):
        return ()
    # Only here: most nodes do not look at jobs.
    from . import job_metrics

    return job_metrics.families(host)


def areas() -> tuple[str, ...]:
    """All that the label area can be."""
    return (AGENT_KIND, *KINDS)


def document(result: Result) -> dict[str, Any]:
    """Document for --json: the state that the next check compares with."""
    return {**checked.document(result.checked), "errors": list(result.errors)}


def command(host: Host, options: argparse.Namespace) -> int:
    """`mlnode metrics`, and its exit status."""
    if options.watch:
        from . import watch

        return watch.command(host, options)
    if options.print or options.json or not host.live:
        result = look(host)
        if options.json:
            output.print_json(document(result))
        else:
            output.say(result.text.rstrip("\n"))
    else:
        wait_for_run(host)
        result = export(host)
    for error in result.errors:
        output.complain(error)
    return ERROR if result.errors else OK
