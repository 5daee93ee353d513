# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One way to measure: plan, announce, measure, judge, and write one result, whatever the kind is."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from ..fleet_report import files
from .nodes import Fleet, MeasureError, say


class Report(NamedTuple):
    """document: JSON. table: lines for people. failures: reasons for a failure, in place of the last line of
    the table. unbalanced: of balance.shared(), reasons for a failure as well."""

    document: str
    table: Sequence[str]
    success: bool
    failures: Sequence[str] = ()
    unbalanced: Sequence[str] = ()


class Kind(Protocol):
    """A kind of measurement, made for a fleet and the options of its task."""

    #: Name of the result without .json, and its folder on the controller
    name: str
    folder: str

    def plan(self) -> str:
        """Look at the nodes. The duration and the load, for people. Raises MeasureError."""

    def rehearse(self) -> None:
        """Verify in check mode that it could begin. Raises MeasureError."""

    def measure(self) -> None:
        """Measure all of it. Raises MeasureError."""

    def report(self) -> Report | None:
        """Judge the measurements; None if none were asked for. Raises MeasureError."""


def run(kind: Kind, fleet: Fleet) -> dict[str, Any]:
    """The result of the task. Raises MeasureError."""
    say(kind.plan())
    if fleet.check:
        kind.rehearse()
        return {}
    kind.measure()
    report = kind.report()
    if report is None:
        return {}
    path = pathlib.Path(kind.folder, f"{kind.name}.json")
    try:
        files.write(path, [report.document.rstrip("\n"), "\n"])
    except OSError as error:
        raise MeasureError(f"cannot write {path}: {error.strerror}") from error
    where = f"all of it is in {path}"
    say("\n".join([*report.table, where]))
    why = report.failures or report.table[-1:]
    return {
        "folder": str(path.parent),
        "file": path.name,
        "failed": not report.success or bool(report.unbalanced),
        "msg": "; ".join([*why, *report.unbalanced, where]),
    }
