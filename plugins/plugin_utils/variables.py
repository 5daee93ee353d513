# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find variables of an inventory that a role of this collection would ignore or refuse: names that resemble a
known variable, and values of the wrong type.

A name that only shares the prefix belongs to another role, such as node_exporter_port and fabric_vlan. So
does a name with a value that the known variable would refuse, such as node_gpus: 8.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ..module_utils._mlnode.model import schema
from . import profile, yaml_text

_COLLECTION = "mlnode.tuning"

_ROLES = pathlib.Path(__file__).parents[2] / "roles"


def warm() -> None:
    """Cache everything that all hosts share."""
    for name in _roles():
        _arguments(name)


def mistaken(
    role: Any, variables: Mapping[str, Any], template: Callable[[Any], Any], parents: Iterable[str]
) -> list[str]:
    """Messages in alphabetical order, each with the known name; none for a role of another collection.

    role: Ansible's role object, as a task has it. parents: full names of the roles that import it; this role
    takes their variables too.
    """
    if not _is_ours(role):
        return []
    own = role.get_name(include_role_fqcn=False)
    others = [str(parent).rpartition(".") for parent in parents]
    names = [name for collection, _dot, name in others if collection == _COLLECTION]
    return misnamed(own, variables, template, names)


def misnamed(
    role: str, variables: Mapping[str, Any], template: Callable[[Any], Any], parents: Iterable[str] = ()
) -> list[str]:
    """As mistaken(), for the name of a role, known or not, and the roles that import it."""
    if role not in _roles():
        return []
    own = f"{role}_"
    known = _known(role)
    return [
        f"{name}: unknown variable; did you mean {meant}?"
        for prefix in (f"{owner}_" for owner in (role, *parents))
        for name, meant in sorted(near(prefix, own, variables, known).items())
        if _could_be(known[meant], variables[name], template)
    ]


def around(role: str) -> list[str]:
    """The roles of this collection that import it, of whose names its own is the end."""
    return sorted(name for name in _roles() if name.endswith(f"_{role}"))


def refused(role: Any, variables: Mapping[str, Any], template: Callable[[Any], Any]) -> list[str]:
    """Errors in the types and choices of the role's variables; none for a role of another
    collection. Ansible would start a process for each host to look at the same."""
    if not _is_ours(role):
        return []
    options = _arguments(role.get_name(include_role_fqcn=False))
    given = {name: template(variables[name]) for name in options if name in variables}
    return list(ArgumentSpecValidator(options).validate(given).error_messages)


def _is_ours(role: Any) -> bool:
    return role is not None and role._role_collection == _COLLECTION


@functools.lru_cache(maxsize=None)
def _roles() -> frozenset[str]:
    return frozenset(path.name for path in _ROLES.iterdir())


@functools.lru_cache(maxsize=None)
def _arguments(role: str) -> dict[str, Any]:
    text = (_ROLES / role / "meta/argument_specs.yml").read_text(encoding="utf-8")
    options: dict[str, Any] = yaml_text.load(text)["argument_specs"]["main"].get("options", {})
    return options


@functools.lru_cache(maxsize=None)
def _known(role: str) -> dict[str, Any]:
    """Variables of the role, and their options. The areas that only the role `node` documents are the same
    in all roles."""
    areal = {f"{role}_{name}": _arguments("node").get(f"node_{name}", {}) for name in profile.VARIABLES}
    return {**areal, **_arguments(role)}


def near(prefix: str, own: str, given: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """Misspelt variable → known name, for variables with this prefix. own: the prefix of the known ones."""
    # Without the prefix, which would make all of them alike.
    short = {name[len(own) :]: name for name in known if name.startswith(own)}
    likely = {
        name: schema.nearest(name[len(prefix) :], short)
        for name in given
        if name.startswith(prefix) and short.get(name[len(prefix) :]) != name
    }
    return {name: f"{own}{meant}" for name, meant in likely.items() if meant}


def _could_be(option: Mapping[str, Any], value: Any, template: Callable[[Any], Any]) -> bool:
    """Would the option accept the value? Another role may use node_gpus for a number, for example."""
    try:
        templated = template(value)
    except AnsibleError:  # what another role has not defined yet
        return False
    kind = option.get("type", "str")
    if templated is None:
        return True
    # Ansible would make a dictionary of `a=b`, a list of any text, and a text of all.
    if not isinstance(templated, {"dict": Mapping, "list": list, "str": str}.get(kind, object)):
        return False
    return not ArgumentSpecValidator({"one": option}).validate({"one": templated}).error_messages
