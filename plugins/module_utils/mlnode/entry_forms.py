# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Entries of the origin in a form that only a newer version of mlnode knows.

They are refused before anything is put back: what is known of such an entry may be half of what it means.
"""

from __future__ import annotations

from typing import Any, Mapping

from . import refresh
from .errors import StoreError

#: What every entry has
_ALL = frozenset({"id", "key", "value"})

#: What makes an entry of a sort → what else it may have
_SORTS = {
    "writes": frozenset({"boot", "device"}),
    "file": frozenset({"saved", "edited", "folders", "refresh", "wrote"}),
    "module": frozenset({"stays"}),
}


def refuse_unknown(entry: Mapping[str, Any]) -> None:
    """Raises StoreError for what this version would not put back as it was meant."""
    sort = next((sort for sort in _SORTS if sort in entry), "")
    unknown = sorted(map(str, {*entry} - _ALL - {sort} - _SORTS.get(sort, frozenset())))
    if unknown:
        raise _newer(entry, f"the field {unknown[0][:40]!r} is unknown")
    name = entry.get("refresh", "")
    if name and isinstance(name, str) and name not in refresh.REFRESHES:
        raise _newer(entry, f"the refresh {name[:40]!r} is unknown")


def _newer(entry: Mapping[str, Any], words: str) -> StoreError:
    return StoreError(
        f"the origin of {str(entry.get('id'))[:200]!a} is in a form that this version of mlnode cannot put "
        f"back ({words}), and nothing was changed: use the version that has recorded it"
    )
