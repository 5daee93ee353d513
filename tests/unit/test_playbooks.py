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
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.registry import KINDS
from ansible_collections.mlnode.tuning.tests.unit.roles import ROLES, ROOT, declaration, load, options

GROUPS = {role: role.partition("_")[0] for role in ROLES}

ALWAYS = {
    "Stop if there is no node to work on": 1,
    "Stop where too many nodes are lost": 2 * len(ROLES),
    "Install the command mlnode and its boot service": len(ROLES),
}
TAGGED = {
    "services": "Declare what becomes of services that tune",
    "modules": "Declare kernel modules",
    "thp": "Declare transparent huge pages",
    "sysctl": "Declare kernel settings",
    "limits": "Declare resource limits",
    "cpu": "Declare how CPUs choose their clock",
    "gpu": "Declare the persistence mode of GPUs",
    "nic": "Declare queues, rings and offloads of NICs",
    "rail": "Declare how rails answer and route",
    "qos": "Declare the priorities of RoCE",
    "irq": "Declare where interrupts go",
    "nccl": "Declare what NCCL starts with",
    "boot": "Declare the kernel command line",
}


def ansible(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    """In the checkout, where the inventories and ansible.cfg are."""
    command = [str(pathlib.Path(sys.executable).parent / program), *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("tags", "declared"),
    [([], {*TAGGED}), (["thp"], {"thp"}), (["sysctl"], {"sysctl"}), (["no_such_tag"], set())],
)
def test_tags_reach_the_tasks_of_every_role(tags: list[str], declared: set[str]) -> None:
    chosen = ["--tags", ",".join(tags)] if tags else []

    done = ansible(
        "ansible-playbook", "--list-tasks", "playbooks/site.yml", "-i", "inventory/local.yml", *chosen
    )

    assert done.returncode == 0, done.stderr
    listed = Counter(
        line.split("\tTAGS:")[0].strip().rpartition(" : ")[2] for line in done.stdout.splitlines()
    )
    assert {name: listed[name] for name in ALWAYS} == ALWAYS
    expected = {TAGGED[name]: len(ROLES) if name in declared else 0 for name in TAGGED}
    assert {name: listed[name] for name in TAGGED.values()} == expected


def test_every_role_has_a_play_for_the_group_of_its_name() -> None:
    _preflight, *plays, _end = load("playbooks/site.yml")

    found = {role["role"]: play["hosts"] for play in plays for role in play["roles"]}
    assert found == {f"mlnode.tuning.{role}": group for role, group in GROUPS.items()}
    first, *others = plays
    for play in others:
        own = ("name", "hosts", "roles")
        assert {key: play[key] for key in play if key not in own} == {
            key: first[key] for key in first if key not in own
        }


def test_a_run_ends_with_a_look_at_hosts_of_all_groups() -> None:
    *_plays, end = load("playbooks/site.yml")

    assert {*end["hosts"].split(":")} == {*GROUPS.values()}


@pytest.mark.parametrize("playbook", ["drift", "revert"])
def test_what_a_play_has_done_is_looked_at_and_undone_on_hosts_of_all_groups(playbook: str) -> None:
    _preflight, play = load(f"playbooks/{playbook}.yml")

    assert {*play["hosts"].split(":")} == {*GROUPS.values()}


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ({"training": ["one"]}, ""),
        ({"inference": ["one"]}, ""),
        ({"infrence": ["one"], "login": ["two"]}, "Its own groups: infrence, login."),
        ({"training": [], "inference": []}, "Its own groups: inference, training."),
        ({}, "Its own groups: none."),
    ],
)
def test_a_play_without_a_node_is_refused_with_the_reason(
    tmp_path: pathlib.Path, groups: dict[str, list[str]], said: str
) -> None:
    children = {name: {"hosts": dict.fromkeys(names)} for name, names in groups.items()}
    # An empty group is no group to Ansible, unless somebody else is there.
    hosts = {"all": {"children": children, "hosts": {"other": None}}}
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(yaml.safe_dump(hosts), encoding="utf-8")

    done = ansible("ansible-playbook", "-i", str(inventory), "playbooks/preflight.yml")

    words = " ".join((done.stdout + done.stderr).split())
    assert (done.returncode == 0) == (not said), words
    assert said in words


def test_the_example_declares_what_the_roles_take() -> None:
    """Every host of it, with its variables in the place of the defaults, as the tasks combine them."""
    found = json.loads(ansible("ansible-inventory", "-i", "inventory/example", "--list").stdout)
    assert {*GROUPS.values()} <= {*found}

    for role, group in GROUPS.items():
        assert found[group]["hosts"], group
        for host in found[group]["hosts"]:
            mine = {
                name: value
                for name, value in found["_meta"]["hostvars"][host].items()
                if name.startswith(tuple(f"{one}_" for one in ROLES))
            }
            roles = [one for one in ROLES if host in found[GROUPS[one]]["hosts"]]
            assert {*mine} <= {name for one in roles for name in options(one)}, host
            specs = declaration(role)
            specs["sysctl"]["settings"] |= mine.get(f"{role}_sysctl", {})
            specs["sysctl"]["sizing"] |= mine.get(f"{role}_sizing", {})
            for area in ("thp", "cpu", "boot"):
                if area in specs:
                    specs[area] |= mine.get(f"{role}_{area}", {})
            for name, spec in specs.items():
                KINDS[name].parse(spec, None)


def test_every_tag_is_documented() -> None:
    text = (ROOT / "docs/operations.md").read_text()
    tags = {
        tag
        for path in ROOT.glob("roles/*/tasks/*.yml")
        for task in load(path)
        for tag in task.get("tags", [])
    }

    table = text.partition("| tags | area |")[2].partition("\n\n")[0]
    found = {tag for row in table.splitlines()[2:] for tag in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert found == tags - {"always"}
