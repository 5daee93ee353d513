# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Short digests of declarations, for a controller and a node to compare their versions."""

from __future__ import annotations

import hashlib
import json
from typing import Callable, Mapping

from .declared import Spec, declares

#: Hexadecimal digits, of 256 bits. It guards against mistakes, not against forgery.
_LENGTH = 16


def digests(kinds: Mapping[str, Spec]) -> dict[str, str]:
    """Kind → digest of its specification in the form of schema.checked(), for non-empty kinds."""
    return {kind: _digest(spec) for kind, spec in kinds.items() if declares(spec)}


def _digest(spec: Spec) -> str:
    text = json.dumps(spec, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return digest(text.encode("ascii"))


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_LENGTH]


#: Name of a declaration → kind → digest
Digests = Mapping[str, Mapping[str, str]]


def differences(
    expected: Digests,
    declared: Digests,
    host: str,
    detail: Callable[[str, str], str] = lambda _name, _kind: "",
) -> list[str]:
    """A message for each declaration on the node that differs from the inventory. host: the node's inventory
    name. detail: the differences in one kind of it."""
    sentences = []
    for name, wanted in expected.items():
        present = declared.get(name, {})
        if present and not wanted:
            remedy = _remedy(expected, name, host)
            sentences.append(f"declared on the node as {name}, and the inventory declares {remedy}")
            continue
        differing = {
            "other than there": [
                kind + detail(name, kind)
                for kind in wanted
                if present.get(kind, wanted[kind]) != wanted[kind]
            ],
            "missing there": [kind for kind in wanted if kind not in present],
            "left over there": [kind for kind in present if kind not in wanted],
        }
        parts = [f"{what}: {', '.join(kinds)}" for what, kinds in differing.items() if kinds]
        if parts:
            sentences.append(
                f"{name} is not declared on the node as the inventory says ({'; '.join(parts)}): run site.yml"
            )
    return sentences


def _remedy(expected: Digests, name: str, host: str) -> str:
    """The other declarations, if any, and the way back to the origin for the rest."""
    others = [other for other, wanted in expected.items() if wanted]
    if not others:
        return f"nothing: ansible-playbook mlnode.tuning.revert --limit {host or 'HOST'}"
    return (
        f"only {', '.join(others)}: ansible {host or 'HOST'} --become -m mlnode.tuning.declare -a name={name}"
    )
