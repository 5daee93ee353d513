# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file that both mlnode and others write: what is recorded of it before each write, and its way back.

An entry of the origin holds `saved`, the file without us, and `wrote`, what we made of it last: two
contents, as a killed run leaves the one before or the new one. Where the file is one of those, `saved` comes
back whole. Else it was edited since: what we wrote is merged out, and the edits stay. The same happens to
`saved` when a later run writes into a file that was edited, so that it is always the file without us.
"""

from __future__ import annotations

import base64
from typing import Any, Mapping, NamedTuple, Sequence

from . import merge
from .errors import HostError
from .host import Host

#: As in origin.py, which needs this module
Entry = Mapping[str, Any]
Saved = Mapping[str, Any]

#: Behind the name of an own file that was edited and is removed, as rpm does with .rpmsave: nothing that
#: reads the folders we write to reads such a name.
COPY_SUFFIX = ".mlnode-saved"

KEPT = "ours removed, later edits kept"
_GONE_SINCE = "left as it is: removed by others since"
_LEFT_SINCE = "left as it is: replaced by others since"


class WayBack(NamedTuple):
    """What a revert makes of a file. after: what it will be, as snapshot() gives it; None: not there. note:
    what became of edits, for people; empty if there were none. copy: where an edited own file is kept."""

    before: Saved | None
    after: Saved | None
    note: str = ""
    copy: str = ""

    @property
    def changes(self) -> bool:
        return self.before != self.after

    def go(self, host: Host, path: str) -> None:
        """Raises HostError."""
        if self.copy and self.before is not None:
            host.put_back(self.copy, self.before)
        if self.changes:
            host.put_back(path, self.after)


def is_named_ours(path: str) -> bool:
    """Files with our name in their path are ours as a whole. Others belong to the system or its people."""
    return "mlnode" in path


def followed(host: Host, entry: Entry, content: bytes | None) -> Entry:
    """The entry as it has to be on disk before this content is written. Raises HostError."""
    now, saved = host.snapshot(entry["file"]), entry["saved"]
    new = _record(entry, content)
    if _content(now) == _content(saved) and _is_plain(now) and _is_plain(saved):
        return {**entry, "wrote": [new]}
    known = entry.get("wrote", [])
    # A link is replaced, and an edit of an own file overwritten, as its first line says.
    if not _is_plain(now) or (known and is_named_ours(entry["file"]) and not _is_known(entry, now)):
        return {**entry, "wrote": _two(known[-1:], new)}
    current = _record(entry, _content(now))
    if not known or current in known:
        return {**entry, "wrote": _two([current], new)}
    try:
        rebased = _rebased(entry, now, content)
    except (merge.BrokenError, _NoTextError):
        return entry  # the new content counts as one more edit
    return {**entry, "saved": rebased, "wrote": _two([current], new), "edited": True}


def _two(old: Sequence[Any], new: Any) -> list[Any]:
    return [*(record for record in old if record != new), new]


def way_back(host: Host, entry: Entry) -> WayBack:
    """Raises HostError, also where the edits leave no way."""
    path, saved = entry["file"], entry["saved"]
    now = host.snapshot(path)
    whole = WayBack(now, saved, KEPT if entry.get("edited") and saved is not None else "")
    if now == saved:
        return WayBack(now, saved)
    if "wrote" not in entry or _is_known(entry, now) or _same(now, saved):
        return whole
    if is_named_ours(path):
        return _without_ours(path, now, saved)
    if now is None:
        return WayBack(None, None, _GONE_SINCE)
    if not _is_plain(now) or not _is_plain(saved):
        return WayBack(now, now, _LEFT_SINCE)
    return _merged_back(path, entry, now)


def _without_ours(path: str, now: Saved | None, saved: Saved | None) -> WayBack:
    content = _content(now)
    if content is None or b"\0" in content:  # a link, or an archive, which is not edited
        return WayBack(now, saved)
    copy = path + COPY_SUFFIX
    words = "removed" if saved is None else "restored"
    return WayBack(now, saved, f"{words}; it was edited, and a copy is in {copy}", copy)


def _merged_back(path: str, entry: Entry, now: Saved) -> WayBack:
    try:
        found = _merge(entry, now)
    except _NoTextError:
        return WayBack(now, now, _LEFT_SINCE)
    except merge.BrokenError as error:
        words = f"it was edited since, and {error}: take out by hand what was written for this node"
        raise HostError("restore", path, None, words) from error
    note = "; ".join([KEPT, *found.left])
    if entry["saved"] is None and not found.text.strip():
        return WayBack(now, None)
    after = {**now, "content": _packed(found.text)}
    return WayBack(now, after, note if after != now or found.left else "")


# -- what is recorded ----------------------------------------------------------------------


def check(entry: Entry) -> None:
    """Raises ValueError, KeyError or TypeError for a record that the functions here cannot have made."""
    for record in entry.get("wrote", []):
        if record is None:
            continue
        if "sha256" in record:
            bytes.fromhex(record["sha256"])
        else:
            base64.b64decode(record["content"], validate=True)


def _record(entry: Entry, content: bytes | None) -> dict[str, str] | None:
    """Enough to know it again; the content itself only where it may have to be merged."""
    if content is None:
        return None
    if b"\0" in content or (is_named_ours(entry["file"]) and entry["saved"] is None):
        return {"sha256": _sha256(content)}
    return {"content": base64.b64encode(content).decode("ascii")}


def _is_known(entry: Entry, now: Saved | None) -> bool:
    if not _is_plain(now):
        return False
    content = _content(now)
    return any(known in entry["wrote"] for known in (_record(entry, content), _digest(content)))


def _digest(content: bytes | None) -> dict[str, str] | None:
    return None if content is None else {"sha256": _sha256(content)}


def _sha256(content: bytes) -> str:
    # Only here: it loads OpenSSL, and most looks compare nothing.
    import hashlib

    return hashlib.sha256(content).hexdigest()


def _is_plain(saved: Saved | None) -> bool:
    return saved is None or "link" not in saved


def _same(now: Saved | None, saved: Saved | None) -> bool:
    """The same content; owner or mode may differ."""
    return _is_plain(now) and _is_plain(saved) and _content(now) == _content(saved)


def _content(saved: Saved | None) -> bytes | None:
    if saved is None or "link" in saved:
        return None
    return base64.b64decode(saved["content"])


# -- the merge -----------------------------------------------------------------------------


class _NoTextError(ValueError):
    """There is nothing that could be merged."""


def _rebased(entry: Entry, now: Saved | None, content: bytes | None) -> Saved | None:
    """What the file would be without us, now that it was edited, and before this content is written."""
    if now is None or entry["wrote"][-1] is None:
        return now  # removed by others, or made by them where we had removed it
    found = _merge(entry, now, _text(content))
    if entry["saved"] is None and not found.text.strip():
        return None
    return {**now, **(entry["saved"] or {}), "content": _packed(found.text)}


def _merge(entry: Entry, now: Saved, after: str | None = None) -> merge.Merged:
    saved, text = _text(_content(entry["saved"])), _text(_content(now))
    return merge.undone(saved, _base(entry, text), text, after)


def _base(entry: Entry, now: str) -> str:
    """Of what we wrote, that which was edited: a killed run has left the one before, or the new one."""
    known = [record["content"] for record in entry["wrote"] if record is not None and "content" in record]
    if not known:
        raise _NoTextError
    texts = [_text(base64.b64decode(content)) for content in known]
    from difflib import SequenceMatcher

    # The last of equally near ones, which is what is there after a run that ended well.
    return max(reversed(texts), key=lambda text: SequenceMatcher(None, text, now).quick_ratio())


def _text(content: bytes | None) -> str:
    if content is not None and b"\0" in content:
        raise _NoTextError
    return (content or b"").decode("utf-8", "surrogateescape")


def _packed(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogateescape")).decode("ascii")
