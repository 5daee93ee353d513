# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Short names of what is declared, by which a controller and a node find out that they mean the same."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Callable, Iterable, Mapping

from .declared import Declaration, Spec

#: Options that say how or what for; alone they declare nothing, and modules leave them out then
_MANNERS = frozenset({"allow", "sizing", "max_disruption"})

#: The same of one kind
_OWN_MANNERS = {"cpu": frozenset({"cpus"})}

#: Hexadecimal digits, of 256 bits. It guards against mistakes, not against forgery.
_LENGTH = 16


def digests(kinds: Mapping[str, Spec]) -> dict[str, str]:
    """Kind → digest of its specification, for the kinds of which something is declared."""
    found = {}
    for kind, spec in kinds.items():
        plain = _plain(spec)
        if {*plain} - _MANNERS - _OWN_MANNERS.get(kind, frozenset()):
            text = json.dumps(plain, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
            found[kind] = hashlib.sha256(text.encode("ascii")).hexdigest()[:_LENGTH]
    return found


#: Name of a declaration → kind → digest
Expected = Mapping[str, Mapping[str, str]]


def differences(
    expected: Expected,
    declarations: Iterable[Declaration],
    host: str,
    detail: Callable[[str, str], str] = lambda _name, _kind: "",
) -> list[str]:
    """A message for each name that the node does not declare as the inventory says. host: its name there.
    detail: what differs in one kind of it."""
    there = {declaration.name: digests(declaration.kinds) for declaration in declarations}
    words = []
    for name, wanted in expected.items():
        found = there.get(name, {})
        if found and not wanted:
            words.append(
                f"declared on the node as {name}, and the inventory declares {_remedy(expected, name, host)}"
            )
            continue
        differing = {
            "other than there": [
                kind + detail(name, kind) for kind in wanted if kind in found and found[kind] != wanted[kind]
            ],
            "missing there": [kind for kind in wanted if kind not in found],
            "left over there": [kind for kind in found if kind not in wanted],
        }
        parts = [f"{what}: {', '.join(kinds)}" for what, kinds in differing.items() if kinds]
        if parts:
            words.append(
                f"{name} is not declared on the node as the inventory says ({'; '.join(parts)}): run site.yml"
            )
    return words


def _remedy(expected: Expected, name: str, host: str) -> str:
    """The other declarations, if any, and how the rest goes back to its origin."""
    others = [other for other, wanted in expected.items() if wanted]
    if not others:
        return f"nothing: ansible-playbook playbooks/revert.yml --limit {host or 'HOST'}"
    return (
        f"only {', '.join(others)}: ansible {host or 'HOST'} --become -m mlnode.tuning.declare -a name={name}"
    )


def _plain(value: Any) -> Any:
    """Without what declares nothing, whether it was left out or written as such."""
    if isinstance(value, Mapping):
        items = ((str(name), _plain(item)) for name, item in value.items())
        return {name: item for name, item in items if item not in (None, {}, [])}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
