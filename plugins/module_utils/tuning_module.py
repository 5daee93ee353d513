# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The only bridge from the library to AnsibleModule: arguments in, results and diffs out."""

from __future__ import annotations

import hashlib
from typing import Any, NoReturn, Sequence

from ansible.module_utils.basic import AnsibleModule

from .mlnode import engine, values
from .mlnode.engine import Plan, Request
from .mlnode.errors import MlnodeError
from .mlnode.host import Host
from .mlnode.kind import Kind, Row
from .mlnode.render import document
from .mlnode.revert import Change
from .mlnode.setting import Layer
from .mlnode.status import Status
from .mlnode.transaction import KernelWrite, LinkWrite, LoadModule, Refresh, Step

#: Options every module that declares something takes; documented in doc_fragments/declaration.py
ARGUMENTS: dict[str, dict[str, Any]] = {
    "name": {"type": "str", "default": "default"},
    "layers": {
        "type": "list",
        "elements": "str",
        "choices": ["runtime", "boot"],
        "default": ["runtime", "boot"],
    },
    "on_unsupported": {"type": "str", "choices": ["fail", "warn", "ignore"], "default": "warn"},
}


def declare(module: AnsibleModule, kind: Kind, spec: dict[str, Any]) -> NoReturn:
    """Check or apply one kind of one declaration, and end the module."""
    if not module.params["layers"]:
        fail(module, "layers: name runtime, boot or both; none would do nothing")
    layers = tuple(layer for layer in Layer if layer.value in module.params["layers"])
    request = Request(module.params["name"], kind, spec, layers)
    host = Host()

    def gate(plan: Plan) -> None:
        engine.admit(plan)
        _stop_if_unsupported(module, plan)

    try:
        if module.check_mode:
            plan = engine.evaluate(host, request)
            gate(plan)
            rows, changed = plan.rows, bool(plan.steps)
        else:
            outcome = engine.apply(host, request, gate)
            plan, rows, changed = outcome.plan, outcome.rows, outcome.changed
    except MlnodeError as error:
        fail(module, f"{kind.KIND} {module.params['name']}: {error}")
    _warn(module, rows)
    leave(
        module,
        changed=changed,
        settings=[document.setting(row) for row in rows],
        reboot_required=any(_waits_for_boot(row) for row in rows),
        diff=diff(plan.steps),
    )


def _waits_for_boot(row: Row) -> bool:
    """Also of a check: the run that it predicts would end like that."""
    if row.status is Status.PENDING_REBOOT:
        return True
    return row.status is Status.DRIFTED and row.reading.at_boot and engine.differs(row.reading)


def fail(module: AnsibleModule, message: str) -> NoReturn:
    """fail_json() as a type checker understands it."""
    module.fail_json(msg=message)
    raise SystemExit(1)  # fail_json() has left already


def leave(module: AnsibleModule, **result: Any) -> NoReturn:
    """exit_json() as a type checker understands it."""
    module.exit_json(**result)
    raise SystemExit(0)  # exit_json() has left already


def diff(steps: Sequence[Step]) -> list[dict[str, str]]:
    """One before/after pair for the running kernel, and one per file or link."""
    old: list[str] = []
    new: list[str] = []
    files: list[dict[str, str]] = []
    writes: dict[str, list[KernelWrite]] = {}
    for step in steps:
        if isinstance(step, KernelWrite):
            writes.setdefault(step.key, []).append(step)
        elif isinstance(step, LoadModule):
            writes[f"module {step.name} loaded"] = []
        elif isinstance(step, Refresh):
            files.append(_pair(step.key, "", f"as it should be; the {step.refresh} reads it once more\n"))
        elif isinstance(step, LinkWrite):
            files.append(_pair(step.path, _link(step.before), _link(step.target)))
        else:
            files.append(_pair(step.path, _content(step.before), _content(step.content)))
    for key, found in writes.items():
        if not found:  # a module, which has no value
            new.append(key)
            continue
        old.append(f"{key} = {document.shown(_all(found, [step.before for step in found]))}")
        new.append(f"{key} = {document.shown(_all(found, [step.value for step in found]))}")
    runtime = [_pair("runtime", _text(old), _text(new))] if old or new else []
    return runtime + files


def _all(writes: Sequence[KernelWrite], texts: Sequence[str]) -> str:
    """The value of a setting's one file, or of its many in one line."""
    shown = {step.number or 0: text for step, text in zip(writes, texts)}
    if len(shown) < len(writes):  # queues of several NICs have the same numbers
        return "; ".join(document.counted(texts))
    return values.grouped(shown)


def revert_diff(changes: Sequence[Change]) -> list[dict[str, str]]:
    """As diff(), for what a revert puts back."""
    kernel = [change for change in changes if not change.is_file]
    old = document.counted(f"{change.key} = {document.shown(change.before)}" for change in kernel)
    new = document.counted(f"{change.key} = {document.shown(change.after)}" for change in kernel)
    runtime = [_pair("runtime", _text(old), _text(new))] if kernel else []
    files = [change for change in changes if change.is_file]
    return runtime + [_pair(item.key, item.before or "", item.after or "") for item in files]


def _link(target: str) -> str:
    return f"link to {target}\n" if target else ""


def _content(content: bytes | None) -> str:
    """Text as it is; of the agent's archive only its digest, as nobody reads a zip in a diff."""
    if content is None:
        return ""
    if b"\0" in content:
        return f"{len(content)} bytes, sha256 {hashlib.sha256(content).hexdigest()}\n"
    return content.decode("utf-8", "replace")


def _stop_if_unsupported(module: AnsibleModule, plan: Plan) -> None:
    found = [row for row in plan.rows if row.status is Status.UNSUPPORTED]
    if found and module.params["on_unsupported"] == "fail":
        fail(module, f"unsupported, and nothing was changed: {_words(found)}")


def _warn(module: AnsibleModule, rows: Sequence[Row]) -> None:
    loud = {Status.OVERRIDDEN, Status.CLAMPED, Status.DRIFTED, Status.UNKNOWN}
    if module.check_mode:
        loud.discard(Status.DRIFTED)  # it is what check mode is there to show, and it is in the diff
    if module.params["on_unsupported"] == "warn":
        loud.add(Status.UNSUPPORTED)
    for row in rows:
        if row.status in loud:
            module.warn(f"{row.setting.key} is {row.status}: {row.reason}")


def _words(rows: Sequence[Row]) -> str:
    return "; ".join(f"{row.setting.key}: {row.reason}" for row in rows)


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _pair(name: str, before: str, after: str) -> dict[str, str]:
    return {"before_header": name, "after_header": name, "before": before, "after": after}
