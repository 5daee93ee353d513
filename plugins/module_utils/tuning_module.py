# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The only bridge from the library to AnsibleModule: arguments in, results and diffs out."""

from __future__ import annotations

import hashlib
from typing import Any, Callable, Collection, NoReturn, Sequence

from ansible.module_utils.basic import AnsibleModule

from .mlnode import confirm, cpulist, engine, judge, origin, values
from .mlnode.confirm import Pending
from .mlnode.engine import Plan, Request
from .mlnode.errors import MlnodeError
from .mlnode.host import Host
from .mlnode.kind import Kind, Row
from .mlnode.printable import paragraphs, printable
from .mlnode.render import document
from .mlnode.revert import Change
from .mlnode.setting import Layer
from .mlnode.status import Status
from .mlnode.transaction import (
    JoinedWrite,
    KernelWrite,
    LinkWrite,
    LoadModule,
    Refresh,
    Step,
    UnitWrite,
    kernel_writes,
)

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


def given(value: Any) -> Any:
    """Without what was not given: the declaration on the node holds what was declared, and nothing else."""
    if isinstance(value, dict):
        return {name: given(item) for name, item in value.items() if item is not None}
    return [given(item) for item in value] if isinstance(value, list) else value


def declare(
    module: AnsibleModule,
    kind: Kind,
    spec: dict[str, Any],
    confirm_seconds: int = 0,
    more: Callable[[Host, Sequence[Row]], dict[str, Any]] = lambda _host, _rows: {},
) -> NoReturn:
    """Check or apply one kind of one declaration, and end the module.

    confirm_seconds: as in engine.apply(). more: what else the kind tells of its rows.
    """
    if not module.params["layers"]:
        fail(module, "layers: name runtime, boot or both; none would do nothing")
    layers = tuple(layer for layer in Layer if layer.value in module.params["layers"])
    request = Request(module.params["name"], kind, spec, layers)
    host = Host()
    waits: Pending | None = None

    def gate(plan: Plan) -> None:
        engine.admit(plan)
        _stop_if_unsupported(module, plan)

    try:
        if module.check_mode:
            plan = engine.evaluate(host, request)
            gate(plan)
            rows, changed = plan.rows, bool(plan.steps)
        else:
            outcome = engine.apply(host, request, gate, confirm_seconds=confirm_seconds)
            plan, rows, changed = outcome.plan, outcome.rows, outcome.changed
            waits = outcome.waits
    except MlnodeError as error:
        fail(module, f"{kind.KIND} {module.params['name']}: {error}")
    _warn(module, rows)
    tell_undone(module, host)
    leave(
        module,
        changed=changed,
        settings=[document.setting(row) for row in rows],
        reboot_required=waits_for_boot(rows),
        diff=diff(plan.steps),
        **(
            {"confirm": {"id": waits.id, "seconds": waits.seconds} if waits else {}}
            if confirm_seconds
            else {}
        ),
        **more(host, rows),
    )


def tell_undone(module: AnsibleModule, host: Host) -> None:
    """A change that has undone itself is told by the next run, once; a damaged store by each."""
    damage = origin.note(host)
    if damage:
        module.warn(damage)
    words = confirm.report(host)
    if not words:
        return
    warn(module, words)
    try:
        if not module.check_mode and host.is_superuser():
            confirm.acknowledge(host)
    except MlnodeError as error:
        warn(module, str(error))


def waits_for_boot(rows: Sequence[Row]) -> bool:
    """Whether something takes effect only after a reboot."""
    return any(_waits_for_boot(row) for row in rows)


def _waits_for_boot(row: Row) -> bool:
    """Also of a check: the run that it predicts would end like that."""
    if row.status is Status.PENDING_REBOOT:
        return True
    return row.status is Status.DRIFTED and row.reading.at_boot and judge.differs(row.reading)


def warn(module: AnsibleModule, words: str) -> None:
    """Ansible prints warnings as they are, on the terminal of the controller."""
    module.warn(printable(words))


def fail(module: AnsibleModule, message: str, **result: Any) -> NoReturn:
    """fail_json() as a type checker understands it. The message is printed as it is, as warnings are."""
    module.fail_json(msg=paragraphs(message), **result)
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
        if isinstance(step, (KernelWrite, JoinedWrite, UnitWrite)):
            for write in kernel_writes([step]):
                writes.setdefault(write.key, []).append(write)
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
        old += _lines(key, found, [step.before for step in found])
        new += _lines(key, found, [step.value for step in found])
    runtime = [_pair("runtime", _text(old), _text(new))] if old or new else []
    return runtime + files


def _lines(key: str, writes: Sequence[KernelWrite], texts: Sequence[str]) -> list[str]:
    """One line, or one for each value that some of the CPUs have."""
    cpus: dict[str, set[int]] = {}
    for step, text in zip(writes, texts):
        if step.cpus:
            cpus.setdefault(text, set()).update(step.cpus)
    rest = [(step, text) for step, text in zip(writes, texts) if not step.cpus]
    whole = _all([step for step, _text in rest], [text for _step, text in rest]) if rest else None
    return [
        *([] if whole is None else [f"{key} = {document.shown(whole)}"]),
        *(f"{key} ({_named(numbers)}) = {document.shown(text)}" for text, numbers in cpus.items()),
    ]


def _named(cpus: Collection[int]) -> str:
    return f"{'CPU' if len(cpus) == 1 else 'CPUs'} {cpulist.render(cpus)}"


def _all(writes: Sequence[KernelWrite], texts: Sequence[str]) -> str:
    """The value of a setting's one file, or of its many in one line."""
    if any(step.unit for step in writes):
        alike: dict[str, list[str]] = {}
        for step, text in zip(writes, texts):
            alike.setdefault(text, []).append(step.unit.name if step.unit else step.path)
        return "; ".join(f"{', '.join(dict.fromkeys(names))}: {text}" for text, names in alike.items())
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
    found = [row for row in plan.rows if row.status is Status.UNSUPPORTED or row.reading.missing]
    if found and module.params["on_unsupported"] == "fail":
        causes = [row for row in found if not row.reading.refers]
        fail(module, f"unsupported, and nothing was changed: {_words(causes)}")


def _warn(module: AnsibleModule, rows: Sequence[Row]) -> None:
    loud = {Status.OVERRIDDEN, Status.CLAMPED, Status.DRIFTED, Status.UNKNOWN}
    if module.check_mode:
        loud.discard(Status.DRIFTED)  # it is what check mode is there to show, and it is in the diff
    if module.params["on_unsupported"] == "warn":
        loud.add(Status.UNSUPPORTED)
    # What is true of many settings, such as that a rule's NICs are not there, is said once.
    told: dict[tuple[Status, str], list[str]] = {}
    for row in rows:
        if (row.status in loud or row.reading.missing) and not row.reading.refers:
            told.setdefault((row.status, row.reason), []).append(row.setting.key)
    for (status, reason), keys in told.items():
        warn(module, f"{', '.join(keys)} {'is' if len(keys) == 1 else 'are'} {status}: {reason}")


def _words(rows: Sequence[Row]) -> str:
    return "; ".join(f"{row.setting.key}: {row.reason}" for row in rows)


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _pair(name: str, before: str, after: str) -> dict[str, str]:
    """The contents are printed as they are, too."""
    texts = {"before": paragraphs(before), "after": paragraphs(after)}
    return {"before_header": name, "after_header": name, **texts}
