# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Maintenance windows such as `Sat,Sun 22:00-04:00`, in UTC for the whole fleet."""

from __future__ import annotations

import time
from typing import Sequence

from ...model.record import NamedTuple, regex
from ...model.schema import Form

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY, _TIME = f"(?:{'|'.join(_DAYS)})", r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_SPAN = f"{_DAY}(?:-{_DAY})?"
_PATTERN = regex(rf"(?:({_SPAN}(?:,{_SPAN})*) )?({_TIME})-({_TIME})\Z")

FORM = Form(
    _PATTERN, "days and times in UTC such as Sat,Sun 22:00-04:00 or Mon-Fri 02:00-03:30, or 01:00-05:00"
)


class _Window(NamedTuple):
    """days: days on which it begins, 0 for Monday. begin, end: minutes of a day; it lasts over midnight
    unless the end is after the begin.
    """

    days: Sequence[int]
    begin: int
    end: int


def is_open(windows: Sequence[str], at: float) -> bool:
    """True if one of them is open at a Unix time, or if there are none."""
    now = time.gmtime(at)
    return not windows or any(
        _contains(_parsed(text), now.tm_wday, now.tm_hour * 60 + now.tm_min) for text in windows
    )


def _contains(window: _Window, day: int, minute: int) -> bool:
    if window.begin < window.end:
        return day in window.days and window.begin <= minute < window.end
    evening = day in window.days and minute >= window.begin
    return evening or ((day - 1) % 7 in window.days and minute < window.end)


def _parsed(text: str) -> _Window:
    """The window of a checked text."""
    match = _PATTERN.match(text)
    if match is None:
        raise ValueError(text)
    spans = [span.partition("-") for span in (match.group(1) or "Mon-Sun").split(",")]
    days = [day for first, _dash, last in spans for day in _span(first, last or first)]
    return _Window(days, _minutes(match.group(2)), _minutes(match.group(3)))


def _span(first: str, last: str) -> list[int]:
    """Days from first to last: Fri-Mon is four days."""
    begin, end = _DAYS.index(first), _DAYS.index(last)
    return [day % 7 for day in range(begin, end + 1 if end >= begin else end + 8)]


def _minutes(text: str) -> int:
    return int(text[:2]) * 60 + int(text[3:])
