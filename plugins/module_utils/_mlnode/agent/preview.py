# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`mlnode apply --dry-run`: what node.apply_all() would do now, on the same path without the writes."""

from __future__ import annotations

from typing import Sequence

from ..engine import boot_run, leftovers
from ..engine.kind import Row
from ..engine.plan import Request, evaluate
from ..engine.steps import FileWrite, LinkWrite, LoadModule, Step, kernel_writes
from ..host.host import Host
from ..model.errors import MlnodeError
from ..model.record import NamedTuple
from .node import Survey, each, skip_reason


class Foreseen(NamedTuple):
    """node: its settings as they are now, with the statuses of check mode; changed: something would be.
    lines: for people, what would be done."""

    node: Survey
    lines: tuple[str, ...]


def foresee_all(host: Host, only: Sequence[str] = ()) -> Foreseen:
    """Preview everything declared, or only the given kinds; writes nothing, waits for no lock."""
    errors: list[str] = []
    steps: list[Step] = []
    reason = ""
    try:
        reason = skip_reason(host, bool(only))
    except MlnodeError as error:
        errors.append(str(error))
        reason = "it is unknown whether that is safe"

    def work(request: Request) -> tuple[Sequence[Row], bool]:
        plan = evaluate(host, request)
        due, left_out = boot_run.due(plan, reason)
        errors.extend(f"{request.name}, {request.kind.KIND}: {word}" for word in left_out)
        steps.extend(due)
        return plan.rows, bool(due)

    node = each(host, work, errors, only, may_be_bare=bool(only))
    left = [] if only else leftovers.report(host)
    node = node._replace(errors=(*node.errors, *left))
    return Foreseen(node, tuple(_lines(steps)))


def _lines(steps: Sequence[Step]) -> list[str]:
    """Values are in the table; their number, and the rest by name."""
    lines: dict[str, None] = {}
    for step in steps:
        if isinstance(step, FileWrite):
            lines[f"would {'remove' if step.content is None else 'write'} {step.path}"] = None
        elif isinstance(step, LinkWrite):
            lines[f"would link {step.path}"] = None
        elif isinstance(step, LoadModule):
            lines[f"would load the module {step.name}"] = None
    keys = {write.key for write in kernel_writes(steps)}
    values = f"{len(keys)} {'setting' if len(keys) == 1 else 'settings'} of the running kernel"
    changes = [f"would change {values}"] if keys else []
    if not steps:
        changes = ["nothing would be changed"]
    return [*changes, *lines, "dry run: nothing was changed"]
