# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a run ends where something declared is not in force afterwards."""

from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible_collections.mlnode.tuning.tests.unit.roles import declaration
from ansible_collections.mlnode.tuning.tests.unit.stub_site import FINE, Site, failed
from mlnode.agent import registry
from mlnode.agent.registry import KINDS
from mlnode.model import schema

FILE = "/etc/sysctl.d/zzz.conf:2"
MISSED = f"vm.swappiness: overridden, want 1, runtime 1, boot 30 (high): boot: {FILE} sets 30"
SWAPPINESS = {"node": [MISSED]}


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Site:
    return Site(tmp_path)


def test_it_ends_in_failure_after_all_nodes_and_groups(site: Site) -> None:
    known = {"key": "vm.swap*", "reason": "OPS-1", "until": "2099-12-31"}
    site.host("both", SWAPPINESS, "training", "fabric")
    site.host("fine", {}, drift_ignore=[known], node_fail_at="low")
    site.host("hostile", {"node": ["{{ 6000 * 7 }}"]})
    site.host("rail", {"fabric": ["qos.rails.trust: drifted"]}, "fabric")

    code, output = site.play()

    assert (code, failed(output)) == (2, {"both", "hostile", "rail"}), output
    assert MISSED in " ".join(output.split())
    assert "qos.rails.trust: drifted" in output
    assert "{{ 6000 * 7 }}" in output, "what a node says is no template"
    assert [asked["name"] for asked in site.asked("both")] == ["node", "fabric"], "one call per declaration"
    node, fabric = (
        {area for area, spec in asked["areas"].items() if schema.checked(area, spec, registry.options(area))}
        for asked in site.asked("both")
    )
    assert (node, fabric) == ({*declaration("training")}, {*declaration("fabric")})
    [asked] = site.asked("fine")
    assert (asked["fail_at"], asked["ignore"]) == ("low", [known])


def test_a_check_fails_nothing(site: Site) -> None:
    site.host("one", SWAPPINESS, "training", "fabric")
    code, output = site.play("--check")
    assert (code, failed(output)) == (0, set()), output
    assert [asked["check"] for asked in site.asked("one")] == [True, True]


def test_in_batches_the_next_one_is_left_alone(site: Site) -> None:
    site.host("first", SWAPPINESS)
    site.host("second", {})
    code, output = site.play(mlnode_serial=1)
    assert (code, failed(output)) == (2, {"first"}), output
    assert FILE in output
    assert site.asked("second") == []


@pytest.mark.parametrize(
    ("words", "selected"),
    [
        (["--tags", "thp"], [["thp"]]),
        (["--skip-tags", "nic,irq"], [[area for area in KINDS if area not in ("nic", "irq")]]),
    ],
)
def test_tags_choose_areas_of_the_one_call(site: Site, words: list[str], selected: list[list[str]]) -> None:
    site.host("one", {})
    code, output = site.play(*words)
    assert code == 0, output
    assert [asked["selected"] for asked in site.asked("one")] == selected


def test_a_role_alone_ends_like_that(site: Site) -> None:
    site.host("one", SWAPPINESS)
    task = {"ansible.builtin.include_role": {"name": "mlnode.tuning.training_node"}}
    playbook = site.folder / "play.yml"
    playbook.write_text(yaml.safe_dump([{"hosts": "training", "gather_facts": False, "tasks": [task]}]))
    code, output = site.play(playbook=str(playbook))
    assert (code, failed(output)) == (2, {"one"}), output
    assert FILE in output


def test_what_a_play_does_after_the_role_is_done(site: Site) -> None:
    """The role ends early where no reboot is wanted, and only itself."""
    site.host("one", {})
    after = {"name": "Say so", "ansible.builtin.debug": {"msg": "after the role"}}
    roles = [
        {"role": "mlnode.tuning.training_node"},
        {"role": "mlnode.tuning.node", "vars": {"node_layers": ["boot"]}},
    ]
    playbook = site.folder / "play.yml"
    play = {"hosts": "training", "gather_facts": False, "roles": roles, "post_tasks": [after]}
    playbook.write_text(yaml.safe_dump([play]))
    code, output = site.play(playbook=str(playbook))
    assert code == 0, output
    assert [asked["layers"] for asked in site.asked("one")] == [["runtime", "boot"], ["boot"]]
    assert "after the role" in output


def test_a_mistaken_variable_is_named_before_a_node_is_asked(site: Site) -> None:
    mistaken = {"one": "node_sysctll", "two": "training_node_sysctl"}
    others = {"node_exporter_port": 9100, "fabric_name": "east", "fabric_vlan": 100, "node_gpus": 8}
    for host, name in mistaken.items():
        site.host(host, {}, **{name: {}, **others})
    code, output = site.play("--tags", "thp")
    assert (code, failed(output)) == (2, {*mistaken}), output
    for host, name in mistaken.items():
        assert f"{name}: unknown variable; did you mean node_sysctl?" in " ".join(output.split())
        assert site.asked(host) == []
    assert not [other for other in others if other in output]


def test_a_host_that_has_left_all_groups_fails_the_drift_check_with_what_to_do(site: Site) -> None:
    remedy = "declared on the node, and the inventory declares nothing: ansible-playbook mlnode.tuning.revert"
    left = {"failed": True, "msg": remedy, "verdict": "not as declared", "failures": [remedy]}
    site.host("here", {"drift": FINE})
    site.host("gone", {"drift": left}, "others")
    site.host("bare", {"drift": FINE}, "others")

    code, output = site.play(playbook="playbooks/drift.yml")

    assert (code, failed(output)) == (2, {"gone"}), output
    assert remedy in " ".join(output.split())
    [asked] = site.asked("gone")
    assert (asked["declarations"], asked["fail_at"]) == ({"node": {}, "fabric": {}}, "low")
