# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""History of changes and corrections, in /var/lib/mlnode/history.json and the journal.

No run can settle a conflict with a tool that changes a setting again and again. The history counts how often
runs restored it, with the causes that checks found. No decision depends on it: a damaged file is replaced.
"""

from __future__ import annotations

import json
import time
from typing import Any, Mapping, Sequence

from ..engine.engine import Outcome
from ..engine.kind import Row
from ..host import journal
from ..host.host import Host
from ..model import strict_json
from ..model.errors import HostError, MlnodeError, shown
from ..model.record import NamedTuple
from ..model.setting import Status
from . import causes as causes_of
from . import checked
from .causes import Seen

PATH = "/var/lib/mlnode/history.json"
FORMAT = 1

#: sd-id128(3); random, and the same in all versions
SET_ID = "0f884ae55b044875b93969f229a7f470"
CORRECTED_ID = "0c900e1738574b08a664e54902e1ccef"
CHANGED_ID = "5390a3f189a646d49c803c39b506c91b"

#: Maximum number of causes per setting; the oldest is dropped
_MOST_CAUSES = 8


class Past(NamedTuple):
    """History of a setting. value: effective value after the last run that changed the node. boot: id of the
    boot in which that run took place; a value lost by a reboot is restored, but not counted as a correction.
    corrections: number of times that runs restored the value. at: time of the last one, in seconds since
    1970. causes: cause → number of changes."""

    value: str
    boot: str = ""
    corrections: int = 0
    at: float = 0.0
    causes: Mapping[str, int] = {}

    @property
    def words(self) -> str:
        """Summary for people."""
        if not self.corrections:
            return "never"
        times = "once" if self.corrections == 1 else f"{self.corrections} times"
        day = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.at))
        listing = ", ".join(f"{cause} ({number})" for cause, number in self.causes.items())
        return f"{times}, last at {day}; changed by: {listing}"


class History(NamedTuple):
    """History of the node. corrections: number for all settings, with those no longer declared."""

    settings: Mapping[str, Past] = {}
    corrections: int = 0


def load(host: Host) -> History:
    """The stored history; an empty one if the file is missing or damaged. Never raises."""
    try:
        document = strict_json.document(host.read_bytes(PATH), PATH, FORMAT)
        settings = {str(key): _past(raw) for key, raw in document["settings"].items()}
        return History(settings, int(document["corrections"]))
    except (MlnodeError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return History()


def _past(raw: Any) -> Past:
    causes = {str(cause): int(number) for cause, number in raw["causes"].items()}
    return Past(str(raw["value"]), str(raw["boot"]), int(raw["corrections"]), float(raw["at"]), causes)


def record(host: Host, outcomes: Sequence[Outcome]) -> str:
    """Record the result of a run. Returns the reason if that failed, else "". Never raises, because the
    change itself succeeded."""
    known, now, last = load(host), causes_of.seen(host), checked.load(host)
    settings, corrections = dict(known.settings), known.corrections
    for outcome in outcomes:
        was = {row.setting.key: row for row in outcome.plan.rows}
        for row in outcome.rows:
            key, value = row.setting.key, row.reading.runtime.text
            if row.status not in (Status.OK, Status.CHANGED) or value is None:
                continue
            past, before = settings.get(key, Past("")), was.get(key, row)
            if before.reading.runtime.text != value:
                if past.value == value and past.boot == now.boot:
                    corrections += 1
                    past = _corrected(past, _cause(host, before, last.seen, now, last.settings.get(key)))
                    _log_correction(host, before, row, past)
                else:
                    _log_change(host, before, row)
            settings[key] = past._replace(value=value, boot=now.boot)
    new = History(settings, corrections)
    if new != known and host.is_superuser():
        try:
            _save(host, new)
        except HostError as error:
            return f"corrections were not counted: {error}"
    return ""


def _cause(
    host: Host, before: Row, last: Seen, now: Seen, checked_setting: checked.CheckedSetting | None
) -> str:
    """The cause that the last check found, else the cause that can be found now."""
    if checked_setting and checked_setting.cause and checked_setting.runtime == before.reading.runtime.text:
        return checked_setting.cause.words
    return causes_of.find_cause(host, before, last, now).words


def _corrected(past: Past, cause: str) -> Past:
    counts = dict(past.causes)
    number = counts.pop(cause, 0) + 1  # moves the cause to the end
    kept = {**counts, cause: number}
    while len(kept) > _MOST_CAUSES:
        del kept[next(iter(kept))]
    return past._replace(corrections=past.corrections + 1, at=time.time(), causes=kept)


def _save(host: Host, history: History) -> None:
    document = {
        "format": FORMAT,
        "corrections": history.corrections,
        "settings": {key: past._asdict() for key, past in history.settings.items()},
    }
    # Readable by root only: a value may come from a file that others cannot read.
    host.write_file(PATH, json.dumps(document, ensure_ascii=True).encode("ascii") + b"\n", mode=0o600)


# -- the journal ---------------------------------------------------------------------------


def _log_change(host: Host, before: Row, row: Row) -> None:
    was, value = before.reading.runtime.text, row.reading.runtime.text
    message = f"{row.setting.key} was {shown(was)} and is {shown(value)} now, as declared"
    journal.send(host, message, SET_ID, journal.NOTICE, _fields(row, was))


def _log_correction(host: Host, before: Row, row: Row, past: Past) -> None:
    was, value = before.reading.runtime.text, row.reading.runtime.text
    key, cause = row.setting.key, [*past.causes][-1]
    message = f"{key} was {shown(was)} and is {shown(value)} again, as declared: put back {past.words}"
    fields = {**_fields(row, was), "CAUSE": cause, "CORRECTIONS": str(past.corrections)}
    journal.send(host, message, CORRECTED_ID, journal.WARNING, fields)


def report_drift(host: Host, row: Row, cause: str, past: Past | None) -> None:
    """Log a drift that a check sees for the first time."""
    key = row.setting.key
    times = past.corrections if past else 0
    again = f"; it was put back {past.words}" if past and times else ""
    message = f"{key} is not as declared: {row.reason}; cause: {cause}{again}"
    value = past.value if past else None
    fields = {**_fields(row, value), "CAUSE": cause, "CORRECTIONS": str(times)}
    journal.send(host, message, CHANGED_ID, journal.WARNING, fields)


def _fields(row: Row, was: str | None) -> dict[str, str]:
    return {
        "AREA": row.setting.kind,
        "SETTING": row.setting.key,
        "FROM": "" if was is None else was,
        "TO": row.reading.runtime.text or "",
    }
