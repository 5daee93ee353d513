# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply an area for the boot service and `mlnode apply`: setting by setting, as one refused setting must not
leave the rest of the node untuned."""

from __future__ import annotations

import time
from typing import Sequence

from ..host.host import Host
from ..model.errors import HostError, MlnodeError
from ..model.values import by_key
from . import failed_changes, transaction
from .engine import Outcome
from .origin import Origin
from .plan import Plan, Request, afterwards, brings, ended, evaluate, kept_by_node, present
from .steps import FileWrite, Step, UnitWrite, kernel_writes, single

#: udev names a NIC a moment after its arrival, which may fall between a read and a write: then the name has
#: changed. The name comes with the first event of the NIC, and a second is enough; a third try is for another
#: NIC that has arrived meanwhile.
_LOOKS_AGAIN = 2
_LOOK_SECONDS = 1.0


def apply_each(host: Host, request: Request, skip_reason: str = "") -> tuple[Outcome, list[str]]:
    """Apply an area, for a caller that holds the node's lock. Also returns the errors. Raises MlnodeError.

    skip_reason: why changes that may cut off a connection are skipped; empty if they are made, as no
    connection exists yet.
    """
    plan = first = evaluate(host, request, kept_by_node(host))
    errors, gone = _run_each(host, plan, skip_reason)
    for _look in range(_LOOKS_AGAIN):
        brought = any(map(brings, plan.rows))
        if not gone and not brought:
            break
        time.sleep(_LOOK_SECONDS if gone else 0)
        host.forget()
        plan = evaluate(host, request, kept_by_node(host))
        first = first._replace(steps=(*first.steps, *plan.steps))
        more, gone = _run_each(host, plan, skip_reason)
        errors += [error_parts for error_parts in more if error_parts not in errors]
    if not first.steps:
        return Outcome(first, first.rows, changed=False), errors
    try:
        after = evaluate(host, request, kept_by_node(host))
        return Outcome(*ended(first, after)), [*errors, *gone]
    except MlnodeError as error:
        error_parts = [*errors, *gone, afterwards(error, first.steps)]
        raise MlnodeError("; ".join(error_parts)) from error


def due(plan: Plan, skip_reason: str) -> tuple[list[Step], list[str]]:
    """The steps of a plan to perform, and why others are skipped. skip_reason: as in apply_each()."""
    steps: list[Step] = []
    left_out: list[str] = []
    for step in single(plan.steps):
        if skip_reason and isinstance(step, UnitWrite) and step.risky:
            left_out.append(f"{step.key}: not done, as it is on the management path; {skip_reason}")
        else:
            steps.append(step)
    return steps, left_out


def _run_each(host: Host, plan: Plan, skip_reason: str) -> tuple[list[str], list[str]]:
    """Errors, and further errors because a device has moved since it was read."""
    if plan.steps and not host.is_superuser():
        raise HostError("change", plan.steps[0].key, None, "root is needed")
    # Read once for all areas: only this run writes it, and on a large node it has a megabyte.
    origin = host.once("origin", lambda: Origin.for_look(host, alone=True))
    gone: list[str] = []
    steps, errors = due(plan, skip_reason)
    groups = by_key(("" if isinstance(step, FileWrite) else step.key, step) for step in steps)
    transaction.run(host, origin, [], present(host, plan))
    for group in groups.values():
        try:
            transaction.run(host, origin, group)
        except MlnodeError as error:
            cause = error.__cause__
            if isinstance(cause, HostError) and cause.absent and not getattr(error, "stuck", ()):
                gone.append(str(error))
                continue
            errors.append(str(error))
            _hold(host, group, str(error))
    return errors, gone


def _hold(host: Host, steps: Sequence[Step], reason: str) -> None:
    for step in steps:
        if isinstance(step, UnitWrite):
            failed_changes.hold(host, step.unit.name, kernel_writes([step]), reason)
