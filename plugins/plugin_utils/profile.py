# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declarations by area: a profile with the overrides of an inventory."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import yaml
from ansible.errors import AnsibleError

from ..module_utils._mlnode.model.schema import hint
from . import yaml_text
from .areas import AREAS

_FOLDER = pathlib.Path(__file__).parents[2] / "roles/node/profiles"
#: Options that an operator can add to a profile by name
_PRESETS = _FOLDER / "presets"

#: Areas whose role variables are single options: option → variable without its prefix. For any other area,
#: one variable has all options.
_VARIABLES = {
    "services": {"services": "services"},
    "modules": {
        "modules": "modules",
        "where_needed": "modules_where_needed",
        "options": "module_options",
    },
    "sysctl": {"settings": "sysctl", "sizing": "sizing", "allow": "allow"},
    "nccl": {"variables": "nccl"},
}

#: Variables of declarations, without the prefix
VARIABLES = tuple(name for area in AREAS for name in _VARIABLES.get(area, {"": area}).values())

#: A dictionary of these is one value, such as {at_least: 5}
_VALUE = frozenset(("at_least", "at_most", "exactly"))


def warm() -> None:
    """Cache everything that all hosts share."""
    for name in (*known(), *presets()):
        load(name)


def known() -> list[str]:
    """The names of the profiles of this collection."""
    return sorted(path.stem for path in _FOLDER.glob("*.yml"))


def presets() -> list[str]:
    """The names of the presets of this collection, each for one part of a profile."""
    return sorted(path.stem for path in _PRESETS.glob("*.yml"))


@functools.lru_cache(maxsize=None)
def load(profile: str) -> dict[str, Any]:
    """Area and its options. profile: a name, or the path of a file. Raises AnsibleError."""
    if not profile:
        return {}
    folder = _PRESETS if profile in presets() else _FOLDER
    path = pathlib.Path(profile) if "/" in profile else folder / f"{profile}.yml"
    try:
        areas = yaml_text.load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise AnsibleError(
            f"profile: {profile!r} is not a profile or the path of one; {hint(profile, known())}"
        ) from None
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise AnsibleError(f"profile: {path}: {error}") from error
    if not isinstance(areas, dict):
        raise AnsibleError(f"profile: {path}: not a dictionary of areas")
    return areas


class Declared(NamedTuple):
    """areas: all that is declared of each. profile: the part of it that a profile asks for and the operator
    does not declare himself."""

    areas: dict[str, Any]
    profile: dict[str, Any]


def declared(
    options: Mapping[str, Any], variables: Mapping[str, Any], template: Callable[[Any], Any]
) -> Declared:
    """Areas of a declaration. options: `profile`, `variables` (the prefix of a role's variables), `without`
    (areas and settings), and areas. An area in the options replaces the area in the variables. Raises
    AnsibleError."""
    prefix = str(options.get("variables") or "")
    given = {name: options[name] for name in options if name not in ("profile", "variables", "without")}
    over = overrides(prefix, variables, template) if prefix else {}
    whole = combined(options.get("profile") or "", {**over, **given})
    return Declared(*(functools.reduce(_removed, options.get("without") or (), areas) for areas in whole))


def overrides(prefix: str, variables: Mapping[str, Any], template: Callable[[Any], Any]) -> dict[str, Any]:
    """Overrides of each area in a role's variables, such as node_thp (prefix `node`). An empty override has
    no effect; null removes the profile's setting."""

    def given(names: Mapping[str, str]) -> dict[str, Any]:
        known = {option: f"{prefix}_{name}" for option, name in names.items()}
        values = {option: template(variables[name]) for option, name in known.items() if name in variables}
        return {option: value for option, value in values.items() if value not in ({}, [])}

    single = {area: given(names) for area, names in _VARIABLES.items()}
    whole = given({area: area for area in AREAS if area not in _VARIABLES})
    return {area: options for area, options in {**single, **whole}.items() if area in whole or options}


def combined(profiles: str | Sequence[str], overrides: Mapping[str, Any]) -> Declared:
    """Profiles merged in their order, then the overrides. A later setting replaces an earlier one. Null
    removes a value, a rule or a whole area. Raises AnsibleError."""
    named = [profiles] if isinstance(profiles, str) else profiles
    base: dict[str, Any] = functools.reduce(_merged, map(load, named), {})
    return Declared(_merged(base, overrides), _untouched(base, overrides))


def declares(areas: Mapping[str, Any], name: str) -> bool:
    """True if areas contain an area of this name, or a setting: AREA.SETTING as in the role's variables."""
    return _removed(areas, name) != areas


def _removed(areas: Mapping[str, Any], name: str) -> dict[str, Any]:
    area, dot, setting = name.partition(".")
    if not dot:
        return {other: areas[other] for other in areas if other != area}
    options = _tree(areas.get(area))
    # The variable of some areas is one option: sysctl.vm.swappiness is in sysctl.settings.
    option = next((key for key, variable in _VARIABLES.get(area, {}).items() if variable == area), None)
    inner = _cut(options, setting)
    if inner == options and option and _is_tree(options.get(option)):
        inner = {**options, option: _cut(options[option], setting)}
    return {**areas, area: inner} if inner != options else dict(areas)


def _cut(tree: Mapping[Any, Any], path: str) -> dict[Any, Any]:
    """The tree without the value at a path of keys, which may contain dots themselves."""
    return {
        key: _cut(value, path[len(f"{key}.") :]) if path.startswith(f"{key}.") and _is_tree(value) else value
        for key, value in tree.items()
        if str(key) != path
    }


def _untouched(base: Mapping[Any, Any], over: Mapping[Any, Any]) -> dict[str, Any]:
    over = {str(name): value for name, value in over.items()}
    left: dict[str, Any] = {}
    for name, below in ((str(name), value) for name, value in base.items()):
        above = over.get(name, {})
        if name not in over or above in ({}, []):
            left[name] = below
        elif _is_tree(below) and _is_tree(above):
            inner = _untouched(below, above)
            left.update({name: inner} if inner else {})
    return left


def _merged(base: Mapping[Any, Any], over: Mapping[Any, Any], where: str = "") -> dict[str, Any]:
    # YAML has numbers as keys, such as DSCPs; an inventory in JSON has the same keys as text.
    base, over = ({str(name): value for name, value in layer.items()} for layer in (base, over))
    merged: dict[str, Any] = {}
    for name in {**base, **over}:
        below, above = base.get(name), over.get(name, base.get(name))
        if above in ({}, []) and below is not None:
            above = below  # an empty override has no effect; null removes
        if _is_tree(above):
            # One value for all, such as `memlock: auto`, gives way to one for each.
            if isinstance(below, (list, tuple)):
                raise AnsibleError(
                    f"{where}{name}: the profile has {below!r}, which a dictionary cannot change: give all "
                    "of it, or null to take it away"
                )
            merged[name] = _merged(_tree(below), _tree(over.get(name)), f"{where}{name}.")
        elif above is not None:
            merged[name] = above
    return merged


def _is_tree(value: Any) -> bool:
    return isinstance(value, Mapping) and not {*value} & _VALUE


def _tree(value: Any) -> Mapping[Any, Any]:
    return value if _is_tree(value) else {}
