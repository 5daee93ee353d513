# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file written by both mlnode and others, and its way back. Loaded by name by the writers of such a file:
only areas with such files package it.

An entry of the origin holds `saved`, the file without our part, and `wrote`, our last version: two contents,
as a killed run leaves either the previous or the new one. If the file equals one of them, `saved` is restored
whole. Otherwise it was edited since: our part is merged out, and the edits stay. The same is done to `saved`
when a later run writes into an edited file: it is always the file without our part.
"""

from __future__ import annotations

import base64
from typing import Any, Mapping, Sequence

from ..host.host import Host
from ..model import json_members
from ..model.errors import HostError
from ..model.record import NamedTuple
from . import merge
from .origin_paths import Saved, content_of, is_known, is_named_ours, is_plain

#: As in origin.py
Entry = Mapping[str, Any]

#: Suffix for an edited own file that is removed, as rpm does with .rpmsave: no reader of the folders we write
#: to accepts such a name.
COPY_SUFFIX = ".mlnode-saved"

KEPT = "mlnode's part removed, later edits kept"
_GONE_SINCE = "left as it is: removed by others since"
_LEFT_SINCE = "left as it is: replaced by others since"


class WayBack(NamedTuple):
    """Result of a revert for a file. after: its future state in the form of snapshot(); None: absent. note:
    the fate of edits, for people; empty if there were none. copy: the place of an edited own file."""

    before: Saved | None
    after: Saved | None
    note: str = ""
    copy: str = ""

    @property
    def changes(self) -> bool:
        return self.before != self.after

    def go(self, host: Host, path: str) -> None:
        """Carry out the way back. Raises HostError."""
        if self.copy and self.before is not None:
            host.put_back(self.copy, self.before)
        if self.changes:
            host.put_back(path, self.after)


def rebased(entry: Entry, now: Saved | None, content: bytes | None, wrote: Sequence[Any]) -> Entry:
    """The entry of an edited file that must be on disk before this content is written."""
    try:
        saved = _rebased(entry, now, content)
    except (merge.BrokenError, _NoTextError):
        return entry  # the new content counts as one more edit
    return {**entry, "saved": saved, "wrote": wrote, "edited": True}


def way_back(host: Host, entry: Entry) -> WayBack:
    """The way back of a file. Raises HostError, also if the edits prevent it."""
    path, saved = entry["file"], entry["saved"]
    now = host.snapshot(path)
    whole = WayBack(now, saved, KEPT if entry.get("edited") and saved is not None else "")
    if now == saved:
        return WayBack(now, saved)
    if "wrote" not in entry or is_known(entry, now) or _same(now, saved):
        return whole
    if is_named_ours(path):
        return _without_ours(path, now, saved)
    if now is None:
        return WayBack(None, None, _GONE_SINCE)
    if not is_plain(now) or not is_plain(saved):
        return WayBack(now, now, _LEFT_SINCE)
    return _merged_back(path, entry, now)


def _without_ours(path: str, now: Saved | None, saved: Saved | None) -> WayBack:
    content = content_of(now)
    if content is None or b"\0" in content:  # a link, or an archive, which is not edited
        return WayBack(now, saved)
    copy = path + COPY_SUFFIX
    verb = "removed" if saved is None else "restored"
    return WayBack(now, saved, f"{verb}; it was edited, and a copy is in {copy}", copy)


def _merged_back(path: str, entry: Entry, now: Saved) -> WayBack:
    try:
        merged = _merge(entry, now)
    except _NoTextError:
        return WayBack(now, now, _LEFT_SINCE)
    except merge.BrokenError as error:
        advice = f"it was edited since, and {error}: remove mlnode's part by hand"
        raise HostError("restore", path, None, advice) from error
    note = "; ".join([KEPT, *merged.left])
    if entry["saved"] is None and not merged.text.strip():
        return WayBack(now, None)
    after = {**now, "content": _packed(merged.text)}
    return WayBack(now, after, note if after != now or merged.left else "")


def _same(now: Saved | None, saved: Saved | None) -> bool:
    """The same content; owner or mode may differ."""
    return is_plain(now) and is_plain(saved) and content_of(now) == content_of(saved)


# -- the merge -----------------------------------------------------------------------------


class _NoTextError(ValueError):
    """No text to merge exists."""


def _rebased(entry: Entry, now: Saved | None, content: bytes | None) -> Saved | None:
    """The edited file without our part, before this content is written."""
    if now is None or entry["wrote"][-1] is None:
        return now  # removed by others, or created by them after we removed it
    merged = _merge(entry, now, _text(content))
    if entry["saved"] is None and not merged.text.strip():
        return None
    return {**now, **(entry["saved"] or {}), "content": _packed(merged.text)}


def _merge(entry: Entry, now: Saved, after: str | None = None) -> merge.Merged:
    saved, text = _text(content_of(entry["saved"])), _text(content_of(now))
    if entry["file"].endswith(".json"):
        # A merge of words could leave a comma too much or too few.
        try:
            return merge.Merged(json_members.undone(saved, _wrote(entry), text), ())
        except ValueError as error:
            raise merge.BrokenError(f"it is not a JSON object now ({error})") from error
    return merge.undone(saved, _base(entry, text), text, after)


def _wrote(entry: Entry) -> list[str]:
    """Our versions: a killed run has left the previous or the new one."""
    known = [record["content"] for record in entry["wrote"] if record is not None and "content" in record]
    if not known:
        raise _NoTextError
    return [_text(base64.b64decode(content)) for content in known]


def _base(entry: Entry, now: str) -> str:
    """Our version that was edited."""
    texts = _wrote(entry)
    from difflib import SequenceMatcher

    # The last of equally near ones, which is the usual one after a successful run.
    return max(reversed(texts), key=lambda text: SequenceMatcher(None, text, now).quick_ratio())


def _text(content: bytes | None) -> str:
    if content is not None and b"\0" in content:
        raise _NoTextError
    return (content or b"").decode("utf-8", "surrogateescape")


def _packed(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogateescape")).decode("ascii")
