# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows as plain data: one shape for module results, `mlnode --json` and every report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Mapping

if TYPE_CHECKING:  # a controller judges what is rendered, and needs nothing else of the library for it
    from ..engine.kind import Row


def setting(row: Row) -> dict[str, Any]:
    """One setting. A null value is explained by its reason."""
    reading = row.reading
    return {
        "kind": row.setting.kind,
        "key": row.setting.key,
        "path": reading.path,
        "declared": row.setting.claim,
        "want": reading.target if reading.target is not None else row.setting.want,
        "runtime": reading.runtime.text,
        "boot": reading.boot.value.text,
        "boot_source": reading.boot.source or None,
        "origin": row.origin,
        "status": str(row.status),
        "severity": str(row.info.severity),
        "reason": row.reason,
    }


def drift_line(item: Mapping[str, Any]) -> str:
    """A setting that differs, complete enough to act on without the table."""
    want, runtime, boot = (shown(item[name]) for name in ("want", "runtime", "boot"))
    return (
        f"{item['key']}: {item['status']}, want {want}, runtime {runtime}, "
        f"boot {boot} ({item['severity']}): {item['reason']}"
    )


def summary(rows: Iterable[Row]) -> dict[str, int]:
    """Number of rows in each status; statuses without any are left out."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[str(row.status)] = counts.get(str(row.status), 0) + 1
    return dict(sorted(counts.items()))


def counted(lines: Iterable[str]) -> list[str]:
    """Each line once, in their order, with the number of files where a setting has many of them."""
    counts: dict[str, int] = {}
    for line in lines:
        counts[line] = counts.get(line, 0) + 1
    return [line if number == 1 else f"{line} ({number} files)" for line, number in counts.items()]


def shown(value: Any) -> str:
    """A value for people: an empty list and a missing one look different."""
    if value is None:
        return "-"
    return str(value).replace("\t", " ") or '""'
