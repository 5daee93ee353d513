# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Known drift: settings by name, why, and until when. After that day it counts again."""

from __future__ import annotations

from datetime import date, datetime, timezone
from fnmatch import fnmatchcase
from typing import Any, Mapping, Sequence

from ..model.errors import DeclarationError
from ..model.record import NamedTuple, regex

# date.fromisoformat() takes 20260131 and week dates, too, since Python 3.11.
_DAY = regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")

#: Fields of an exception
FIELDS = {"key": str, "reason": str, "until": str}

USED, EXPIRED, UNUSED = "used", "expired", "unused"


class Waiver(NamedTuple):
    """key: a name as in a shell, such as net.*. until: the last day on which it holds."""

    key: str
    reason: str
    until: date

    def covers(self, key: str) -> bool:
        return fnmatchcase(key, self.key)

    def holds(self, today: date) -> bool:
        return today <= self.until


class Verdict(NamedTuple):
    """Effect of exceptions on the drift of a node.

    ignored: setting → the valid exception. expired: setting → its latest expired exception. states: of each
    exception, in their order.
    """

    ignored: Mapping[str, Waiver]
    expired: Mapping[str, Waiver]
    states: Sequence[str]


def parse(given: Sequence[Mapping[str, Any]]) -> list[Waiver]:
    """Raises DeclarationError."""
    return [_waiver(number, item) for number, item in enumerate(given, 1)]


def _waiver(number: int, item: Mapping[str, Any]) -> Waiver:
    key, reason, until = (str(item[name]).strip() for name in FIELDS)
    where = f"ignore, exception {number}" + (f" ({key})" if key else "")
    if not key:
        raise DeclarationError(f"{where}: key is empty, and would be for nothing")
    if not reason:
        raise DeclarationError(f"{where}: reason is empty; say why it is ignored")
    if not _DAY.match(until):
        raise DeclarationError(f"{where}: until is {until!r}; write a day, such as 2026-01-31")
    try:
        return Waiver(key, reason, date(*(int(part) for part in until.split("-"))))
    except ValueError as error:
        raise DeclarationError(f"{where}: until is {until!r}: {error}") from error


def today() -> date:
    """The date in UTC, which is the same on all nodes."""
    return datetime.now(timezone.utc).date()


def judge(waivers: Sequence[Waiver], drifted: Sequence[str], day: date) -> Verdict:
    """drifted: names of settings. A valid exception wins over an expired one."""
    ignored: dict[str, Waiver] = {}
    expired: dict[str, Waiver] = {}
    for key in drifted:
        covering = [waiver for waiver in waivers if waiver.covers(key)]
        holding = [waiver for waiver in covering if waiver.holds(day)]
        if holding:
            ignored[key] = holding[0]
        elif covering:
            expired[key] = max(covering, key=lambda waiver: waiver.until)
    states = []
    for waiver in waivers:
        if not any(waiver.covers(key) for key in drifted):
            states.append(UNUSED)
        else:
            states.append(USED if waiver.holds(day) else EXPIRED)
    return Verdict(ignored, expired, states)
