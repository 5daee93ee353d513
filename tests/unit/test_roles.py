# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What roles, metadata and library say about the same thing has to be the same."""

from __future__ import annotations

import re
import types

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode import agent, kind
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.declared import FOLDER
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.facts import Facts
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs import (
    sysctl,
    sysctl_info,
    sysctl_parse,
)
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.origin import PATH as ORIGIN
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.registry import KINDS
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.setting import Layer, Value
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.version import VERSION
from ansible_collections.mlnode.tuning.plugins.modules import (
    boot_params,
    cpu_governor,
    gpu_persistence,
    irq_affinity,
    limits,
    multi_rail,
    nic_ethtool,
    roce_qos,
    thp,
)
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.roles import (
    ROLES,
    ROOT,
    declaration,
    defaults,
    load,
    options,
)

MODULES = sorted(path.stem for path in ROOT.glob("plugins/modules/*.py") if path.stem != "__init__")

TYPES = {"dict": dict, "list": list, "str": str, "int": int, "bool": bool}


#: A role's dictionary of options → the module that takes them, and options of another type there: rules stand
#: under their names in a role, so that one of them can be changed without a copy of all
AREAS: dict[str, tuple[types.ModuleType, dict[str, str]]] = {
    "thp": (thp, {}),
    "limits": (limits, {}),
    "cpu": (cpu_governor, {}),
    "gpu": (gpu_persistence, {}),
    "nic": (nic_ethtool, {"rules": "dict"}),
    "rail": (multi_rail, {"rules": "dict"}),
    "qos": (roce_qos, {"rules": "dict"}),
    "irq": (irq_affinity, {"rules": "dict"}),
    "boot": (boot_params, {}),
}


#: Each with those of the areas that it declares something of
ROLE_AREAS = [(role, area) for role in ROLES for area in AREAS if f"{role}_{area}" in defaults(role)]

#: A node is one of these; that it is in a fabric comes on top.
NODE_ROLES = ["inference_node", "training_node"]


def test_there_are_roles_to_look_at() -> None:
    assert {*ROLES} == {"fabric", *NODE_ROLES}
    assert {area for _role, area in ROLE_AREAS} == {*AREAS}


def test_roles_of_nodes_have_the_same_variables_and_tasks() -> None:
    first, *others = NODE_ROLES
    for role in others:
        assert [name.replace(role, first) for name in defaults(role)] == [*defaults(first)]
        for path in ("tasks/main.yml", "meta/main.yml"):
            mine, theirs = (
                (ROOT / "roles" / one / path).read_text(encoding="utf-8") for one in (role, first)
            )
            said = [line.replace(role, first) for line in mine.splitlines() if "description:" not in line]
            assert said == [line for line in theirs.splitlines() if "description:" not in line]


@pytest.mark.parametrize("role", ROLES)
def test_every_default_is_documented_with_the_same_value_in_the_same_order(role: str) -> None:
    documented = options(role)

    assert {name: about.get("default") for name, about in documented.items()} == defaults(role)
    for name, value in defaults(role).items():
        assert isinstance(value, TYPES[documented[name]["type"]]), name
        if isinstance(value, dict):
            assert [*value] == [*documented[name]["default"]], name
        assert documented[name]["description"], name


@pytest.mark.parametrize("role", ROLES)
def test_every_variable_carries_the_prefix_of_its_role(role: str) -> None:
    assert all(name.startswith(f"{role}_") for name in defaults(role))


@pytest.mark.parametrize("role", ROLES)
def test_documented_choices_are_those_of_the_modules(role: str) -> None:
    documented = options(role)

    if role in NODE_ROLES:
        assert sorted(documented[f"{role}_allow"]["choices"]) == sorted(sysctl_parse.GUARDS)
    assert documented[f"{role}_layers"]["choices"] == [layer.value for layer in Layer]


@pytest.mark.parametrize("role", ROLES)
def test_the_default_settings_are_a_sound_declaration(role: str, machine: Machine) -> None:
    values = defaults(role)
    settings = values[f"{role}_sysctl_defaults"]
    spec = {"settings": settings, "sizing": declaration(role)["sysctl"]["sizing"]}

    parsed = sysctl.parse(spec, Facts(machine))

    assert [setting.key for setting in parsed] == [*settings]
    assert all(setting.want for setting in parsed)
    assert [setting.key for setting in sysctl.parse(spec, None)] == [*settings]


@pytest.mark.parametrize(
    ("role", "kind_name"), [(role, kind_name) for role in ROLES for kind_name in declaration(role)]
)
def test_every_kind_takes_the_defaults_and_has_a_reason_for_each(role: str, kind_name: str) -> None:
    knob = KINDS[kind_name]

    settings = knob.parse(declaration(role)[kind_name], None)

    assert settings
    for setting in settings:
        about = knob.info(setting.key, Value())
        assert about.reason, setting.key
        assert about.source, setting.key
        assert "declared by you" not in about.reason, setting.key


@pytest.mark.parametrize(("role", "area"), ROLE_AREAS)
def test_rules_stand_under_their_names(role: str, area: str) -> None:
    rules = defaults(role)[f"{role}_{area}_defaults"].get("rules", {})

    assert [rule["name"] for rule in rules.values()] == [*rules]


@pytest.mark.parametrize("role", ROLES)
def test_no_default_has_to_be_allowed_on_an_ordinary_node(role: str, machine: Machine) -> None:
    values = defaults(role)
    context = kind.Context(machine, Facts(machine), allow=tuple(values.get(f"{role}_allow", ())))
    spec = declaration(role)["sysctl"]

    readings = sysctl.read(sysctl.parse(spec, Facts(machine)), context)

    assert [reading.refusal for reading in readings if reading.refusal] == []


@pytest.mark.parametrize("role", ROLES)
def test_the_library_has_a_reason_for_every_default_setting(role: str) -> None:
    missing = [key for key in defaults(role)[f"{role}_sysctl_defaults"] if key not in sysctl_info.INFO]

    assert missing == []


@pytest.mark.parametrize("role", ROLES)
def test_every_default_has_its_reason_beside_it(role: str) -> None:
    """A comment stands above the line, or above the group of lines that it belongs to."""
    lines = (ROOT / f"roles/{role}/defaults/main.yml").read_text(encoding="utf-8").splitlines()
    bare = []
    explained = False  # by the comment above, as long as no empty line or headline stands between
    for line in lines[lines.index("---") + 1 :]:
        text = line.strip()
        if text.startswith("#"):
            # `# -- memory --` is a mere headline, `# -- limits, only ever raised --` says more.
            explained = not re.fullmatch(r"# -- \w+ --", text)
        elif not text:
            explained = False
        elif not explained and not text.endswith(":"):
            # (The name of a dictionary needs no reason where each of its lines has one.)
            bare.append(text)
    assert bare == []


def test_collection_and_library_have_one_version() -> None:
    assert load("galaxy.yml")["version"] == VERSION


def test_module_defaults_reach_every_module() -> None:
    groups = load("meta/runtime.yml")["action_groups"]

    assert [*groups] == ["tuning"]
    assert sorted(groups["tuning"]) == MODULES


@pytest.mark.parametrize("module", MODULES)
def test_every_module_names_its_group(module: str) -> None:
    text = (ROOT / f"plugins/modules/{module}.py").read_text(encoding="utf-8")

    assert "  - mlnode.tuning.declaration.attributes\n" in text


@pytest.mark.parametrize(
    "path", sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("r*/**/tasks/*.yml"))
)
def test_tasks_call_modules_that_exist(path: str) -> None:
    tasks = load(path)
    called = {name for task in tasks for name in task if name.startswith("mlnode.tuning.")}

    assert {name.rpartition(".")[2] for name in called} <= {*MODULES}
    assert all(task["name"] for task in tasks)


@pytest.mark.parametrize(("role", "area"), ROLE_AREAS)
def test_options_of_a_role_are_those_of_the_module(role: str, area: str) -> None:
    module, other = AREAS[area]
    documented = yaml.safe_load(module.DOCUMENTATION)["options"]
    mine = options(role)[f"{role}_{area}"]["options"]

    assert {name: about["type"] for name, about in mine.items()} == {
        **{name: about["type"] for name, about in documented.items()},
        **other,
    }
    assert all(about["description"] for about in mine.values())
    assert {*defaults(role)[f"{role}_{area}_defaults"]} <= {*mine}


@pytest.mark.parametrize(("role", "area"), ROLE_AREAS)
def test_the_tasks_hand_over_every_option_of_a_role(role: str, area: str) -> None:
    tasks = load("roles/node/tasks/declare.yml")
    [given] = [
        arguments
        for task in tasks
        if area in task.get("tags", [])
        for name, arguments in task.items()
        if name.startswith("mlnode.tuning.")
    ]
    for name in options(role)[f"{role}_{area}"]["options"]:
        assert f"node_{area}.{name}" in given[name], name


@pytest.mark.parametrize("role", ROLES)
def test_a_role_hands_its_interpreter_to_the_agent(role: str) -> None:
    assert defaults(role)[f"{role}_interpreter"] == agent.INTERPRETER
    given = {
        name: value
        for task in load(f"roles/{role}/tasks/main.yml")
        for name, value in task.get("vars", {}).items()
    }
    assert given["node_interpreter"] == f"{{{{ {role}_interpreter }}}}"
    assert given["node_name"] == role
    [task] = load("roles/node/tasks/agent.yml")
    assert task["mlnode.tuning.agent"]["interpreter"] == "{{ node_interpreter }}"


def test_roles_and_collection_promise_the_same_ansible() -> None:
    promised = load("meta/runtime.yml")["requires_ansible"]
    metas = [load(str(path.relative_to(ROOT))) for path in ROOT.glob("roles/*/meta/main.yml")]

    assert metas
    for meta in metas:
        assert promised == f">={meta['galaxy_info']['min_ansible_version']}.0"


def test_the_unit_names_the_paths_that_the_library_uses() -> None:
    lines = agent.UNIT.splitlines()

    assert f"/etc/systemd/system/{kind.AGENT_UNIT}" == agent.UNIT_FILE
    assert f"/etc/systemd/system/multi-user.target.wants/{kind.AGENT_UNIT}" == kind.AGENT_LINK
    assert "WantedBy=multi-user.target" in lines
    assert f"ExecStart={agent.COMMAND} apply" in lines
    assert lines.index("ExecStartPre=-/bin/udevadm settle") < lines.index(f"ExecStart={agent.COMMAND} apply")
    assert f"ConditionDirectoryNotEmpty={FOLDER}" in lines
    # What the unit may write holds everything an apply writes.
    assert "ReadWritePaths=/etc /run -/boot -/var/lib/os-prober" in lines
    assert "StateDirectory=mlnode" in lines
    assert ORIGIN.startswith("/var/lib/mlnode/")
