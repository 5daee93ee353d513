# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages about settings that are not as declared, one for each cause."""

from __future__ import annotations

from typing import Iterable

from ..engine.kind import Row
from ..model.setting import Status

#: Keys in one message; the result has all of them
_MOST = 3


def messages(rows: Iterable[Row]) -> list[str]:
    """One for each status and cause: what differs in the path of the setting alone is one cause."""
    alike: dict[tuple[Status, str], list[Row]] = {}
    for row in rows:
        path = row.reading.path
        cause = row.reason.replace(path, "its file") if path else row.reason
        alike.setdefault((row.status, cause), []).append(row)
    return [_message(status, cause, of_cause) for (status, cause), of_cause in alike.items()]


def _message(status: Status, cause: str, rows: list[Row]) -> str:
    if len(rows) == 1:
        return f"{rows[0].setting.key} is {status}: {rows[0].reason}"
    keys = [row.setting.key for row in rows]
    more = f" and {len(keys) - _MOST} more" if len(keys) > _MOST else ""
    return f"{', '.join(keys[:_MOST])}{more} are {status}: {cause}"


def is_unsupported(message: str) -> bool:
    """Whether messages() made it for settings that the node has not."""
    return f" {Status.UNSUPPORTED}: " in message
