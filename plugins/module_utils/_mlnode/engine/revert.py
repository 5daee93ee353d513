# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Restore the node to its state before the first run: values, files, modules; newest change first."""

from __future__ import annotations

import base64
from typing import Any, Mapping, Sequence

from ..host import places
from ..host.host import Host
from ..linux import initramfs, sysctl_d
from ..model import values
from ..model.errors import HostError, TransactionError
from ..model.record import NamedTuple
from . import confirm, edited_file, handlers, lock
from .edited_file import WayBack
from .lock import WAIT_SECONDS, locked
from .origin import Entry, Origin, complete, is_closed
from .restore import is_back, remove_folders, restore
from .units import NIC_PATH_FILE

#: Records of checks (checks/rdma/counters.py, checks/subnet/, checks/preflight/losses.py,
#: checks/campaign/store.py) and of timed checks and pulls, and leftovers of a killed first write of one: no
#: longer needed
FOLDER, _OF_BOOT = "/var/lib/mlnode", "/run/mlnode"
_LEFT = ".*.mlnode-tmp"
_KEPT = ("rdma-baseline.json", "ib-subnet*.cache", "check.json", "history.json", _LEFT)
#: Notes about devices, in separate folders
NOTES = (places.ANSWERS, places.FAILED_CHANGES)
BASELINES = (
    *(f"{FOLDER}/{name}" for name in _KEPT),
    *(f"{_OF_BOOT}/{name}" for name in ("preflight-*.json", "campaign-*.json", _LEFT)),
    places.WATCHED,
    *(places.PULL_LOCK, places.CHECK_LOCK),
    *(places.PULLED, places.PULLED_COPY, f"{places.PULL_FOLDER}/*"),
    *(f"{folder}/*" for folder in NOTES),
)
#: Removed if empty, the inner ones first
FOLDERS = (places.PULL_FOLDER, *NOTES, *places.FOLDERS)


_OF_SYSCTL = places.pattern("/etc/sysctl.d/zz-mlnode-NAME.conf")
#: Files that an initramfs may contain a copy of, and the record of lines that have left them
_COPIED = (_OF_SYSCTL, places.pattern(places.LEFT_SYSCTLS))


class Change(NamedTuple):
    """One change of a revert. For a file the texts are its contents; None: absent. at_boot: the running
    system keeps the file's settings until the next boot. note: the fate of later edits by others, which may
    be the only result. is_closed: a file without access for other users."""

    key: str
    before: str | None
    after: str | None
    is_file: bool = False
    at_boot: bool = False
    note: str = ""
    is_closed: bool = False

    @property
    def result(self) -> str:
        """The restored value; for a file, its fate."""
        if self.is_file:
            return self.note or ("removed" if self.after is None else "restored")
        return self.after or ""

    @property
    def changes(self) -> bool:
        """False for a file that keeps the edits of others."""
        return self.before != self.after


def pending(host: Host) -> list[Change]:
    """Changes of a revert, in their order. Raises MlnodeError."""
    entries = Origin.load(host).entries()
    changes = (_change(host, entry) for entry in reversed(entries) if not _stays(entry))
    return [*(change for change in changes if change is not None), *_brought(host, entries), *_copies(host)]


def _brought(host: Host, entries: Sequence[Entry]) -> list[Change]:
    """Note without a change on running values whose origin is unknown, as an image's file sets them before
    mlnode runs. Must run while the files exist; never raises."""
    known = {str(entry["id"]) for entry in entries}
    try:
        lines = [line for path in host.matching(_OF_SYSCTL) for line in sysctl_d.parse(host.text(path), path)]
    except HostError as error:
        note = f"values of an image may stay until the next boot: {error}"
        return [Change("kernel", None, None, is_file=True, note=note)]
    runtime = {line: f"/proc/sys/{line.key}" for line in lines if line.value is not None}
    stay = [
        line.text
        for line, path in runtime.items()
        if f"kernel:{path}" not in known and values.same(host.value(path).text or "", line.value or "")
    ]
    note = f"{', '.join(stay)} until the next boot: the image has set it, and the value before is unknown"
    return [Change("kernel", None, None, is_file=True, note=note)] if stay else []


def _copies(host: Host) -> list[Change]:
    """Note without a change on values that an initramfs may restore at the next boot. Must run while our
    files exist; never raises."""
    try:
        ours = [path for pattern in _COPIED for path in host.matching(pattern)]
        keys = [line.text for path in ours for line in sysctl_d.parse(host.text(path), path)]
        images = initramfs.images(host) if keys else []
        note = initramfs.words(host, images, [*dict.fromkeys(keys)])
    except HostError as error:
        note = f"whether one has a copy of /etc/sysctl.d is not known: {error}"
    return [Change(initramfs.NAME, None, None, is_file=True, note=note)] if note else []


def _stays(entry: Entry) -> bool:
    """True for a module that was declared itself: unloading it would harm its present users."""
    return bool(entry.get("stays"))


def _change(host: Host, entry: Entry) -> Change | None:
    """The change that puts back an entry; None if it needs none. Raises HostError."""
    if "file" in entry:
        return _file_change(entry, edited_file.way_back(host, entry))
    if is_back(host, entry):
        return None
    if "module" in entry:
        return Change(entry["key"], "loaded", entry["value"])
    return Change(entry["key"], host.value(entry["id"].partition(":")[2]).text, entry["value"])


def _file_change(entry: Entry, way: WayBack) -> Change | None:
    if not way.changes and not way.note:
        return None
    waits = way.changes and entry.get("notify", "") in handlers.AT_BOOT
    before, after = described(way.before), described(way.after)
    hidden = is_closed(way.before) or is_closed(way.after)
    return Change(entry["file"], before, after, True, waits, way.note, hidden)


def _put_back(host: Host, entry: Entry) -> bool:
    """Put back an entry; False if it needed no change. Raises HostError."""
    if "file" not in entry:
        return restore(host, entry)
    way = edited_file.way_back(host, entry)
    way.go(host, entry["file"])
    if not way.changes:
        host.tidy(entry["file"])
    remove_folders(host, entry)
    return way.changes


def _all_back(host: Host, todo: Sequence[Entry]) -> tuple[list[Entry], list[str], list[str]]:
    """Restored entries, the changes made for it, and the failures with their reasons."""
    done: list[Entry] = []
    undone: list[str] = []
    stuck: list[str] = []
    for entry in sorted(todo, key=lambda entry: bool(entry.get("late"))):
        try:
            if not _stays(entry) and _put_back(host, entry):
                undone.append(f"{entry['key']} = {entry['value']}")
            done.append(entry)
        except HostError as error:
            stuck.append(f"{entry['key']} ({error})")
    return done, undone, stuck


def described(saved: Mapping[str, Any] | None) -> str | None:
    """A file's content as text, None if there is none; for an archive only its size."""
    if saved is None:
        return None
    if "link" in saved:
        return f"link to {saved['link']}\n"
    content = base64.b64decode(saved["content"])
    return f"{len(content)} bytes\n" if b"\0" in content else content.decode("utf-8", "replace")


def revert(host: Host, wait_seconds: float = WAIT_SECONDS) -> list[Change]:
    """Put everything back and return the changes.

    Failed entries are kept for the next try, and listed in the TransactionError at the end.
    """
    with locked(host, wait_seconds):
        confirm.refuse_while_pending(host)
        origin = Origin.load(host)
        if origin.entries() and not host.is_superuser():
            raise HostError("revert", "this node", None, "root is needed")
        complete(host)
        changes: list[Change] = []
        for entry in reversed(origin.entries()):
            try:
                change = None if _stays(entry) else _change(host, entry)
            except HostError:
                continue  # _put_back() fails on it again, and reports it
            if change is not None:
                changes.append(change)
        changes += [*_brought(host, origin.entries()), *_copies(host)]
        removed = any(entry["id"] == f"file:{NIC_PATH_FILE}" for entry in origin.entries())
        if removed:  # a NIC whose queues go back raises the flag, and would start the unit under removal
            handlers.stop_waiting(host)
        done, undone, stuck = _all_back(host, [*reversed(origin.entries())])
        failed = _notify(host, done)
        stuck += failed.values()
        origin.forget([entry for entry in done if entry.get("notify", "") not in failed])
        host.forget()
        if removed and not host.exists(NIC_PATH_FILE):
            handlers.forget_units(host)
        lock.take_notes(host)  # their settings are back
        if not stuck:
            for path in (path for pattern in BASELINES for path in host.matching(pattern)):
                host.remove_file(path)
            for folder in FOLDERS:
                host.remove_folder_if_empty(folder)
    if stuck:
        raise TransactionError("not everything could be put back", undone, stuck)
    return changes


def _notify(host: Host, done: list[Entry]) -> dict[str, str]:
    """Notify the readers of the files, even of restored ones: an interrupted revert has not. Returns reader →
    failure."""
    failed: dict[str, str] = {}
    for name in filter(None, dict.fromkeys(str(entry.get("notify", "")) for entry in done)):
        try:
            handlers.run(host, name)
        except HostError as error:
            failed[name] = str(error)
    return failed
