# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that are unknown, and the known one that was meant."""

from __future__ import annotations

from typing import Any, Collection, Iterable

from .errors import DeclarationError

#: How alike a mistaken name and the one that was meant are (difflib): one wrong letter of four or more,
#: and not yet names that only begin alike
_ALIKE = 0.75


def refuse_unknown(where: str, given: Iterable[Any], known: Collection[str]) -> None:
    """Raises DeclarationError for the first name that is none."""
    for name in given:
        if name not in known:
            problem = f"unknown; known are {', '.join(known)}{meant(name, known)}"
            raise DeclarationError(f"{where}.{name}: {problem}")


def meant(name: Any, known: Collection[str]) -> str:
    """`; did you mean X?` for the known name that is most like a mistaken one; empty if none is."""
    near = nearest(name, known)
    return f"; did you mean {near}?" if near else ""


def nearest(name: Any, known: Collection[str]) -> str:
    """The known name that is most like a mistaken one; empty if none is."""
    # Only here: most names are right.
    import difflib

    return "".join(difflib.get_close_matches(str(name), known, 1, _ALIKE))


def refuse_others(where: str, given: Iterable[Any], what: str, known: Collection[str]) -> None:
    """Raises DeclarationError for the first in a list of names that is none. what: of which thing."""
    for name in given:
        if name not in known:
            raise DeclarationError(f"{where}: {name!r} is not a {what}; {hint(name, known)}")


def hint(name: Any, known: Collection[str]) -> str:
    """`did you mean X?`, or all that are known where none is like a mistaken one."""
    near = meant(name, known)
    return near[len("; ") :] if near else f"known are {', '.join(known)}"
