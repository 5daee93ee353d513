# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declarations of people as the engine is given them: checked first, and one area alone applied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlnode.agent.registry import KINDS
from mlnode.engine import engine
from mlnode.engine.kind import Facts
from mlnode.engine.lock import WAIT_SECONDS
from mlnode.engine.plan import Plan, Request
from mlnode.host.host import Host
from mlnode.model.errors import RefusedError
from mlnode.model.schema import Checked
from mlnode.model.setting import Setting


def checked(area: str, spec: Any) -> Checked:
    """Raises DeclarationError."""
    found: Checked = KINDS[area].checked(spec)
    return found


def parse(area: str, spec: Any, facts: Facts | None = None) -> list[Setting]:
    """Raises DeclarationError."""
    settings: list[Setting] = KINDS[area].parse(checked(area, spec), facts)
    return settings


def request(name: str, area: str, spec: Any, *more: Any, **fields: Any) -> Request:
    """Raises DeclarationError."""
    return Request(name, KINDS[area], checked(area, spec), *more, **fields)


def apply(
    host: Host,
    one: Request,
    gate: Callable[[Plan], None] = engine.admit,
    wait_seconds: float = WAIT_SECONDS,
    confirm_seconds: int = 0,
) -> engine.Outcome:
    """engine.apply_together() for one area. Raises RefusedError, too: after all else was applied."""
    done = engine.apply_together(host, lambda: [one], gate, wait_seconds, confirm_seconds)
    if done.refused:
        rest = "; all else is applied" if done.changed else "; nothing was changed"
        words = "; ".join(f"{row.setting.key}: {row.reading.invalid or row.reason}" for row in done.refused)
        raise RefusedError(f"refused: {words}{rest}")
    outcome = done.outcomes[0]
    plan = outcome.plan._replace(steps=(*done.shared, *outcome.steps))
    return engine.Outcome(plan, outcome.rows, done.changed, done.waits)
