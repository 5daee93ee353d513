# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Entries of sysctl_table by key, and the intended key of a misspelt one."""

from __future__ import annotations

import functools
from typing import Mapping

from ..model import slips, values
from ..model.record import NamedTuple, regex
from .sysctl_table import KEYS

#: int, the usual type (proc_dointvec)
INT = (-(1 << 31), (1 << 31) - 1)
#: Greatest numbers that are written as a letter
_MOST = {"u": (1 << 32) - 1, "L": (1 << 63) - 1, "U": (1 << 64) - 1}

#: The first of the examined versions after 4.19
_MODERN = (6, 1)

#: The interface in a path
_INTERFACE = regex(r"(net/ipv[46]/(?:conf|neigh))/[^/]+(?=/)")

#: A name of the table, and the text after it
_NAME = regex(r"([^ =+,@]+)(\S*)")

#: A shorter name may be in several folders by chance.
_LONG = 8


def general(path: str) -> str:
    """The table's common name for the keys of all interfaces."""
    return _INTERFACE.sub(r"\1/*", path)


def is_known(path: str) -> bool:
    """path: below /proc/sys, with slashes."""
    return _entry(path) is not None


class Numbers(NamedTuple):
    """possible: numbers that some kernel of a release takes; None if unknown. taken: numbers that every
    kernel takes, None for none. unit: empty for plain numbers."""

    possible: tuple[int, int] | None
    taken: tuple[int, int] | None
    unit: str


def numbers(path: str, release: str = "") -> Numbers | None:
    """The numbers of a key; None for an unknown key. release: of the kernel, empty if it is unknown."""
    entry = _entry(path)
    if entry is None:
        return None
    spans, _at, unit = entry.partition("@")
    widest, _comma, every = spans.partition(",")
    if widest == "=":
        return Numbers(None, None, unit)
    # Keys with a range today are an int in old kernels
    possible = INT if widest.startswith("+") and not is_modern(release) else _span(widest[1:])
    taken = None if every == "?" else _span(every or widest[1:])
    return Numbers(possible, taken, unit)


def _span(text: str) -> tuple[int, int]:
    least, _colon, most = text.partition(":")
    return int(least or INT[0]), _MOST.get(most) or int(most or INT[1])


def is_modern(release: str) -> bool:
    return (values.kernel_version(release) or (0, 0)) >= _MODERN


def _entry(path: str) -> str | None:
    """The text after the name of a key; None if the key is unknown."""
    folder, _slash, name = general(path).rpartition("/")
    return _names(folder).get(name)


@functools.lru_cache(maxsize=None)
def _names(folder: str) -> Mapping[str, str]:
    """Name of a key of the folder → the text after it."""
    return dict(_NAME.findall(KEYS.get(folder, "")))


def meant(path: str) -> str:
    """The known key that a misspelt one resembles; empty if it is known, or unlike any."""
    if is_known(path):
        return ""
    name = path.rpartition("/")[2]
    elsewhere: list[str] = []
    near: list[tuple[int, str]] = []
    for known in _all(path):
        own = known.rpartition("/")[2]
        if own == name and len(name) >= _LONG:
            elsewhere.append(known)
        most = min(slips.most(own), slips.most(name))
        number = slips.count(path, known, most)
        if number <= most:
            near.append((number, known))
    if near:
        return min(near)[1]
    # The right name in a wrong folder, unless several have it
    return elsewhere[0] if len(elsewhere) == 1 else ""


def _all(path: str) -> list[str]:
    """All keys; keys of interfaces get the interface's name from this path."""
    parts = path.split("/")
    keys = []
    for folder in KEYS:
        names = _names(folder)
        if folder.endswith("*"):
            if len(parts) != folder.count("/") + 2:
                continue
            folder = folder[:-1] + parts[-2]
        keys += [f"{folder}/{name}" for name in names]
    return keys
