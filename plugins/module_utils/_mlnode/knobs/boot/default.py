# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The entry that GRUB starts by default, where it is one that nothing we write can reach.

GRUB_DEFAULT, or the saved_entry of grub-set-default, may name an entry of /etc/grub.d/40_custom: its command
line stands there, and neither GRUB_CMDLINE_LINUX nor an entry of the Boot Loader Specification changes it.
"""

from __future__ import annotations

import re
from typing import Mapping, Sequence

from ...linux import grub
from ...model.record import dataclass, field, regex
from .grub import Entry, entry

#: util/grub.d/00_header.in writes it last for what is not asked for once only
_DEFAULT = regex(r'^\s*set\s+default="([^"\n]*)"', re.MULTILINE)
_ONCE, _SAVED = "next_entry", "saved_entry"
_ITEM = regex(r"\s*(menuentry|submenu)\s+(?:'([^']*)'|\"([^\"]*)\"|([^\s{]+))")
_ID = regex(r"(?:\$menuentry_id_option|--id)[ \t=]+['\"]?([^'\"\s{]+)")
#: Another system's (util/grub.d/30_os-prober.in), and this one's for repair (10_linux.in)
_ELSEWHERE = regex(r"osprober-|gnulinux-.*-recovery-")

#: Name → value and place, as boot_bls.variables() gives them
Variables = Mapping[str, "tuple[str, str]"]


@dataclass
class _Item:
    """An entry or a submenu of the menu."""

    title: str
    id: str
    kernel: Entry | None = None
    items: list[_Item] = field(default_factory=list)


def beside(text: str, path: str, known: Sequence[Entry], variables: Variables, numbers: bool) -> Entry | None:
    """The kernel that is started by default, if it is none of the known ones; None if it is, or if that
    is unknown. numbers: whether the menu is all that counts for an entry given by its number."""
    wanted = _wanted(text, variables)
    if wanted[:1].isdigit() and not numbers:
        return None
    item = _find(_items(text, path), wanted)
    if item is None or item.kernel is None or _ELSEWHERE.match(item.id):
        return None
    if any(item.kernel.where == one.where for one in known):
        return None
    return item.kernel._replace(by_hand=True)


def _wanted(text: str, variables: Variables) -> str:
    once = variables.get(_ONCE, ("", ""))[0]
    if once and f"${{{_ONCE}}}" in text:
        return once
    chosen = [value for value in _DEFAULT.findall(text) if _ONCE not in value]
    wanted = chosen[-1] if chosen else "0"
    return variables.get(_SAVED, ("0", ""))[0] or "0" if _SAVED in wanted else wanted


def _items(text: str, path: str) -> list[_Item]:
    """The top of the menu. Braces end lines and stand alone, as grub-mkconfig and people write them."""
    top = _Item("", "")
    open_items = [top]
    for number, line in enumerate(text.splitlines(), 1):
        item, kernel = _ITEM.match(line), grub.KERNEL_LINE.match(line)
        if item:
            named = _ID.search(line)
            title = next(filter(None, item.groups()[1:]), "")
            made = _Item(title, named.group(1) if named else "")
            open_items[-1].items.append(made)
            open_items.append(made)
        elif line.rstrip().endswith("{"):
            open_items.append(_Item("", ""))  # a function, say
        elif line.strip() == "}" and len(open_items) > 1:
            open_items.pop()
        elif kernel and open_items[-1].kernel is None:
            open_items[-1].kernel = entry(f"{path}:{number}", kernel.group(1) or "", {})
    return top.items


def _find(items: Sequence[_Item], wanted: str) -> _Item | None:
    """The item by number, title or id, and in submenus behind > (GRUB manual, default)."""
    first, _sign, rest = wanted.partition(">")
    if first.isdigit():
        target = items[int(first)] if len(first) < 5 and int(first) < len(items) else None
    else:
        target = next((item for item in items if first in (item.title, item.id)), None)
    return _find(target.items, rest) if target is not None and rest else target
