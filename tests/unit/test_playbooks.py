# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks know every role, and the group that is named after it."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
from collections import Counter

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.lookup import known_groups
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.roles import (
    NODES,
    PROFILES,
    ROLES,
    ROOT,
    current,
    declaration,
    load,
    options,
    said,
)
from mlnode.agent.registry import KINDS, MODULES
from mlnode.model import schema

#: Whatever tags are named: areas are chosen inside of the call
ALWAYS = {
    "Fail if part of the run has no hosts": 1,
    "Fail if too many nodes failed or are unreachable": 2 * len(PROFILES),
    "Declare the node": len(NODES),
    "Declare the RDMA fabric": 1,
    "Fail if a setting is not in effect": 1,
}
TAGGED = {
    "Verify the fabric": "verify",
    "Verify the fabric with fabric_fail_on": "verify",
    "Reboot if required": "boot",
}


def ansible(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    """In the checkout, where the inventories and ansible.cfg are."""
    command = [str(pathlib.Path(sys.executable).parent / program), *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    current(done.stderr)
    return done


@pytest.mark.parametrize(
    ("tags", "listed_too"),
    [([], {*TAGGED.values()}), (["thp", "boot"], {"boot"}), (["verify"], {"verify"})],
)
def test_every_area_is_declared_by_one_task_of_a_role(tags: list[str], listed_too: set[str]) -> None:
    chosen = ["--tags", ",".join(tags)] if tags else []

    done = ansible(
        "ansible-playbook", "--list-tasks", "playbooks/site.yml", "-i", "inventory/local.yml", *chosen
    )

    assert done.returncode == 0, done.stderr
    listed = Counter(
        line.split("\tTAGS:")[0].strip().rpartition(" : ")[2] for line in done.stdout.splitlines()
    )
    assert {name: listed[name] for name in ALWAYS} == ALWAYS
    assert {TAGGED[name] for name in TAGGED if listed[name]} == listed_too


def _named(group: str) -> str:
    """The name that an inventory may give it."""
    return f"{{{{ lookup('mlnode.tuning.known_groups', '{group}') }}}}"


def test_the_groups_of_nodes_are_those_of_the_profiles() -> None:
    assert {*known_groups.NODES} == {*PROFILES}


def test_every_profile_has_a_play_for_the_group_of_its_name() -> None:
    _inventory, *plays, _end = load("playbooks/site.yml")

    roles = [task["ansible.builtin.import_role"] for play in plays for task in play["tasks"][1:-1]]
    found = {role["name"]: play["hosts"] for role, play in zip(roles, plays, strict=True)}
    assert found == {f"mlnode.tuning.{role}": _named(name) for name, role in PROFILES.items()}
    # By Ansible, it would take a process for each host: the call of declare does it.
    assert not any(role.get("rolespec_validate", True) for role in roles)
    first, *others = plays
    for play in others:
        assert play["tasks"][0] == first["tasks"][0]
        assert play["tasks"][-1] == first["tasks"][-1]
        own = ("name", "hosts", "tasks")
        assert {key: play[key] for key in play if key not in own} == {
            key: first[key] for key in first if key not in own
        }


def test_a_run_ends_with_a_look_at_hosts_of_all_groups() -> None:
    *_plays, end = load("playbooks/site.yml")

    assert end["hosts"] == "{{ query('mlnode.tuning.known_groups') | join(':') }}"


def test_what_a_play_has_done_is_looked_at_on_every_host() -> None:
    _inventory, play, others, _report = load("playbooks/drift.yml")

    used = "query('mlnode.tuning.known_groups', in_use=true)"
    assert (used in play["hosts"], used in others["hosts"]) == (True, True)
    expected = others["tasks"][0]["mlnode.tuning.node_drift"]["declarations"]
    assert {*expected} == {*ROLES}
    assert not any(expected.values())


PRESETS = ROOT / "roles/node/profiles/presets"


@pytest.fixture
def fleet(tmp_path: pathlib.Path) -> str:
    """A host in a group, one that has left it, and one that does not answer: nothing listens at TCP port 1,
    tcpmux (IANA), of this machine."""
    groups = {
        "training": {"hosts": {"in": {"ansible_connection": "local"}}},
        "others": {
            "hosts": {
                "left": {"ansible_connection": "local"},
                "dead": {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_connection": "ssh"},
            }
        },
    }
    path = tmp_path / "hosts.yml"
    path.write_text(yaml.safe_dump({"all": {"children": groups}}), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(("limit", "hosts"), [([], ["in"]), (["--limit", "left"], ["left"])])
def test_a_host_that_has_left_its_groups_is_reverted_by_its_name(
    fleet: str, limit: list[str], hosts: list[str]
) -> None:
    # By the name in drift's remedy, which a checkout has to know as well.
    done = ansible("ansible-playbook", "mlnode.tuning.revert", "-i", fleet, "--list-hosts", *limit)

    found = done.stdout.partition("Revert all nodes")[2].partition("):\n")[2].split()
    assert found == hosts, done.stdout + done.stderr


@cases.table
def test_the_groups_to_revert_have_names_of_their_own(fleet: str, words: list[str], hosts: list[str]) -> None:
    done = ansible("ansible-playbook", "playbooks/revert.yml", "-i", fleet, "--list-hosts", *words)

    found = done.stdout.partition("Revert all nodes")[2].partition("):\n")[2].split()
    assert sorted(found) == hosts, done.stdout + done.stderr


def test_a_host_of_no_group_that_does_not_answer_is_named_and_no_drift(fleet: str) -> None:
    done = ansible("ansible-playbook", "playbooks/drift.yml", "-i", fleet, "--limit", "d*d")

    assert done.returncode == 0, done.stdout
    assert re.search(r"Report hosts that did not answer.*\bdead: .*\bport 1\b", " ".join(done.stdout.split()))


def test_a_host_that_is_asked_for_by_name_has_to_answer(fleet: str) -> None:
    done = ansible("ansible-playbook", "playbooks/drift.yml", "-i", fleet, "--limit", "dead,")

    assert done.returncode != 0, done.stdout
    assert "Not compared: dead" in done.stdout + done.stderr


@cases.table
def test_a_play_without_a_node_is_refused_with_the_reason(
    tmp_path: pathlib.Path, groups: dict[str, list[str]], said: str
) -> None:
    children = {name: {"hosts": dict.fromkeys(names)} for name, names in groups.items()}
    # An empty group is no group to Ansible, unless somebody else is there.
    hosts = {"all": {"children": children, "hosts": {"other": None}}}
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(yaml.safe_dump(hosts), encoding="utf-8")

    done = ansible("ansible-playbook", "-i", str(inventory), "playbooks/inventory_check.yml")

    words = " ".join((done.stdout + done.stderr).split())
    assert (done.returncode == 0) == (not said), words
    assert said in words


def test_a_group_that_is_named_has_to_be_there(tmp_path: pathlib.Path) -> None:
    """Another one has hosts, so that the play would go on without those that were meant."""
    groups = {"inference": {"hosts": {"one": None}}, "gpu": {"hosts": {"two": None}}}
    hosts = {"all": {"vars": {"mlnode_training": "gpus"}, "children": groups}}
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(yaml.safe_dump(hosts), encoding="utf-8")

    done = ansible("ansible-playbook", "-i", str(inventory), "playbooks/inventory_check.yml")

    words = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2, words
    assert "The inventory has no group gpus, which mlnode_training, " in words
    assert "Groups of this inventory: gpu, inference." in words


def test_the_example_declares_what_the_roles_take() -> None:
    """Every host of it, with its variables over the profile."""
    found = json.loads(ansible("ansible-inventory", "-i", "inventory/example", "--list").stdout)
    assert {*PROFILES} <= {*found}

    for group in PROFILES:
        assert found[group]["hosts"], group
        for host in found[group]["hosts"]:
            mine = {
                name: value
                for name, value in found["_meta"]["hostvars"][host].items()
                if name.startswith(tuple(f"{role}_" for role in ROLES))
            }
            known = {name for role in ROLES for name in options(role)}
            known |= {f"{role}_{area}" for role in ROLES for area in KINDS}
            assert {*mine} <= known, host
            role = "node" if group in NODES else group
            areas = said(role, **mine, **({"node_profile": group} if group in NODES else {}))
            found_areas = {
                area: schema.checked(area, spec, KINDS[area].OPTIONS) for area, spec in areas.items()
            }
            assert {*declaration(group)} <= {area for area, spec in found_areas.items() if spec}, host
            for area, spec in found_areas.items():
                assert bool(door.parse(area, spec)) == bool(spec), (host, area)


def test_every_area_and_every_other_tag_is_documented() -> None:
    section = (ROOT / "README.md").read_text().partition("\n## What is set\n")[2].partition("\n## ")[0]
    assert {*KINDS} <= {*re.findall(r"`(\w+)`", section)}
    table = (ROOT / "docs/index.md").read_text().partition("| area | sets | module | role |\n")[2]
    rows = [[cell.strip() for cell in row.split("|")] for row in table.partition("\n\n")[0].splitlines()[1:]]
    assert [row[1] for row in rows] == [f"[{area}](knobs/{area}.md)" for area in KINDS]
    assert [row[3] for row in rows] == [f"`{MODULES[area]}`" for area in KINDS]
    profiles = {"training": "node", "inference": "node", "fabric": "fabric"}
    for area, row in zip(KINDS, rows):
        declaring = {role: None for profile, role in profiles.items() if area in declaration(profile)}
        by_preset = any(area in load(str(path.relative_to(ROOT))) for path in PRESETS.glob("*.yml"))
        assert row[4] == (", ".join(declaring) or ("fabric, by preset" if by_preset else "")), area

    tags = {
        tag
        for path in ROOT.glob("roles/*/tasks/*.yml")
        for task in load(str(path.relative_to(ROOT)))
        for tag in task.get("tags", [])
    }

    operations = (ROOT / "docs/guide/operations.md").read_text()
    section = operations.partition("## One area alone")[2].partition("\n## ")[0]
    assert [tag for tag in tags - {"always"} if f"`{tag}`" not in section] == []


def test_a_playbook_or_role_keeps_no_state_in_a_template() -> None:
    """What a program has to keep is in Python, with types."""
    paths = [path for name in ("playbooks", "roles") for path in (ROOT / name).rglob("*") if path.is_file()]
    assert [str(path) for path in paths if re.search(r"{%[-+]?\s*set\b", path.read_text("utf-8"))] == []


def test_a_measurement_is_a_play_of_one_task() -> None:
    for name in ("campaign", "nccl", "effect"):
        *_inventory, play = yaml.safe_load((ROOT / f"playbooks/{name}.yml").read_text("utf-8"))
        assert play["tasks"][0]["mlnode.tuning.measure"] == {"kind": name}
        assert len(play["tasks"]) == 1
