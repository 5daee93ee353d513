# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`mlnode pull`: a new declaration of this node, fetched from a web server, verified and applied.

No content from the network is parsed before its signature is verified with the keys of this node's enrolment.
Changes that may cut off the node, and reboots, are left to a playbook.
"""

from __future__ import annotations

import errno
import hashlib
import json
import time
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from ..engine import declared, lock
from ..host import places, signature, trust, web
from ..host.host import Host
from ..knobs.pull.kind import kind as enrolled
from ..knobs.pull.window import is_open
from ..model import strict_json
from ..model.errors import DamagedError, HostError, MlnodeError, printable
from ..model.record import NamedTuple
from ..model.version import VERSION
from . import output, pull_document
from .arguments import DRIFT, ERROR, OK
from .pull_document import Document

if TYPE_CHECKING:
    import argparse

#: State that the next pull compares with
PATHS = (places.PULLED, places.PULLED_COPY)
FORMAT = 1

#: Results in this order: nothing new; in force now; waits for its window; needs a playbook, because it may
#: cut off the node. Then: not all of it is in force; nothing was changed, because it is not for this node or
#: not by a signer; no complete answer arrived.
UNCHANGED, APPLIED, WAITING, HELD = "unchanged", "applied", "waiting", "held"
FAILED, REFUSED, UNREACHABLE = "failed", "refused", "unreachable"
_VERDICTS = (UNCHANGED, APPLIED, WAITING, HELD, FAILED, REFUSED, UNREACHABLE)

#: Characters of a reason, and with them fewer than 5,000 bytes of a report
_MOST_REASON = 3000
#: Bytes of an answer to a report; its content is ignored
_MOST_ANSWER = 4096

Spec = Mapping[str, Any]


class State(NamedTuple):
    """serial, digest: of the newest accepted document. etag: of a document that needs no second look. window:
    the window that it waits for. at: last Unix time at which this node had the newest one, in force or
    waiting for its window. unsent: a report did not arrive."""

    node: str
    serial: int = 0
    digest: str = ""
    url: str = ""
    etag: str = ""
    window: Sequence[str] = ()
    at: float = 0.0
    unsent: bool = False


class Result(NamedTuple):
    """changed: name and area of the changes, made or previewed. fresh: there is more to report than last
    time."""

    verdict: str
    reason: str = ""
    changed: Sequence[str] = ()
    reboot: bool = False
    fresh: bool = True


def pull(host: Host, dry_run: bool = False) -> tuple[dict[str, Any], bool]:
    """The report, and whether it arrived at its receiver. dry_run: write and send nothing. Raises MlnodeError
    if this node is not enrolled."""
    spec = enrolment(host)
    # The input and result of the verification are kept in it for a moment.
    trust.require(host, places.PULL_FOLDER)
    with lock.alone(host, places.PULL_LOCK) as is_alone:
        if not is_alone:
            raise HostError("pull", "to this node", None, "another pull is under way")
        signature.clear(host)
        try:
            before = load(host, spec["node"])
        except MlnodeError as error:
            before, after = State(spec["node"]), None
            result = Result(REFUSED, str(error))
        else:
            result, after = _pull(host, spec, before, dry_run)
        report = _report(result, after or before)
        if dry_run:
            return report, True
        host.write_file(places.PULL_REPORT, _bytes(report), mode=0o600)
        problem = _send(spec, report) if result.fresh or before.unsent else ""
        if after:
            _save(host, after._replace(unsent=bool(problem)))
        return {**report, **({"unsent": problem} if problem else {})}, not problem


def enrolment(host: Host) -> Spec:
    """The area, as the declarations of this node have it. Raises MlnodeError."""
    errors: list[str] = []
    specs = {
        item.name: item.checked_spec(enrolled.KIND, enrolled.OPTIONS)
        for item in declared.load_all(host, errors)
        if declared.declares(item.kinds.get(enrolled.KIND, {}))
    }
    enrolments = [*specs.values()]
    if not enrolments:
        why = errors[0] if errors else "no declaration has the area pull: see node_pull"
        raise HostError("pull", "to this node", None, why)
    if any(spec != enrolments[0] for spec in enrolments):
        raise MlnodeError(f"pull is declared by {' and '.join(specs)}, differently: leave it to one of them")
    enrolled.parse(enrolments[0], None)
    return enrolments[0]


# -- from the server -----------------------------------------------------------------------


def _pull(host: Host, spec: Spec, before: State, dry_run: bool) -> tuple[Result, State]:
    url = f"{spec['url']}/{pull_document.file_name(spec['node'])}"
    now = time.time()
    waits = bool(before.window) and not is_open(before.window, now)
    # A waiting document is fetched again once its window is open.
    etag = before.etag if before.url == url and (waits or not before.window) else ""
    try:
        answer = web.get(url, etag, pull_document.MOST)
    except HostError as error:
        return Result(UNREACHABLE, str(error)), before
    if answer.status == 304 and etag:
        if waits:
            return Result(WAITING, _waiting(before.window), fresh=False), before._replace(at=now)
        return Result(UNCHANGED, fresh=False), before._replace(at=now)
    try:
        document, digest = _verified(host, spec, before, answer)
        pull_document.check(document.declarations)
    except MlnodeError as error:
        return Result(REFUSED, str(error)), before
    is_early = not is_open(document.window, now)
    result = _judged(_apply(host, document, dry_run or is_early), document, is_early)
    after = State(document.node, document.serial, digest, url, at=before.at)
    if result.verdict == APPLIED:
        after = after._replace(etag=answer.etag, at=now)
    elif result.verdict == WAITING:
        after = after._replace(etag=answer.etag, window=document.window, at=now)
    return result, after


def _verified(host: Host, spec: Spec, before: State, answer: web.Answer) -> tuple[Document, str]:
    """The document, and the digest of its content. Raises MlnodeError if it is not for this node."""
    if answer.status != 200:
        raise MlnodeError(f"the server answers {answer.status} {answer.reason}")
    signed, content = pull_document.split(answer.body)
    signature.require(host, content.decode("ascii"), signed, spec["signers"], pull_document.NAMESPACE)
    document = pull_document.parse(content)
    digest = hashlib.sha256(content).hexdigest()
    if document.node != spec["node"]:
        raise MlnodeError(f"it is for the node {document.node}, and this is {spec['node']}")
    if document.serial < before.serial:
        raise MlnodeError(
            f"its serial {document.serial} is older than {before.serial}, which this node has accepted"
        )
    if document.serial == before.serial and digest != before.digest:
        raise MlnodeError(f"it is another document than the one with the same serial {document.serial}")
    return document, digest


# -- on the node ---------------------------------------------------------------------------


def _apply(host: Host, document: Document, check: bool) -> dict[str, dict[str, Any]]:
    """Name of a declaration → the answer, in their order, up to the first that fails."""
    from . import call  # only here: most pulls find no news

    answers: dict[str, dict[str, Any]] = {}
    # A change that needs a confirmation over a new connection is not made: hence the values of risky and the
    # time.
    own = {"check": check, "risky": False, "confirm_seconds": 1, "diff": False}
    for item in document.declarations:
        question = {**item, **own, "install": False, "interpreter": ""}
        answer = answers[item["name"]] = call.CALLS["declare"](host, question)
        host.forget()
        if answer.get("failed") or answer.get("risks"):
            break
    return answers


def _judged(answers: Mapping[str, Mapping[str, Any]], document: Document, is_early: bool) -> Result:
    changed = [
        f"{name} {area}"
        for name, answer in answers.items()
        for area, about in answer.get("areas", {}).items()
        if about["changed"]
    ]
    reboot = any(answer.get("reboot_required") for answer in answers.values())
    for name, answer in answers.items():
        if answer.get("risks"):
            reason = f"{name}: may cut off this node, a playbook does it: {answer['risks']}"
            return Result(HELD, reason, changed, reboot)
        problems = [str(answer.get("msg") or "")] if answer.get("failed") else answer.get("not_in_force")
        if problems:
            return Result(FAILED, "; ".join(problems), changed, reboot)
    if is_early and any(answer["changed"] for answer in answers.values()):
        return Result(WAITING, _waiting(document.window), changed, reboot)
    return Result(APPLIED, changed=changed, reboot=reboot)


def _waiting(window: Sequence[str]) -> str:
    return f"waiting for the window: {', '.join(window)} UTC"


# -- state and report ----------------------------------------------------------------------


def load(host: Host, node: str) -> State:
    """The state of this node; a new state for another name. The newer of two copies counts; if one is lost or
    damaged, the other. Raises MlnodeError if both are damaged, because an old document would then pass for a
    new one."""
    states: list[State] = []
    damage: DamagedError | None = None
    for path in PATHS:
        try:
            states += _read(host, path)
        except DamagedError as error:
            damage = damage or error
    if damage and not states:
        raise damage
    own = [state for state in states if state.node == node]
    return max(own, key=lambda state: (state.serial, state.at), default=State(node))


def _read(host: Host, path: str) -> list[State]:
    """The state in a copy; empty if the copy is absent. Raises MlnodeError."""
    try:
        content = trust.read(host, path)
    except HostError as error:
        if error.absent:
            return []
        raise
    advice = f"remove {' and '.join(PATHS)} to accept a document with any serial"
    fields = strict_json.document(content, path, FORMAT, advice=advice)
    kinds = {
        **dict.fromkeys(("node", "digest", "url", "etag"), str),
        "serial": int,
        "window": list,
        "at": float,
        "unsent": bool,
    }
    try:
        state = State(**dict(zip(kinds, strict_json.typed(fields, kinds))))
        is_open(state.window, 0.0)
    except (ValueError, TypeError) as error:
        raise DamagedError(f"{path} is damaged ({error}): {advice}") from error
    return [state]


def last_verdict(host: Host) -> str:
    """Verdict of the last pull since boot: `none` before the first, `unknown` if its report is unreadable."""
    try:
        verdict = json.loads(trust.read(host, places.PULL_REPORT))["verdict"]
    except HostError as error:
        return "none" if error.absent else "unknown"
    except (ValueError, KeyError, TypeError, MlnodeError):
        return "unknown"
    return str(verdict) if verdict in _VERDICTS else "unknown"


def _save(host: Host, state: State) -> None:
    for path in PATHS:
        try:
            host.write_file(path, _bytes({"format": FORMAT, **state._asdict()}), mode=0o600)
        except HostError as error:
            # If /etc is read-only, the other copy suffices; nothing can be declared there either.
            if path != places.PULLED_COPY or error.errno != errno.EROFS:
                raise


def _bytes(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=True).encode("ascii") + b"\n"


def _report(result: Result, state: State) -> dict[str, Any]:
    reason = printable(result.reason).encode("ascii", "backslashreplace").decode("ascii")
    return {
        "format": FORMAT,
        "mlnode": VERSION,
        "node": state.node,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "verdict": result.verdict,
        "reason": reason[:_MOST_REASON],
        "serial": state.serial,
        "digest": state.digest,
        "changed": [*result.changed],
        "reboot_required": result.reboot,
    }


def _send(spec: Spec, report: Mapping[str, Any]) -> str:
    """Send the report. Returns why it did not arrive, or ""."""
    if not spec.get("report"):
        return ""
    try:
        answer = web.post(spec["report"], _bytes(report), _MOST_ANSWER)
    except HostError as error:
        return str(error)
    if 200 <= answer.status < 300:
        return ""
    return f"{spec['report']} answers {answer.status} {answer.reason}"


def command(host: Host, options: argparse.Namespace) -> int:
    """`mlnode pull`, and its exit status."""
    report, arrived = pull(host, options.dry_run)
    verdict, changed = report["verdict"], report["changed"]
    if options.json:
        output.print_json(report)
    else:
        what = "would be applied" if options.dry_run and verdict == APPLIED else verdict
        serial = f", serial {report['serial']}" if report["serial"] else ""
        would = options.dry_run or verdict == WAITING
        changes = f"; {'would change' if would else 'changed'}: {', '.join(changed)}" if changed else ""
        output.say(f"{what}{serial}{changes}")
    for problem in filter(None, (report["reason"], report.get("unsent"))):
        output.complain(problem)
    if verdict in (WAITING, HELD) or (options.dry_run and changed):
        return DRIFT
    return OK if arrived and verdict in (UNCHANGED, APPLIED) else ERROR
