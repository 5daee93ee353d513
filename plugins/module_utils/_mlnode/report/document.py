# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows in short form: counts per status, and one line for a row that differs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Iterable, Mapping

from ..model.errors import shown

if TYPE_CHECKING:  # a controller only judges rendered rows and needs no other part of the library for it
    from ..engine.kind import Row


def drift_line(item: Mapping[str, Any]) -> str:
    """A setting that differs, detailed enough to act on without the table."""
    want, runtime, boot = (shown(item[name]) for name in ("want", "runtime", "boot"))
    return (
        f"{item['key']}: {item['status']}, want {want}, runtime {runtime}, "
        f"boot {boot} ({item['severity']}): {item['reason']}"
    )


def summary(rows: Iterable[Row]) -> dict[str, int]:
    """Number of rows in each status; statuses without rows are left out."""
    return dict(sorted(Counter(str(row.status) for row in rows).items()))
