# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run that ends with 0 has looked at all that was asked: real runs of every playbook."""

from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT, load
from ansible_collections.mlnode.tuning.tests.unit.test_playbooks import ansible

NOT_BY_AREAS = "has no areas or tags to choose from"
NEAR = "did you mean sysctl?"

#: Playbook → what it says to --tags sysct
PLAYBOOKS = {
    "bake": NEAR,
    "campaign": NOT_BY_AREAS,
    "drift": NEAR,
    "effect": NOT_BY_AREAS,
    "fabric_check": NOT_BY_AREAS,
    "inventory_check": NOT_BY_AREAS,
    "jobs": NOT_BY_AREAS,
    "monitoring": NOT_BY_AREAS,
    "nccl": NOT_BY_AREAS,
    "path_mtu": NOT_BY_AREAS,
    "preflight": NOT_BY_AREAS,
    "publish": NEAR,
    "rdma_bandwidth": NOT_BY_AREAS,
    "revert": NOT_BY_AREAS,
    "site": NEAR,
}


@pytest.fixture
def fleet(tmp_path: pathlib.Path) -> str:
    """Nobody is reached there: each of these runs has to end before."""
    hosts = {
        "training": {"hosts": {"gpu001": {}, "gpu002": {}}},
        "web": {"hosts": {"web001": {}}},
    }
    nowhere = {"ansible_host": "127.0.0.1", "ansible_port": 1}
    path = tmp_path / "hosts.yml"
    path.write_text(yaml.safe_dump({"all": {"vars": nowhere, "children": hosts}}), encoding="utf-8")
    return str(path)


def refused(fleet: str, playbook: str, *words: str) -> str:
    done = ansible("ansible-playbook", "-i", fleet, playbook, *words)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode not in (0, None), said
    assert "unreachable=1" not in said, said
    return said


def test_the_table_has_every_playbook() -> None:
    assert {*PLAYBOOKS} == {path.stem for path in (ROOT / "playbooks").glob("*.yml")}
    # A name for a campaign
    assert load("playbooks/rdma_bandwidth.yml")[0]["ansible.builtin.import_playbook"] == "campaign.yml"
    for name in {*PLAYBOOKS} - {"inventory_check", "rdma_bandwidth"}:
        first = load(f"playbooks/{name}.yml")[0]
        assert first["ansible.builtin.import_playbook"] == "inventory_check.yml", name
        by_area = first.get("vars", {}).get("inventory_check_areas", False)
        assert by_area == (PLAYBOOKS[name] == NEAR), name


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_a_misspelt_area_is_refused(fleet: str, name: str) -> None:
    said = refused(fleet, f"playbooks/{name}.yml", "--tags", "sysct")

    assert f"--tags sysct: {'' if PLAYBOOKS[name] == NEAR else f'{name}.yml '}" in said
    assert PLAYBOOKS[name] in said


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["mlnode.tuning.drift", "--skip-tags", "always"], "would have nothing to do"),
        (["mlnode.tuning.site", "--tags", "verify"], "hosts of the group `fabric` only"),
        (["mlnode.tuning.site", "--limit", "gpu001,gpu003"], "--limit gpu003: no host or group"),
        (["mlnode.tuning.site", "--limit", "web001"], "web001 (web) is in no group that is known here"),
        (["mlnode.tuning.campaign", "-e", "campaign_grup=x"], "did you mean campaign_group?"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_what_would_look_at_nothing_is_refused(fleet: str, words: list[str], why: str) -> None:
    assert why in refused(fleet, *words)


def test_a_file_of_variables_for_a_misspelt_group_is_refused(fleet: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/trainig.yml").write_text("node_sysctl: {}\n")

    assert "has no group trainig; did you mean training?" in refused(fleet, "mlnode.tuning.site")


def test_areas_of_a_run_are_those_of_its_tags_in_every_play_of_drift() -> None:
    """Ansible would skip a task with neither `always` nor the tag."""
    for name in ("drift", "bake"):
        assert all(play["tags"] == ["always"] for play in load(f"playbooks/{name}.yml")[1:]), name


def own(path: pathlib.Path, *tags: str) -> str:
    """A playbook that imports one of this collection, and has another play with these tags."""
    plays = [
        {"ansible.builtin.import_playbook": "mlnode.tuning.drift"},
        {"hosts": "localhost", "gather_facts": False, "connection": "local", "tasks": [
            {"name": "My own", "ansible.builtin.debug": {"msg": "mine"}, "tags": [*tags]}]},
    ]  # fmt: skip
    path.write_text(yaml.safe_dump(plays), encoding="utf-8")
    return str(path)


def test_another_playbook_may_have_tags_like_an_area(fleet: str, tmp_path: pathlib.Path) -> None:
    mine = own(tmp_path / "mine.yml", "service")

    done = ansible("ansible-playbook", "-i", fleet, mine, "--tags", "service")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mine" in done.stdout
    assert "did you mean services?" in refused(fleet, mine, "--tags", "servics")
