# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from typing import Any

import pytest
from ansible.errors import AnsibleUndefinedVariable
from ansible_collections.mlnode.tuning.plugins.plugin_utils import variables
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.roles import ROLES, ROOT, defaults


class Role:
    """As ansible-core has it."""

    def __init__(self, name: str, collection: str = "mlnode.tuning") -> None:
        self._name, self._role_collection = name, collection

    def get_name(self, include_role_fqcn: bool) -> str:
        assert not include_role_fqcn
        return self._name


def mistaken(role: str, *names: str, parents: tuple[str, ...] = ()) -> list[str]:
    return variables.mistaken(Role(role), dict.fromkeys((*names, *defaults(role))), same, parents)


def same(value: Any) -> Any:
    """What is no template"""
    return value


@cases.table
def test_a_mistaken_name_is_named_with_the_one_that_was_meant(name: str, meant: str) -> None:
    role = meant.partition("_")[0]

    assert mistaken(role, name, "other") == [f"{name}: unknown variable; did you mean {meant}?"]


@pytest.mark.parametrize(
    "name",
    [
        *("node_exporter_port", "node_exporter_version", "node_ip", "node_name", "node_rack", "nodes_sysctl"),
        *("node_role", "node_port", "node_type", "node_", "node", "sysctl", "sysctll", "node_labels"),
        *("fabric_check_looker", "fabric_check_fail_on", "fabric_manager_version"),
        *("fabric_name", "fabric_vlan", "fabric_vlans", "fabric_mtu", "fabric_speed", "fabric_ports"),
    ],
)
def test_a_variable_of_somebody_else_is_left_alone(name: str) -> None:
    for role in ROLES:
        assert mistaken(role, name) == []


@cases.table
def test_a_near_name_with_a_value_that_the_known_one_cannot_have_is_somebody_elses(
    name: str, foreign: Any, own: Any
) -> None:
    role = Role(name.partition("_")[0])

    assert variables.mistaken(role, {name: foreign}, same, ()) == []
    [found] = variables.mistaken(role, {name: own}, same, ())
    assert found.startswith(f"{name}: unknown variable; did you mean ")


def test_a_near_name_is_judged_by_what_its_template_gives() -> None:
    def template(value: Any) -> Any:
        if value == "{{ facts }}":
            raise AnsibleUndefinedVariable("facts")
        return {"{{ mine }}": {"vm.swappiness": 1}, "{{ theirs }}": 8}[value]

    given = {"node_sysctll": "{{ mine }}", "node_gpus": "{{ theirs }}", "node_cpus": "{{ facts }}"}
    assert variables.mistaken(Role("node"), given, template, ()) == [
        "node_sysctll: unknown variable; did you mean node_sysctl?"
    ]


def test_all_of_them_are_named_in_the_order_of_the_alphabet() -> None:
    assert [words.split(":")[0] for words in mistaken("node", "node_thpp", "node_boott")] == [
        "node_boott",
        "node_thpp",
    ]


@pytest.mark.parametrize("name", ["sysctl", "sysctll"])
def test_a_variable_with_the_name_of_a_role_around_it_is_one_of_this_role(name: str) -> None:
    parents = ("mlnode.tuning.training_node", "somebody.else.inference_node")
    given = f"training_node_{name}"

    assert mistaken("node", given, "inference_node_sysctl", parents=parents) == [
        f"{given}: unknown variable; did you mean node_sysctl?"
    ]
    assert mistaken("node", given) == []


def test_the_roles_around_one_are_those_that_import_it() -> None:
    imports = [
        path for path in ROOT.glob("roles/*/tasks/*.yml") if "name: mlnode.tuning.node\n" in path.read_text()
    ]

    assert variables.around("node") == sorted(path.parents[1].name for path in imports)
    assert variables.around("fabric") == []


def test_another_role_has_variables_of_its_own() -> None:
    given = {"node_sysctll": {}}
    assert variables.mistaken(None, given, same, ()) == []
    assert variables.mistaken(Role("node", "somebody.else"), given, same, ()) == []


@pytest.mark.parametrize("role", ROLES)
def test_what_roles_and_plays_of_this_collection_set_is_not_taken_for_a_mistake(role: str) -> None:
    files = [*ROOT.glob("roles/*/*/*.yml"), *ROOT.glob("playbooks/**/*.yml")]
    names = {
        name for path in files for name in re.findall(rf"\b{role}_\w+", path.read_text(encoding="utf-8"))
    }

    assert f"{role}_result" in names
    assert mistaken(role, *names) == []


def refused(role: Role, given: dict[str, Any]) -> list[str]:
    return variables.refused(role, given, lambda value: value)


@pytest.mark.parametrize("role", ROLES)
def test_the_defaults_of_a_role_are_what_it_takes(role: str) -> None:
    assert refused(Role(role), defaults(role)) == []


@cases.table
def test_a_value_that_a_role_does_not_take_is_named(name: str, value: Any, words: str) -> None:
    role = name.partition("_")[0]
    [found] = refused(Role(role), {**defaults(role), name: value})
    assert words in found

    assert refused(Role(role, "other.collection"), {name: value}) == []


def test_values_are_those_that_templates_give() -> None:
    given = {"node_fail_at": "{{ level }}", "level": "low", "node_thp": None}
    assert variables.refused(Role("node"), given, {"{{ level }}": "low", None: None}.__getitem__) == []
    assert variables.refused(None, given, str) == []
