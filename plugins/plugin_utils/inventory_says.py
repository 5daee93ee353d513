# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the roles would declare on a host if they were run now: computed on the controller, nothing is run.

The tasks of a role are data: which variables become which options of which module. They are templated here as
Ansible does it, and the options are checked as the module checks them, so that both end with the same.
"""

from __future__ import annotations

import functools
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml
from ansible import template
from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.parsing.dataloader import DataLoader

from ..module_utils.mlnode.digests import digests
from ..module_utils.mlnode.registry import KINDS

#: Ten times as fast where PyYAML has it
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

ROLES = pathlib.Path(__file__).parents[2] / "roles"
MODULES = pathlib.Path(__file__).parents[1] / "modules"

_DOCUMENTATION = re.compile(r'^DOCUMENTATION = r"""\n(.*?)^"""', re.MULTILINE | re.DOTALL)

_MODULES = "mlnode.tuning."
_DECLARE = {"name": "mlnode.tuning.node", "tasks_from": "declare.yml"}

#: Of an option's documentation, what its argument spec has as well
_SPEC = ("type", "elements", "default", "choices", "required", "aliases")

#: Options for the run, which no declaration keeps; what all modules have is documented elsewhere
_NOT_KEPT = ("confirm_seconds",)

#: What a role registers of the node, to whoever asks for it: a template that cannot be evaluated
_ASKED = "{{ 'only the node knows' | from_json }}"

#: ansible-core 2.19 templates only what is marked as its author's own; 2.18 knows no difference
_trusted: Callable[[str], str] = getattr(template, "trust_as_template", str)
_TRUST = {"trusted_as_template": True} if hasattr(template, "trust_as_template") else {}


#: The condition of nearly all tasks, which says nothing about what the variable is made of
_IS_GIVEN = re.compile(r"(\w+) is defined")

#: What nearly all options are: a variable or a part of one. A template of its own takes a millisecond, for
#: each of sixty options of each node of a fleet.
_IS_PART = re.compile(r"\{\{ (\w+)(?:\.(\w+))?( \| default\(omit\))? \}\}")


def expected(
    roles: Sequence[str], templar: Any, variables: Mapping[str, Any]
) -> dict[str, dict[str, str | None]]:
    """Name of a declaration → kind → digest, or None where that hangs on what a role finds on the node. Roles
    that are not named should have declared nothing. Raises AnsibleError."""
    known = declaring()
    unknown = [role for role in roles if role not in known]
    if unknown:
        raise AnsibleError(f"roles: {', '.join(unknown)}: of this collection, there are {', '.join(known)}")
    found: dict[str, dict[str, str | None]] = {}
    for role, handed in known.items():
        if role not in roles:
            found[role] = {}
            continue
        # As Ansible looks for a variable: a task's own, extra variables and the host's, and defaults. (A
        # role's own variables come before the host's, and have names that nobody else gives.)
        own = _variables(role, "vars")
        scope = {**_variables(role, "defaults"), **variables, **own, **handed}
        made = templar.copy_with_new_env(available_variables=scope)
        if "boot" not in made.template(handed["node_layers"]):
            continue
        asked = _registered(_read(ROLES / role / "tasks/main.yml"))
        blind = {**scope, **dict.fromkeys(asked, _trusted(_ASKED))}
        specs = _specs(templar, scope, blind, _known(templar, blind, handed), role)
        kept = digests({kind: spec for kind, spec in specs.items() if spec is not None})
        found[str(made.template(handed["node_name"]))] = {
            **kept,
            **{kind: None for kind, spec in specs.items() if spec is None},
        }
    return found


def _known(templar: Any, scope: Mapping[str, Any], handed: Mapping[str, Any]) -> dict[str, Any]:
    """What the role hands on, once instead of for each option that is made of it, as far as it is known."""
    found: dict[str, Any] = {}
    if not _TRUST:  # ansible-core 2.18 would take a value that looks like a template, or a list, for one
        return found
    made = templar.copy_with_new_env(available_variables=scope)
    for name, value in handed.items():
        try:
            found[name] = made.template(value)
        except AnsibleError:  # the task that needs it will say so
            continue
    return found


def _registered(tasks: Sequence[Mapping[str, Any]]) -> list[str]:
    return [task["register"] for task in tasks if "register" in task]


def _variables(role: str, folder: str) -> dict[str, Any]:
    path = ROLES / role / folder / "main.yml"
    found: dict[str, Any] = _read(path) if path.exists() else {}
    return found or {}


def warm() -> None:
    """Read what is the same for all hosts."""
    for role in declaring():
        for part in ("defaults", "vars"):
            _variables(role, part)
    for task in _read(ROLES / "node/tasks/declare.yml"):
        for name in task:
            if name.startswith(_MODULES):
                spec(name.removeprefix(_MODULES))


def declaring() -> dict[str, dict[str, Any]]:
    """Each role that declares something → the variables that it hands to the tasks they all share."""
    found = {}
    for path in sorted(ROLES.glob("*/tasks/main.yml")):
        for task in _read(path):
            if task.get("ansible.builtin.import_role") == _DECLARE:
                found[path.parent.parent.name] = task["vars"]
    return found


def _specs(
    templar: Any, scope: Mapping[str, Any], blind: Mapping[str, Any], known: Mapping[str, Any], role: str
) -> dict[str, dict[str, Any] | None]:
    """Kind → what is declared of it; None where that hangs on what the role asks of the node. blind: the
    variables, of which those that it asks for cannot be read. known: the values of some of them."""
    found: dict[str, dict[str, Any] | None] = {}
    for task in _read(ROLES / "node/tasks/declare.yml"):
        module = next((name for name in task if name.startswith(_MODULES)), None)
        if module is None:
            continue
        [kind] = [tag for tag in task["tags"] if tag in KINDS]
        try:
            given = _given(templar, {**blind, **known}, task, module, known)
        except AnsibleError:
            _given(templar, scope, task, module, {})  # an error of the inventory is one here, too
            found[kind] = None
            continue
        if given is not None:
            found[kind] = _checked(module.removeprefix(_MODULES), given, f"{role}: {task['name']}")
    return found


def _given(
    templar: Any, scope: Mapping[str, Any], task: Mapping[str, Any], module: str, known: Mapping[str, Any]
) -> Any:
    """The options of a task's module, or None where the task is skipped. Raises AnsibleError."""
    made = templar.copy_with_new_env(available_variables=scope)
    for condition in _list(task.get("when", [])):
        given = _IS_GIVEN.fullmatch(condition)
        # A variable that is made of an unknown one is given, and unknown.
        if given is not None and given[1] not in scope:
            return None
        if given is None and not made.template(_trusted("{{ (" + condition + ") | bool }}")):
            return None
    parts = {name: _part(value, known, scope.get("omit")) for name, value in task[module].items()}
    direct = {name: value for name, value in parts.items() if value is not _NOT_SO}
    others = {name: value for name, value in task[module].items() if name not in direct}
    return _without({**direct, **made.template(others)}, scope.get("omit"))


#: No value of a variable
_NOT_SO = object()


def _part(text: Any, known: Mapping[str, Any], omit: Any) -> Any:
    """The value of a template that is no more than a variable that is known, or a part of one; or _NOT_SO."""
    match = _IS_PART.fullmatch(text) if isinstance(text, str) else None
    if match is None or match[1] not in known:
        return _NOT_SO
    value, part, may_be_omitted = known[match[1]], match[2], match[3]
    if part is None:
        return value
    if not isinstance(value, dict) or (part not in value and not may_be_omitted):
        return _NOT_SO
    return value.get(part, omit)


def _checked(module: str, given: Mapping[str, Any], where: str) -> dict[str, Any]:
    known = spec(module)
    result = ArgumentSpecValidator(known).validate({name: given[name] for name in given if name in known})
    if result.error_messages:
        raise AnsibleError(f"{where}: the inventory is not what {module} takes: {result.error_messages[0]}")
    return {name: value for name, value in result.validated_parameters.items() if name not in _NOT_KEPT}


@functools.lru_cache(maxsize=None)
def spec(module: str) -> dict[str, Any]:
    """The argument spec as the module's documentation has it; `ansible-test sanity` compares the two.

    Read, not imported: Ansible compiles what it imports of a collection anew in each run, and a module would
    bring the library along.
    """
    text = (MODULES / f"{module}.py").read_text(encoding="utf-8")
    found = _DOCUMENTATION.search(text)
    if found is None:
        raise AnsibleError(f"{module} is not documented")
    return _options(yaml.load(found[1], Loader=_Loader)["options"])  # noqa: S506  # a safe loader, see there


def _options(documented: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {
            **{word: about[word] for word in _SPEC if word in about},
            **({"options": _options(about["suboptions"])} if "suboptions" in about else {}),
        }
        for name, about in documented.items()
    }


def _without(value: Any, omit: Any) -> Any:
    """Plain data without what is omitted. ansible-core 2.19 has left that out already."""
    if isinstance(value, Mapping):
        return {
            str(name): _without(item, omit)
            for name, item in value.items()
            if item is not omit and item != omit
        }
    if isinstance(value, (list, tuple)):
        return [_without(item, omit) for item in value]
    return value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@functools.lru_cache(maxsize=None)
def _read(path: pathlib.Path) -> Any:
    return DataLoader().load_from_file(str(path), **_TRUST)
