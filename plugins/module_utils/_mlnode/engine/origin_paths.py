# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An entry of the origin: its valid fields, and the record of a file before each write.

A revert writes an entry's content as root. Therefore an entry may name only things that a run can have
written. An entry in the form of a newer version is refused before anything is put back: half of its meaning
may be unknown here.
"""

from __future__ import annotations

import base64
import re
from importlib import import_module
from typing import Any, Callable, Iterable, Mapping, Sequence, TypeVar

from ..host import places
from ..host.host import Host
from ..model import strict_json
from ..model.errors import StoreError
from ..model.record import regex

Entry = TypeVar("Entry", bound=Mapping[str, Any])
#: A file as Host.snapshot() gives it
Saved = Mapping[str, Any]

#: Exceptions from json, origin.checked() and the users of their values for a damaged file
DAMAGE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)

#: As the kernel's own limit without the byte at the end (limits.h: PATH_MAX)
_LONGEST_PATH = 4095
#: (uid_t) -1 and (gid_t) -1 mean: leave it unchanged (chown(2))
_LAST_ID = 0xFFFFFFFE
_ALL_BITS = 0o7777

#: As the kernel and modprobe spell them (MODULE_NAME_LEN: 56 bytes with a 64-bit kernel)
_MODULE = regex(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,54}\Z", re.ASCII)
_DEVICE = regex(r"/sys(?:/(?!\.\.?(?:/|\Z))[^/]+)+\Z")


#: Fields of every entry
_ALL = frozenset({"id", "key", "value"})

#: Conditions for putting a kernel file back: fields of KnobFile, stored if true
FORMS = ("partial", "among", "late", "negotiated")

#: Field that makes an entry of a sort → its optional fields
_SORTS = {
    "writes": frozenset({"boot", "device", *FORMS}),
    "file": frozenset({"saved", "edited", "folders", "notify", "wrote"}),
    "module": frozenset({"stays"}),
}


#: Remedy for an origin of another version. A run reads it before it replaces the agent.
WITH_ITS_AGENT = (
    "revert the node with the agent that has recorded it, which is still installed unless it was replaced by "
    "hand: run mlnode revert on the node, then site.yml again"
)


def refuse_unknown(entry: Mapping[str, Any]) -> None:
    """Raises StoreError for an entry that this version would not put back correctly."""
    sort = next((sort for sort in _SORTS if sort in entry), "")
    unknown = sorted(map(str, {*entry} - _ALL - {sort} - _SORTS.get(sort, frozenset())))
    if unknown:
        raise _another(entry, f"the field {unknown[0][:40]!r} is unknown")
    name = entry.get("notify", "")
    if name and isinstance(name, str) and name not in places.READERS:
        raise _another(entry, f"who is notified is unknown: {name[:40]!r}")


def _another(entry: Mapping[str, Any], form: str) -> StoreError:
    return StoreError(
        f"the origin of {str(entry.get('id'))[:200]!a} is in a form that this version of mlnode cannot put "
        f"back ({form}), and nothing was changed: {WITH_ITS_AGENT}"
    )


def check(entry: Mapping[str, Any], texts: Iterable[str]) -> None:
    """Raises ValueError for an entry that no run can have made. texts: all its texts."""
    strict_json.check([*texts], kernel_bytes=True)
    kind, _colon, name = entry["id"].partition(":")
    if "writes" in entry:
        _refuse_unless(kind == "kernel", entry)
        for path in [name, *(path for path, _value in entry["writes"])]:
            _refuse_unless(places.may_set(path, str(entry.get("key"))), entry, path)
        if "device" in entry:
            _refuse_unless(_DEVICE.match(entry["device"]) is not None, entry, entry["device"])
    elif "file" in entry:
        _refuse_unless(kind == "file" and name == entry["file"], entry)
        _check_file(entry)
    else:
        _refuse_unless(kind == "module" and name == entry["module"], entry)
        _refuse_unless(_MODULE.match(name) is not None, entry, name)


def _check_file(entry: Mapping[str, Any]) -> None:
    path, saved = entry["file"], entry["saved"]
    _refuse_unless(places.may_write(path) and len(path) <= _LONGEST_PATH, entry, path)
    for folder in entry["folders"]:
        _refuse_unless(len(folder) > 1 and path.startswith(f"{folder}/"), entry, folder)
    if saved is not None and "link" in saved:  # which had any target before the first run
        _refuse_unless(0 < len(saved["link"]) <= _LONGEST_PATH, entry, saved["link"])


def check_attributes(saved: Mapping[str, Any]) -> None:
    """Raises ValueError, KeyError or TypeError for an invalid mode or owner."""
    for name, most in (("mode", _ALL_BITS), ("uid", _LAST_ID), ("gid", _LAST_ID)):
        number = saved[name]
        if not strict_json.is_of(number, int):
            raise TypeError(f"{name} {str(number)[:40]} is not a whole number")
        if not 0 <= number <= most:
            raise ValueError(f"{name} is not a number from 0 to {most}")


def fit(checked: Callable[[Entry], Entry], entry: Entry) -> Entry:
    """The entry to store. Raises StoreError, before anything is changed, if it could not be read again."""
    try:
        return checked(entry)
    except DAMAGE as error:
        raise StoreError(f"what {str(entry.get('key'))[:80]} was cannot be kept: {error}") from error


def _refuse_unless(right: bool, entry: Mapping[str, Any], path: str = "") -> None:
    if not right:
        problem = f"names {path[:200]!r}, which" if path else "is of a kind that"
        raise ValueError(f"entry {entry['id'][:200]!r} {problem} mlnode never writes")


# -- the record of a file ------------------------------------------------------------------


def is_named_ours(path: str) -> bool:
    """True for a path with mlnode's name: the whole file is its own. Other files belong to the system."""
    return "mlnode" in path


def followed(host: Host, entry: Mapping[str, Any], content: bytes | None) -> Mapping[str, Any]:
    """The entry of a file that must be on disk before this content is written. Raises HostError."""
    now, saved = host.snapshot(entry["file"]), entry["saved"]
    new = _record(entry, content)
    if content_of(now) == content_of(saved) and is_plain(now) and is_plain(saved):
        return {**entry, "wrote": [new]}
    known = entry.get("wrote", [])
    # A link is replaced, and an edit of an own file is overwritten, as its first line says.
    if not is_plain(now) or (known and is_named_ours(entry["file"]) and not is_known(entry, now)):
        return {**entry, "wrote": _two(known[-1:], new)}
    current = _record(entry, content_of(now))
    wrote = _two([current], new)
    if not known or current in known:
        return {**entry, "wrote": wrote}
    # By its name: the writer of a file that others edit too packages it.
    edited_file = import_module(f"{__package__}.edited_file")
    rebased: Mapping[str, Any] = edited_file.rebased(entry, now, content, wrote)
    return rebased


def check_records(entry: Mapping[str, Any]) -> None:
    """Raises ValueError, KeyError or TypeError for a record that followed() cannot have made."""
    for record in entry.get("wrote", []):
        if record is None:
            continue
        if "sha256" in record:
            bytes.fromhex(record["sha256"])
        else:
            base64.b64decode(record["content"], validate=True)


def is_known(entry: Mapping[str, Any], now: Saved | None) -> bool:
    """True for a content written by mlnode."""
    if not is_plain(now):
        return False
    content = content_of(now)
    return _record(entry, content) in entry["wrote"] or _digest(content) in entry["wrote"]


def is_plain(saved: Saved | None) -> bool:
    """False for a link."""
    return saved is None or "link" not in saved


def content_of(saved: Saved | None) -> bytes | None:
    if saved is None or "link" in saved:
        return None
    return base64.b64decode(saved["content"])


def _record(entry: Mapping[str, Any], content: bytes | None) -> dict[str, str] | None:
    """Data to recognize a content; the content itself only if it may need a merge."""
    if content is None:
        return None
    if b"\0" in content or (is_named_ours(entry["file"]) and entry["saved"] is None):
        return _digest(content)
    return {"content": base64.b64encode(content).decode("ascii")}


def _digest(content: bytes | None) -> dict[str, str] | None:
    if content is None:
        return None
    # Imported here: it loads OpenSSL, and most looks compare nothing.
    import hashlib

    return {"sha256": hashlib.sha256(content).hexdigest()}


def _two(old: Sequence[Any], new: Any) -> list[Any]:
    return [*(record for record in old if record != new), new]


def present(host: Host) -> dict[str, str]:
    """Path → reader, for our existing files: they reveal a tuned node whose origin is lost. Raises
    HostError."""
    return {
        path: own.reader
        for own in places.OWN
        if not own.path.endswith(places.LEASE_UNIT)  # which stays while the node is reverted
        for path in ([own.path] if "*" not in own.pattern else host.matching(own.pattern))
        if _is_ours(host, path)
    }


def _is_ours(host: Host, path: str) -> bool:
    """False for an administrator's file in our place, such as a unit linked to /dev/null."""
    if path.startswith(places.WANTS):
        return places.is_own(host.link_target(path))
    return not host.is_link(path) and host.exists(path)
