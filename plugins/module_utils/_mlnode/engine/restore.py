# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Restore entries of the origin: for a rollback, a revert, and settings that leave a declaration."""

from __future__ import annotations

import time

from ..host.host import Host
from ..model.errors import HostError
from ..model.setting import Value
from ..model.values import fits
from .origin import Entry, is_obsolete

#: Time that two ends negotiate: copper takes up to three seconds (IEEE 802.3, clause 28), and some drivers
#: read the link every two (intel/igb/igb_main.c: igb_watchdog_task)
_NEGOTIATION_SECONDS = 8.0
_POLL_SECONDS = 0.1


def is_back(host: Host, entry: Entry) -> bool:
    """True if the node already matches the entry, or never can again. Raises HostError."""
    if is_obsolete(host, entry):
        return True
    if "writes" in entry:
        return all(_fits(entry, host.value(path), value) for path, value in entry["writes"])
    if "file" in entry:
        return bool(host.snapshot(entry["file"]) == entry["saved"])
    return not host.exists(f"/sys/module/{entry['module']}")


def restore(host: Host, entry: Entry) -> bool:
    """Put one entry back whole, as a rollback does; for files, `mlnode revert` uses edited_file.way_back().

    Returns False if the node already matched the entry. Raises HostError.
    """
    if is_back(host, entry):
        if "file" in entry:
            host.tidy(entry["file"])
            remove_folders(host, entry)
        return False
    if "writes" in entry:
        return _restore_kernel(host, entry)
    if "file" in entry:
        host.put_back(entry["file"], entry["saved"])
        remove_folders(host, entry)
        return True
    # A module in use stays: it is harmless, and gone with the next boot.
    host.run(["modprobe", "-r", entry["module"]])
    return not host.exists(f"/sys/module/{entry['module']}")


def remove_folders(host: Host, entry: Entry) -> None:
    """Remove the folders made for a file, if nothing else is in them. Raises HostError."""
    for folder in reversed(entry["folders"]):
        # Test first: on a read-only file system rmdir(2) fails even for a missing folder.
        if host.exists(folder):
            host.remove_folder_if_empty(folder)


def _fits(entry: Entry, runtime: Value, value: str) -> bool:
    return runtime.text is not None and fits(runtime.text, value, "among" in entry)


def _restore_kernel(host: Host, entry: Entry) -> bool:
    for path, value in entry["writes"]:
        # One by one and just before the write, as restoring one file may change the next.
        if _fits(entry, host.value(path), value):
            continue
        try:
            _write(host, path, value)
        except HostError as error:
            if error.absent:  # the device or interface is gone, and its knob with it
                continue
            # The state decides: a driver may make a change and report an error.
            if not _fits(entry, host.value(path), value):
                raise
        runtime = _settled(host, entry, path, value)
        if runtime.text is None or not (_may_differ(entry) or _fits(entry, runtime, value)):
            raise HostError("restore", path, None, f"wrote {value!r}, the kernel shows {runtime!s}")
    return True


def _write(host: Host, path: str, value: str) -> None:
    """Write several files at once; if that is refused because of one, write each differing file alone, also
    after an error of another one. Raises HostError."""
    folder, _slash, names = path.rpartition("/")
    try:
        host.write_kernel(path, value)
    except HostError as error:
        if error.absent or "," not in names:
            raise
        refused = None
        for name, text in zip(names.split(","), value.split()):
            now = host.value(f"{folder}/{name}").text
            if now is None or not fits(now, text):
                try:
                    host.write_kernel(f"{folder}/{name}", text)
                except HostError as alone:
                    # The refusal of a file counts, even if another file is missing.
                    refused = alone if refused is None or refused.absent else refused
        if refused is not None:
            raise refused from error


def _settled(host: Host, entry: Entry, path: str, value: str) -> Value:
    """The written value, once both ends of a link agree on it."""
    runtime = host.value(path)
    until = time.monotonic() + _NEGOTIATION_SECONDS
    while "negotiated" in entry and not _fits(entry, runtime, value) and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
        runtime = host.value(path)
    return runtime


def _may_differ(entry: Entry) -> bool:
    """True if the kernel may give less, or if the other end of a link may have changed its mind."""
    return bool(entry.get("partial") or entry.get("negotiated"))
