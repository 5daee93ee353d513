# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time spans in systemd's files: systemd.time(7)."""

from __future__ import annotations

from ..model.record import regex

_PART = regex(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zµμ]*)", 0)

#: Seconds of each unit; a number without a unit is in seconds. Units longer than days are not supported.
_SECONDS = {
    **dict.fromkeys(("us", "usec", "µs", "μs"), 1e-6),
    **dict.fromkeys(("ms", "msec"), 1e-3),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "minute", "minutes", "m"), 60.0),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}


def seconds(text: str) -> float | None:
    """A span in seconds; infinite for `infinity`, None if it is not understood."""
    text = text.strip()
    if text == "infinity":
        return float("inf")
    total, at = 0.0, 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None or part[2] not in _SECONDS:
            return None
        total += float(part[1]) * _SECONDS[part[2]]
        at = part.end()
    return total if text else None
