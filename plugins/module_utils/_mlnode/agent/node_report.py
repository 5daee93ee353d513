# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole node as plain data. Separate from the rows, so a module's payload needs no other kind."""

from __future__ import annotations

from typing import Any

from ..model.version import VERSION
from ..report.document import summary
from .node import Survey

#: Raised when a field changes its meaning or is removed; new fields do not raise it.
FORMAT = 1


def settings(survey: Survey) -> list[dict[str, Any]]:
    """All settings of a node, with the names that declare each."""
    return [{**item.row.document(), "declared_by": list(item.declared_by)} for item in survey.rows]


def node(survey: Survey) -> dict[str, Any]:
    """The document of a whole node; docs/schema/node.schema.json describes it."""
    return {
        "format": FORMAT,
        "mlnode": VERSION,
        "compliant": survey.compliant,
        "changed": survey.changed,
        "summary": summary(item.row for item in survey.rows),
        "errors": list(survey.errors),
        "settings": settings(survey),
    }
