# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What roles, metadata and library say about the same thing has to be the same."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.mlnode.tuning.plugins.plugin_utils import options_of, profile
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.roles import (
    NODES,
    PROFILES,
    ROLES,
    ROOT,
    debian,
    declaration,
    defaults,
    load,
    name_of,
    options,
    overrides,
    profile_of,
    said,
)
from mlnode.agent import install as agent
from mlnode.agent.registry import KINDS
from mlnode.engine import kind
from mlnode.engine.declared import FOLDER
from mlnode.engine.digests import digests
from mlnode.engine.kind import Facts
from mlnode.engine.origin import PATH as ORIGIN
from mlnode.knobs.sysctl import info as sysctl_info
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.model.setting import Value
from mlnode.model.version import VERSION

MODULES = sorted(path.stem for path in ROOT.glob("plugins/modules/*.py") if path.stem != "__init__")

TYPES = {"dict": dict, "list": list, "str": str, "int": int, "bool": bool}

#: Areas of which a role's variable is one option, and that option; of the others it is all of them
ONE_OPTION = {"services": "services", "modules": "modules", "sysctl": "settings", "nccl": "variables"}

#: Of the action `declare`, what a role does not take from a variable that has its name
ELSEWHERE = {
    "name": None,
    "ignore": "drift_ignore",
    "judged_later": "node_judged_later",
    "rollout": "mlnode_rollout",
    "render": "node_rendered",
    "without": "node_without",
}

#: What one of the roles has and the other one does not
OWN = {
    "node": {"profile", "preset", "reboot", "reboot_at_once", "reboot_most", "reboot_timeout"},
    "fabric": {"type", "expect", "fail_on", "qos_preset"},
}


#: What fabric takes from the role node where it is not given itself
SAME_AS_THE_NODE = {"interpreter"}


#: What the README of each role answers, in this order
ANSWERS = (
    *("requirements", "installation", "changes", "never changes", "undo", "limits"),
    *("tested", "not tested"),
)

#: Role → the name under which it declares
DECLARED = {
    **{role: name_of(name) for name, role in PROFILES.items()},
    "node": "node",
    "monitoring": "monitoring",
}


def declare_task(role: str) -> dict[str, Any]:
    found: dict[str, Any] = load(f"roles/{role}/tasks/main.yml")[0]["mlnode.tuning.declare"]
    return found


def test_there_are_roles_and_profiles_to_look_at() -> None:
    assert {path.name for path in ROOT.glob("roles/*")} == {*ROLES, *PROFILES.values(), "monitoring"}
    assert {*DECLARED} == {path.name for path in ROOT.glob("roles/*")}
    assert {*profile.known()} == {*PROFILES}
    assert all(declaration(name) for name in PROFILES)


@pytest.mark.parametrize(("role", "name"), DECLARED.items())
def test_a_readme_has_what_a_role_needs_changes_and_was_tested_on(role: str, name: str) -> None:
    readme = (ROOT / f"roles/{role}/README.md").read_text(encoding="utf-8")
    table = readme.partition("## In short\n\n| | |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()]

    assert [first for first, _text in rows] == [*ANSWERS]
    found = dict(rows)
    least = load(f"roles/{role}/meta/main.yml")["galaxy_info"]["min_ansible_version"]
    assert f"ansible-core {least} or newer" in found["requirements"]
    assert "`ansible-galaxy collection install`" in found["installation"]
    assert f"`ansible NODES --become -m mlnode.tuning.declare -a name={name}`" in found["undo"]
    played = [debian(scenario) for scenario in re.findall(r"/molecule/(\w+)\)", found["tested"])]
    assert {*re.findall(r"\b1[23]\b", found["tested"])} == {number for one in played for number in one}


@pytest.mark.parametrize("name", NODES)
def test_the_role_of_a_profile_is_the_role_node_with_it(name: str) -> None:
    role = PROFILES[name]
    [task] = load(f"roles/{role}/tasks/main.yml")

    # Its call of declare checks the variables, in the process that there is for each host anyway.
    node = {"name": "mlnode.tuning.node", "rolespec_validate": False}
    assert task["ansible.builtin.import_role"] == node
    assert task["vars"] == {"node_usual_profile": name}
    # A profile that the inventory names comes first.
    assert profile_of("node", **task["vars"]) == [name, ""]
    assert profile_of("node", **task["vars"], node_profile="/srv/own.yml") == ["/srv/own.yml", ""]
    assert options(role) == {}


def test_roles_that_declare_have_the_same_variables_and_tasks() -> None:
    names = {role: {name.removeprefix(f"{role}_") for name in defaults(role)} for role in ROLES}
    assert {role: names[role] - OWN[role] for role in ROLES} == dict.fromkeys(
        ROLES, names["node"] & names["fabric"]
    )
    for name in names["node"] & names["fabric"] - SAME_AS_THE_NODE:
        node, fabric = ({**options(role)[f"{role}_{name}"]} for role in ROLES[::-1])
        assert node == fabric, name
    mine, theirs = (
        {option: str(value).replace(f"{role}_", "node_") for option, value in declare_task(role).items()}
        for role in ROLES[::-1]
    )
    assert {option for option in {**mine, **theirs} if mine.get(option) != theirs.get(option)} == {
        "name",
        "profile",
        "variables",
        "fabric_type",
    }


#: Options of which the variables of a role are read by the action: a task could not leave them to
#: module_defaults where there are none
BY_GROUP = {"layers", "on_unsupported"}


@pytest.mark.parametrize("role", ROLES)
def test_every_default_is_documented_with_the_same_value(role: str) -> None:
    documented = options(role)

    # One variable for each area, without which the profile counts: those of fabric are those of node.
    areas_of = {name for name in documented if name.removeprefix(f"{role}_") in KINDS}
    assert areas_of == ({f"node_{area}" for area in KINDS} if role == "node" else set())
    # fail_on is left to module_defaults, too, by a task of its own.
    given = {*documented} - areas_of - {f"{role}_{name}" for name in (*BY_GROUP, "fail_on")}
    assert {name: documented[name].get("default") for name in given} == defaults(role)
    for name, value in defaults(role).items():
        assert isinstance(value, TYPES[documented[name]["type"]]), name
        assert documented[name]["description"], name
        assert name.startswith(f"{role}_")


@pytest.mark.parametrize("role", ROLES)
def test_options_of_a_role_are_those_of_the_action(role: str) -> None:
    documented, taken = options(role), options_of.module("declare")
    same = {name.removeprefix(f"{role}_"): about for name, about in documented.items()}
    same["fabric_type"] = same.pop("type", {})

    own = SAME_AS_THE_NODE if role == "fabric" else set()
    for name in {*same} & {*taken} - {*KINDS, "profile", "fabric_type"} - own:
        for word in ("type", "elements", "choices", *(() if name in BY_GROUP else ("default",))):
            assert same[name].get(word) == taken[name].get(word), (name, word)
    if role == "fabric":
        assert same["fabric_type"]["choices"] == taken["fabric_type"]["choices"]


@pytest.mark.parametrize("role", ROLES)
def test_a_role_hands_over_every_option_of_the_action(role: str) -> None:
    task = declare_task(role)

    of_node = {"fabric_type"} if role == "node" else set()
    assert {*options_of.module("declare")} - {*task} - of_node == BY_GROUP
    assert task["name"] == role
    for name, value in task.items():
        variable = ELSEWHERE.get(name, f"{role}_{name.removeprefix('fabric_')}")
        if variable and name not in ("profile", "variables"):
            assert re.fullmatch(rf"{{{{ {variable}( \| default\(.*\))? }}}}", value), name


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("area", KINDS)
def test_a_variable_of_a_role_is_an_override_of_its_area(role: str, area: str) -> None:
    given = {"one": {"of": "these"}}
    found = overrides(role, **{f"{role}_{area}": given})

    option = ONE_OPTION.get(area)
    assert found == {area: {option: given} if option else given}


@pytest.mark.parametrize("role", ROLES)
def test_sizing_and_guards_go_with_the_kernel_settings(role: str) -> None:
    found = overrides(role, **{f"{role}_sizing": {"rtt_us": 5}, f"{role}_allow": ["hugepages"]})

    assert found == {"sysctl": {"sizing": {"rtt_us": 5}, "allow": ["hugepages"]}}


@pytest.mark.parametrize("role", ROLES)
def test_drift_finds_in_an_inventory_without_variables_what_the_role_declares(role: str) -> None:
    """There, the role's own defaults are not known."""
    without = {"fabric_qos_preset": "none"} if role == "fabric" else {}
    assert said(role, **without) == said(role, **defaults(role))
    assert digests(said(role, **without)) == digests(declaration("training" if role == "node" else role))


def test_the_role_fabric_declares_the_scheme_that_is_named() -> None:
    choices = options("fabric")["fabric_qos_preset"]["choices"]
    of_nodes = {*options("node")["node_preset"]["choices"]} - {"none"}
    assert {f"roce_{name}" for name in choices} - {"roce_none"} == {*profile.presets()} - of_nodes
    for name in of_nodes:
        assert profile_of("node", node_preset=name) == ["training", name]
    for name in choices:
        preset = "" if name == "none" else f"roce_{name}"
        assert profile_of("fabric", fabric_qos_preset=name) == ["fabric", preset]


def settings_of(preset: str, area: str, **variables: Any) -> dict[str, str]:
    specs = said("fabric", fabric_qos_preset=preset, **variables)
    return {item.key: item.claim.partition(" (")[0] for item in door.parse(area, specs[area])}


def test_without_a_scheme_no_priority_is_declared() -> None:
    assert "qos" not in said("fabric", fabric_qos_preset="none")
    assert settings_of("none", "nic") == {"nic.rails.mtu": "at least 4200"}
    assert settings_of("none", "nccl")["nccl.NCCL_IB_TC"] == "auto"


@cases.table
def test_a_scheme_has_these_numbers(preset: str, area: str, found: dict[str, str]) -> None:
    assert {**settings_of(preset, area), **found} == settings_of(preset, area)


def test_an_operator_changes_a_number_of_a_scheme_or_declares_one_of_the_own() -> None:
    over = {"rules": {"rails": {"dscp": {46: 6, 48: None}, "cnp": {"dscp": 46}}}}
    assert settings_of("nvidia", "qos", fabric_qos=over)["qos.rails.dscp"] == "26:3 46:6"
    own = {"rules": {"rails": {"nics": {"rails": True}, "pfc": [4]}}}
    assert settings_of("none", "qos", fabric_qos=own) == {"qos.rails.pfc": "4"}


@pytest.mark.parametrize("role", ROLES)
def test_null_leaves_an_area_alone(role: str) -> None:
    assert "nic" in said(role, **defaults(role))
    assert "nic" not in said(role, **{**defaults(role), f"{role}_nic": None})


@pytest.mark.parametrize("name", PROFILES)
def test_the_settings_of_a_profile_are_a_sound_declaration(name: str, machine: Machine) -> None:
    spec = declaration(name)["sysctl"]

    parsed = door.parse("sysctl", spec, Facts(machine))

    assert [setting.key for setting in parsed] == [*spec["settings"]]
    assert all(setting.want for setting in parsed)
    assert [setting.key for setting in door.parse("sysctl", spec)] == [*spec["settings"]]


@pytest.mark.parametrize(
    ("name", "kind_name"),
    [(name, area) for name in (*PROFILES, *profile.presets()) for area in declaration(name)],
)
def test_every_kind_takes_the_profile_and_has_a_reason_for_each_setting(name: str, kind_name: str) -> None:
    knob = KINDS[kind_name]

    settings = door.parse(kind_name, declaration(name)[kind_name])

    assert settings
    for setting in settings:
        about = knob.info(setting.key, Value())
        assert about.reason, setting.key
        assert about.source, setting.key
        assert "declared by you" not in about.reason, setting.key


@pytest.mark.parametrize("name", PROFILES)
def test_nothing_has_to_be_allowed_on_an_ordinary_node(name: str, machine: Machine) -> None:
    context = kind.Context(machine, Facts(machine))
    spec = declaration(name)["sysctl"]

    readings = sysctl.read(door.parse("sysctl", spec, Facts(machine)), context)

    assert [reading.refusal for reading in readings if reading.refusal] == []


@pytest.mark.parametrize("name", PROFILES)
def test_the_library_has_a_reason_for_every_kernel_setting(name: str) -> None:
    missing = [key for key in declaration(name)["sysctl"]["settings"] if key not in sysctl_info.INFO]

    assert missing == []


@pytest.mark.parametrize(
    "path",
    [
        *(f"roles/node/profiles/{name}.yml" for name in PROFILES),
        *(f"roles/node/profiles/presets/{name}.yml" for name in profile.presets()),
        "roles/fabric/defaults/main.yml",
    ],
)
def test_every_value_has_its_reason_beside_it(path: str) -> None:
    """A comment stands above the line, or above the group of lines that it belongs to."""
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
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


@pytest.fixture(scope="module")
def documented() -> dict[str, Any]:
    """Of each module, with its fragments, as ansible-doc shows it."""
    program = str(pathlib.Path(sys.executable).parent / "ansible-doc")
    names = [f"mlnode.tuning.{name}" for name in MODULES]
    done = subprocess.run([program, "--json", *names], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name: about["doc"] for name, about in json.loads(done.stdout).items()}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_in_the_group_of_those_with_its_options_and_names_it(
    module: str, documented: dict[str, Any]
) -> None:
    shared = {"declaring": {"name", "layers", "on_unsupported"}, "checks": {"fail_on"}}
    groups = load("meta/runtime.yml")["action_groups"]
    assert {*groups} == {*shared}
    about = documented[f"mlnode.tuning.{module}"]

    fitting = [group for group, options in shared.items() if options <= {*about["options"]}]

    assert [group for group, modules in groups.items() if module in modules] == fitting
    names = about["attributes"].get("action_group", {}).get("membership", [])
    assert names == [f"mlnode.tuning.{group}" for group in fitting]


@pytest.mark.parametrize(
    "path", sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("r*/**/tasks/*.yml"))
)
def test_tasks_call_modules_that_exist(path: str) -> None:
    tasks = load(path)
    called = {name for task in tasks for name in task if name.startswith("mlnode.tuning.")}

    assert {name.rpartition(".")[2] for name in called} <= {*MODULES}
    assert all(task["name"] for task in tasks)


def test_the_interpreter_is_that_of_the_agent() -> None:
    assert defaults("node")["node_interpreter"] == agent.INTERPRETER


@pytest.mark.parametrize(
    ("given", "found"),
    [({}, agent.INTERPRETER), ({"node_interpreter": "/opt/py/python3"}, "/opt/py/python3")],
)
def test_both_roles_install_the_agent_for_one_interpreter(given: dict[str, str], found: str) -> None:
    """Each would else replace the agent that the other one has installed."""
    text = trust_as_template(defaults("fabric")["fabric_interpreter"])

    assert Templar(loader=DataLoader(), variables=given).template(text) == found


def test_the_unit_names_the_paths_that_the_library_uses() -> None:
    lines = agent.UNIT.splitlines()

    assert f"/etc/systemd/system/{kind.AGENT_UNIT}" == agent.UNIT_FILE
    assert f"/etc/systemd/system/multi-user.target.wants/{kind.AGENT_UNIT}" == kind.AGENT_LINK
    assert "WantedBy=multi-user.target" in lines
    assert f"ExecStart={agent.COMMAND} apply" in lines
    assert lines.index("ExecStartPre=-+/bin/udevadm settle") < lines.index(f"ExecStart={agent.COMMAND} apply")
    assert f"ConditionDirectoryNotEmpty={FOLDER}" in lines
    # What the unit may write holds everything an apply writes.
    assert "ReadWritePaths=/etc /run -/boot -/efi -/var/lib/os-prober -/sys/fs/cgroup/memory" in lines
    assert "StateDirectory=mlnode" in lines
    assert ORIGIN.startswith("/var/lib/mlnode/")
