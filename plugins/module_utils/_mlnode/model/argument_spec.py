# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Argument specs of modules, from tables of options."""

from __future__ import annotations

from typing import Any

from .schema import Option, Table

#: Reaction if the kernel or a device has no such setting
ON_UNSUPPORTED = ("fail", "warn", "ignore")

#: Options of every module that declares one area; documented in doc_fragments/declaration.py
DECLARATION: dict[str, dict[str, Any]] = {
    "name": {"type": "str", "default": "default"},
    "layers": {
        "type": "list",
        "elements": "str",
        "choices": ["runtime", "boot"],
        "default": ["runtime", "boot"],
    },
    "on_unsupported": {"type": "str", "choices": [*ON_UNSUPPORTED], "default": "warn"},
}


def of_area(table: Table) -> dict[str, dict[str, Any]]:
    """Argument spec of the options of an area, as AnsibleModule takes it."""
    return {name: _argument(option) for name, option in table.items()}


def of_module(table: Table) -> dict[str, dict[str, Any]]:
    """Argument spec of a module that declares one area alone."""
    return {**DECLARATION, **_public(of_area(table))}


def _public(arguments: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Set no_log explicitly: none is a secret, but Ansible would suspect an option with "key" in its name."""
    return {
        name: {
            **argument,
            "no_log": False,
            **({"options": _public(argument["options"])} if "options" in argument else {}),
        }
        for name, argument in arguments.items()
    }


def _own(default: Any) -> Any:
    return default.copy() if isinstance(default, (dict, list)) else default


def _argument(option: Option) -> dict[str, Any]:
    argument: dict[str, Any] = {"type": option.type}
    if option.elements:
        argument["elements"] = option.elements
    if option.choices:
        argument["choices"] = [*option.choices]
    if option.default is not None:
        argument["default"] = _own(option.default)  # AnsibleModule adds the defaults below it
    if option.required:
        argument["required"] = True
    if option.suboptions:
        argument["options"] = {name: _argument(inner) for name, inner in option.suboptions.items()}
    return argument
