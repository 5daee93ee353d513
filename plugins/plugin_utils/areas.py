# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The areas of a declaration, and which of them a play is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..module_utils._mlnode.agent.registry import MODULES

AREAS = tuple(MODULES)

#: Module → the area that it alone declares
VIEWS = {module: area for area, module in MODULES.items()}

#: Of an area of which a role's variables are single options: option → variable without its
#: prefix. Of all others the variable of that name is all options.
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

#: Variables that say what is declared, without the prefix
VARIABLES = tuple(name for area in AREAS for name in _VARIABLES.get(area, {"": area}).values())


def overrides(prefix: str, variables: Mapping[str, Any], template: Callable[[Any], Any]) -> dict[str, Any]:
    """The overrides of each area in the variables of a role, such as node_thp (prefix `node`). An empty one
    says nothing, and null takes away what the profile says."""

    def given(names: Mapping[str, str]) -> dict[str, Any]:
        known = {option: f"{prefix}_{name}" for option, name in names.items()}
        values = {option: template(variables[name]) for option, name in known.items() if name in variables}
        return {option: value for option, value in values.items() if value not in ({}, [])}

    single = {area: given(names) for area, names in _VARIABLES.items()}
    whole = given({area: area for area in AREAS if area not in _VARIABLES})
    return {area: options for area, options in {**single, **whole}.items() if area in whole or options}


def selected(run: Iterable[str] | None, skip: Iterable[str] | None, own: Iterable[str]) -> list[str]:
    """Those that --tags and --skip-tags leave, as Ansible would for a task of each with its name as a tag.

    own: the tags of the task itself and of the play around it. It has `always`, so that it runs whatever area
    is named, and which is not a tag of an area.
    """
    wanted, unwanted = {*(run or ("all",))}, {*(skip or ())}
    around = {*own} - {"always"}
    return [area for area in AREAS if _is_selected({area, *around}, wanted, unwanted)]


def _is_selected(tags: set[str], wanted: set[str], unwanted: set[str]) -> bool:
    """As ansible.playbook.taggable.Taggable.evaluate_tags(), for a task that has tags and not `always`."""
    if tags & wanted:
        chosen = True
    else:
        chosen = bool(wanted & {"all", "tagged"}) and "never" not in tags
    return chosen and not unwanted & {"all", "tagged", *tags}
