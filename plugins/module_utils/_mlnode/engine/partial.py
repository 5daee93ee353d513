# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The understood part of a specification written by another version: a setting in an unknown form costs that
setting, and no other.

For the agent only. A playbook run refuses the whole specification, which its operator can correct.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional

from ..model.errors import DeclarationError
from ..model.schema import Checked, Option
from ..model.setting import Setting
from .kind import Kind, Spec

#: Returns why a part is refused; None if it is not
_Test = Callable[[Any], Optional[str]]


def understood(kind: Kind, spec: Spec) -> tuple[Checked, list[str]]:
    """A refused specification without its refused parts, and the reasons. Parts that contradict each other
    are all removed. Raises DeclarationError if the remainder is still refused."""

    def test(part: Any) -> str | None:
        try:
            kind.parse(kind.checked(part), None)
        except DeclarationError as error:
            return str(error)
        return None

    errors: list[str] = []
    sound = _kept(spec, Option("dict", suboptions=kind.OPTIONS), test, errors)
    kept = kind.checked(sound)
    kind.parse(kept, None)
    return kept, list(dict.fromkeys(errors))


def settings(kind: Kind, spec: Spec) -> list[Setting]:
    """Settings of the understood part of a specification; may be empty."""
    try:
        return kind.parse(kind.checked(spec), None)
    except DeclarationError:
        pass
    try:
        return kind.parse(understood(kind, spec)[0], None)
    except DeclarationError:
        return []


def keys(kind: Kind, spec: Spec) -> frozenset[str]:
    """Keys of the settings that a part of a specification declares. A part that is meaningless without the
    rest has none."""
    return frozenset(setting.key for setting in settings(kind, spec))


def _kept(given: Mapping[str, Any], option: Option, test: _Test, errors: list[str]) -> dict[str, Any]:
    """A dictionary without its refused parts; empty if none is left."""
    shared = {name: given[name] for name in given if _is_shared(option.names.get(name))}
    parts: dict[str, dict[str, Any]] = {}
    for name in given:
        if name not in shared:
            first = _inside(option, name).joined or name
            parts.setdefault(first, {})[name] = given[name]
    sound: dict[str, Any] = {}
    for first, part in parts.items():
        problem = test({**shared, **part})
        if problem is None:
            sound.update(part)
            continue
        inner, value = _inside(option, first), part.get(first)
        if not inner.parts or not isinstance(value, (dict, list)):
            errors.append(problem)
            continue

        def deeper(entries: Any, first: str = first) -> str | None:
            return test({**shared, first: entries})

        problems: list[str] = []
        left: Any = _left(value, inner, deeper, problems)
        if not problems:  # its parts are valid and contradict each other
            problems, left = [problem], None
        errors += problems
        if left:
            sound[first] = left
    if not sound:
        return {}
    return {name: sound.get(name, given[name]) for name in given if name in sound or name in shared}


def _left(value: Any, option: Option, test: _Test, errors: list[str]) -> Any:
    return (_items if isinstance(value, list) else _kept)(value, option, test, errors)


def _is_shared(option: Option | None) -> bool:
    """True if the other options have no meaning without this one: a refusal removes all of them."""
    return option is not None and not option.declares and not option.parts


def _inside(option: Option, name: str) -> Option:
    """Option of a name in a dictionary."""
    if option.keyed:
        return option.element._replace(parts=option.elements == "dict")
    return option.names.get(name) or option.values or _UNKNOWN


#: A single part
_UNKNOWN = Option("raw")


def _items(given: list[Any], option: Option, test: _Test, errors: list[str]) -> list[Any]:
    """A list without its refused items."""
    items = []
    for at, item in enumerate(given):
        problem = test([item])
        if problem is None:
            items.append(item)
            continue
        problems: list[str] = []
        left: dict[str, Any] = {}
        if isinstance(item, dict) and option.suboptions:
            left = _kept(item, option.element, lambda part: test([part]), problems)
        if not problems:
            problems, left = [problem], {}
        # A rule without a name is reported by its place, and each was tried alone.
        errors += [problem_text.replace("[0]", f"[{at}]", 1) for problem_text in problems]
        if left:
            items.append(left)
    return items
