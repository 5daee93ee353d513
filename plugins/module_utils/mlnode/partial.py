# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this version understands of a specification that another version wrote: a setting in a form that is
unknown here costs that setting, and no other.

For the agent only. A playbook run refuses the whole specification, which its operator can correct.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Optional

from .errors import DeclarationError
from .kind import Kind, Spec

#: Says why what is given to it is refused; None if it is not
_Test = Callable[[Any], Optional[str]]


@dataclass(frozen=True)
class _Shape:
    """How a dictionary, or each dictionary of a list, falls into parts that mean something by themselves.

    shared: names without which no part has its meaning, so that none is left if one of them is refused.
    joined: names that make one part together with another name. inner: names whose entries are parts.
    """

    shared: tuple[str, ...] = ()
    joined: Mapping[str, str] = field(default_factory=dict)
    inner: Mapping[str, _Shape] = field(default_factory=dict)

    def at(self, name: str) -> _Shape | None:
        return self.inner.get(name, self.inner.get(_ANY))


_ANY = "*"
_ENTRIES = _Shape()

#: A guard that is not known here lets nothing through, so that it can be left out
_ALLOW = {"allow": _ENTRIES}


def _rules(
    shared: tuple[str, ...] = (), joined: Mapping[str, str] | None = None, inner: tuple[str, ...] = ()
) -> _Shape:
    """Of a kind that has rules for NICs. What limits the disruption must be known for all of them."""
    rule = _Shape(("name", "nics", *shared), joined or {}, dict.fromkeys(inner, _ENTRIES))
    return _Shape(("max_disruption",), inner={"rules": rule, **_ALLOW})


#: Kind → its shape. Of one that is missing here each option is a part.
SHAPES: Mapping[str, _Shape] = {
    "services": _Shape(inner={"services": _ENTRIES}),
    "modules": _Shape(inner={"modules": _ENTRIES}),
    "thp": _Shape(inner={"khugepaged": _ENTRIES, "sizes": _Shape(inner={_ANY: _ENTRIES})}),
    "sysctl": _Shape(("sizing",), inner={"settings": _ENTRIES, **_ALLOW}),
    "limits": _Shape(("domains", "services", "defaults")),
    "cpu": _Shape(("cpus",)),
    "nic": _rules(("beyond_max",), inner=("private_flags", "coalesce", "pause", "features")),
    "rail": _rules(),
    "qos": _rules(inner=("cnp",)),
    "irq": _rules(joined={"cpus": "strategy"}),
    "nccl": _Shape(inner={"variables": _ENTRIES, **_ALLOW}),
    "boot": _Shape(inner={"parameters": _ENTRIES, "absent": _ENTRIES, **_ALLOW}),
}


def understood(kind: Kind, spec: Spec) -> tuple[Spec, list[str]]:
    """The specification without the parts that the kind refuses, and why it refuses them. Of parts that
    contradict each other none is left. Raises DeclarationError where what is left is refused all the same.
    """

    def test(part: Any) -> str | None:
        try:
            kind.parse(part, None)
        except DeclarationError as error:
            return str(error)
        return None

    if test(spec) is None:
        return spec, []
    errors: list[str] = []
    kept = _kept(spec, SHAPES.get(kind.KIND, _Shape()), test, errors)
    kind.parse(kept, None)
    return kept, list(dict.fromkeys(errors))


def _kept(given: Mapping[str, Any], shape: _Shape, test: _Test, errors: list[str]) -> dict[str, Any]:
    """A dictionary without the parts that are refused; empty if none is left."""
    shared = {name: given[name] for name in shape.shared if name in given}
    parts: dict[str, dict[str, Any]] = {}
    for name in given:
        if name not in shared:
            first = shape.joined.get(name, name)
            parts.setdefault(first, {})[name] = given[name]
    sound: dict[str, Any] = {}
    for first, part in parts.items():
        problem = test({**shared, **part})
        if problem is None:
            sound.update(part)
            continue
        inner, value = shape.at(first), part.get(first)
        if inner is None or not isinstance(value, (dict, list)):
            errors.append(problem)
            continue

        def deeper(entries: Any, first: str = first) -> str | None:
            return test({**shared, first: entries})

        said: list[str] = []
        left = _inner(value, inner, deeper, said)
        if not said:  # its parts are sound and contradict each other
            said, left = [problem], None
        errors += said
        if left:
            sound[first] = left
    if not sound:
        return {}
    return {name: sound.get(name, given[name]) for name in given if name in sound or name in shared}


def _inner(value: Any, shape: _Shape, test: _Test, errors: list[str]) -> Any:
    return (_items if isinstance(value, list) else _kept)(value, shape, test, errors)


def _items(given: list[Any], shape: _Shape, test: _Test, errors: list[str]) -> list[Any]:
    """A list without what is refused of it."""
    found = []
    for at, item in enumerate(given):
        problem = test([item])
        if problem is None:
            found.append(item)
            continue
        said: list[str] = []
        left: dict[str, Any] = {}
        if isinstance(item, dict) and shape.shared:
            left = _kept(item, shape, lambda part: test([part]), said)
        if not said:
            said, left = [problem], {}
        # A rule without a name is reported by its place, and each was tried by itself.
        errors += [words.replace("[0]", f"[{at}]", 1) for words in said]
        if left:
            found.append(left)
    return found
