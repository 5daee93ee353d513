# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The change that waits to be confirmed, the lease on the node's state, and the undone change: files that
survive a power cut."""

from __future__ import annotations

import json
import math
import time
from typing import Any, Callable, Mapping, Tuple, TypeVar

from ..host import places, trust
from ..host.host import Host
from ..host.system import LIMIT
from ..model import strict_json
from ..model.errors import HostError, MlnodeError, StoreError
from ..model.record import NamedTuple, regex
from .origin import Entry, boot_id, checked
from .origin_paths import DAMAGE

T = TypeVar("T")

#: Name of a call, and its options
Call = Tuple[str, Mapping[str, Any]]

#: The waiting change; 0600, as it may hold content of files with limited access
PENDING = places.PENDING
#: The lease; 0600, as a declaration may hold secrets of a site
LEASE = places.LEASE
#: The undone change, until it is reported
UNDONE = places.UNDONE
#: The last id confirmed since the boot, so that asking again after a lost answer does not fail
CONFIRMED = "/run/mlnode/confirmed"

#: The undoing agent may be older than the arming one: raise this only with a test in confirm._timer().
FORMAT = 1

#: Time format for people, in both files
TIME = "%Y-%m-%d %H:%M:%S UTC"

_ID = regex(r"[0-9a-f]{8}\Z")


class Pending(NamedTuple):
    """A change that waits, or a lease.

    deadline: for people, as clocks jump; due decides, in seconds of CLOCK_MONOTONIC of this boot. connection:
    over which it was made. fresh: ids of new entries in the origin. gone: ids to forget there once it is
    confirmed. calls: that end a lease, as in agent/call.py, with their options; empty for a change.
    """

    id: str
    name: str
    deadline: str
    seconds: int
    words: str
    boot: str
    due: float
    connection: str
    entries: tuple[Entry, ...]
    fresh: tuple[str, ...]
    gone: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()

    @property
    def path(self) -> str:
        return LEASE if self.calls else PENDING

    @property
    def left(self) -> int:
        """Seconds until it is undone; 0 if overdue."""
        return max(0, math.ceil(self.due - time.monotonic()))

    def lapsed(self, host: Host) -> bool:
        """True if its restore should have happened: its time is over, or it died with the last boot."""
        return self.boot != boot_id(host) or not self.left

    @property
    def text(self) -> str:
        if self.calls:
            command = f"`python3 -IS {places.LEASE_AGENT} undo {self.id}`"
            if not self.left:
                return f"{self.name} has left this node, which is not {self.words} again: {command} does that"
            return (
                f"{self.name} alternates the state of this node until {self.deadline} or longer, and puts it "
                f"back to {self.words}: wait, or end that now with {command}"
            )
        subject = f"a change of {self.name} ({self.words})"
        if not self.left:
            return (
                f"{subject} had to be confirmed until {self.deadline}, and not all of it is undone yet: "
                f"`mlnode undo {self.id}` does that now"
            )
        return (
            f"{subject} waits to be confirmed until {self.deadline.partition(' ')[2]} and is undone then: "
            f"confirm it over a new connection with `mlnode confirm {self.id}`, or undo it now with "
            f"`mlnode undo {self.id}`"
        )


class Undone(NamedTuple):
    """A change that was undone. stuck: failures to put back, with their reasons."""

    id: str
    name: str
    time: str
    why: str
    words: str
    stuck: tuple[str, ...]

    @property
    def text(self) -> str:
        outcome = f"the change of {self.name} ({self.words}) was undone at {self.time}, as {self.why}"
        if not self.stuck:
            return f"{outcome}: the old values are back"
        return f"{outcome}. COULD NOT be put back: {'; '.join(self.stuck)}"


def load_pending(host: Host) -> Pending | None:
    """The waiting change; None if nothing waits. Raises MlnodeError."""
    advice = (
        "the values to put back are unknown: look at the NICs of this node, then remove the file; "
        "`mlnode revert` still knows the state before the first run"
    )
    return _load_waiting(host, PENDING, advice)


def load_lease(host: Host) -> Pending | None:
    """The lease; None if there is none. Raises MlnodeError."""
    advice = "the state to put back is unknown: remove the file, then run site.yml or revert.yml"
    return _load_waiting(host, LEASE, advice)


def _load_waiting(host: Host, path: str, advice: str) -> Pending | None:
    def made(fields: Mapping[str, Any]) -> Pending:
        names = ("id", "name", "deadline", "words", "boot", "connection")
        texts = dict(zip(names, _texts(*(fields[name] for name in names))))
        if not _ID.match(texts["id"]):
            raise ValueError(f"{texts['id']!r} is not an id")
        due = float(fields["due"])
        if not math.isfinite(due):
            raise ValueError(f"due is {due}")
        return Pending(
            **texts,
            seconds=int(fields["seconds"]),
            due=due,
            entries=tuple(checked(dict(entry)) for entry in fields["entries"]),
            fresh=_texts(*fields["fresh"]),
            gone=_texts(*fields["gone"]),
            calls=tuple(map(call, fields["calls"])),
        )

    # A damaged file stays: no run may go on as if nothing had been armed.
    return _load(host, path, made, advice)


def call(given: Any) -> Call:
    """A call that puts a node back. Raises TypeError, ValueError."""
    name, options = given
    if name not in ("declare", "revert") or not isinstance(options, dict):
        raise ValueError("expected a call that puts a node back")
    return name, options


def load_undone(host: Host) -> Undone | None:
    """The undone change; None if there was none since the last acknowledgement. Raises MlnodeError."""

    def made(fields: Mapping[str, Any]) -> Undone:
        names = ("id", "name", "time", "why", "words")
        texts = dict(zip(names, _texts(*(fields[name] for name in names))))
        return Undone(**texts, stuck=_texts(*fields["stuck"]))

    return _load(host, UNDONE, made, "look at the NICs of this node, then remove it")


def report(host: Host) -> str:
    """The message about an unreported undo, or why it cannot be read; empty if none."""
    try:
        undone = load_undone(host)
    except MlnodeError as error:
        return f"a change was undone, but {error}"
    return "" if undone is None else undone.text


def notes(host: Host) -> list[str]:
    """One line each for the waiting and the undone change. Raises nothing."""
    lines = []
    for load, about in ((load_pending, "a change waits to be confirmed"), (load_lease, "a lease")):
        try:
            waiting = load(host)
            if waiting is not None:
                lines.append(waiting.text)
        except MlnodeError as error:
            lines.append(f"{about}: {error}")
    text = report(host)
    return [*lines, text] if text else lines


def acknowledge(host: Host) -> None:
    """Mark the undone change as reported. Raises HostError."""
    remove(host, UNDONE)


def save(host: Host, record: Pending | Undone) -> None:
    """Write a record to disk before returning. Raises HostError."""
    path, mode = (record.path, 0o600) if isinstance(record, Pending) else (UNDONE, 0o644)
    text = json.dumps({"format": FORMAT, **record._asdict()}, indent=1)
    host.write_file(path, f"{text}\n".encode("ascii"), mode)


def remove(host: Host, path: str) -> None:
    """Remove a file, and the folder if it was the last one in it. Absent is fine. Raises HostError."""
    host.remove_file(path)
    host.remove_folder_if_empty(path.rpartition("/")[0], may_stay=True)


def confirmed(host: Host) -> str:
    """The last confirmed id; empty if none. Raises StoreError, HostError."""
    return (_content(host, CONFIRMED) or b"").decode("ascii", "replace").strip()


def _content(host: Host, path: str) -> bytes | None:
    """The content of a file; None if it is absent."""
    try:
        return trust.read(host, path)
    except HostError as error:
        if error.absent:
            return None
        raise


def _load(host: Host, path: str, made: Callable[[Mapping[str, Any]], T], advice: str) -> T | None:
    content = _content(host, path)
    if content is None:
        return None
    fields = strict_json.document(content, path, FORMAT, advice=advice, most=LIMIT, kernel_bytes=True)
    try:
        return made(fields)
    except DAMAGE as error:
        raise StoreError(f"{path} is damaged ({type(error).__name__}: {error}): {advice}") from error


def _texts(*texts: Any) -> tuple[str, ...]:
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("expected text, got another type")
    return texts
