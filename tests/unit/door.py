# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declarations of people as the engine is given them: checked first."""

from __future__ import annotations

from typing import Any

from mlnode.agent.registry import KINDS
from mlnode.engine.kind import Facts
from mlnode.engine.plan import Request
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
