# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an inventory and a play of others rely on: groups of any name, their own variables, and defaults for
all modules that share an option."""

from __future__ import annotations

import itertools
import json
import pathlib
import re
from typing import Any

import pytest
import yaml
from ansible.parsing.vault import VaultLib, VaultSecret
from ansible_collections.mlnode.tuning.plugins.plugin_utils.areas import VIEWS
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT, load
from ansible_collections.mlnode.tuning.tests.unit.stub_site import FINE, Site, failed
from ansible_collections.mlnode.tuning.tests.unit.test_playbooks import ansible
from mlnode.agent.registry import options
from mlnode.engine.digests import digests
from mlnode.model import schema


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize("as_extra", [True, False], ids=["-e", "variables of all"])
def test_groups_may_have_names_of_their_own(site: Site, as_extra: bool) -> None:
    site.inventory |= {name: {"hosts": {}} for name in ("gpu", "serving", "rdma")}
    named = {"mlnode_training": "gpu", "mlnode_inference": "serving", "mlnode_fabric": "rdma"}
    extra = named if as_extra else {}
    site.everywhere = {} if as_extra else named
    site.host("trains", {"drift": FINE}, "gpu", "rdma")
    site.host("serves", {"drift": FINE}, "serving")
    site.host("usual", {"drift": FINE}, "training")

    code, output = site.play("--check", **extra)
    assert code == 0, output
    assert [asked["name"] for asked in site.asked("trains")] == ["node", "fabric"]
    assert [asked["name"] for asked in site.asked("serves")] == ["node"]
    assert site.asked("usual") == [], "a group of the usual name is another one now"

    code, output = site.play(playbook="playbooks/drift.yml", **extra)
    assert code == 0, output
    declared = {name: site.asked(name)[-1]["declarations"] for name in ("trains", "serves", "usual")}
    assert {name: [key for key in one if one[key]] for name, one in declared.items()} == {
        "trains": ["node", "fabric"],
        "serves": ["node"],
        "usual": [],
    }
    [site_asked] = [asked for asked in site.asked("serves") if asked["call"] == "declare"]
    assert declared["serves"]["node"] == site_asked["areas"], "one profile, declared and compared"

    if not as_extra:  # those of -e are in test_playbooks.py
        site.note("node_revert")
        code, output = site.play("--check", playbook="playbooks/revert.yml")
        assert code == 0, output
        reverted = {name: site.asked(name)[-1]["call"] == "mlnode.tuning.node_revert" for name in declared}
        assert reverted == {"trains": True, "serves": True, "usual": False}


def test_drift_needs_no_group(site: Site) -> None:
    """Each host is compared with what it keeps, which the inventory does not know; one that keeps nothing
    has lost it."""
    lost = {"failed": True, "msg": "nothing is declared", "verdict": "nothing is declared", "drift": []}
    site.host("tuned", {"drift": FINE}, "others")
    site.host("lost", {"drift": {**lost, "failures": ["nothing is declared"], "ignored": []}}, "others")

    code, output = site.play(playbook="playbooks/drift.yml")

    assert (code, failed(output)) == (2, {"lost"}), output
    assert [asked["declarations"] for asked in site.asked("tuned")] == [{}]


def test_the_variables_of_another_team_fail_no_play(site: Site) -> None:
    """They share the prefix, and one of them nearly a name."""
    site.everywhere = {
        "fabric_name": "east",
        "fabric_vlan": 7,
        "fabric_leaves": ["a"],
        "node_cpus": "{{ n }}",
    }
    site.host("one", {"drift": FINE}, "training", "fabric")
    for playbook in ("playbooks/site.yml", "playbooks/drift.yml"):
        code, output = site.play(playbook=playbook)
        assert code == 0, output
    assert [asked["call"] for asked in site.asked("one")] == ["declare", "declare", "drift"]


GROUPS = load("meta/runtime.yml")["action_groups"]


def play(
    site: Site, tasks: list[dict[str, Any]], words: tuple[str, ...] = ("--check",), **defaults: Any
) -> tuple[int, str]:
    playbook = site.folder / "play.yml"
    one = {"hosts": "training", "gather_facts": False, "module_defaults": defaults, "tasks": tasks}
    playbook.write_text(yaml.safe_dump([one]), encoding="utf-8")
    return site.play(*words, playbook=str(playbook))


def test_every_module_with_an_option_of_a_group_is_in_the_group() -> None:
    sources = {
        path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "plugins/modules").glob("*.py")
    }
    checks = {name for name, text in sources.items() if "- mlnode.tuning.fail_on." in text}

    assert {*GROUPS["declaring"]} == {*VIEWS, "declare"}
    assert {*GROUPS["checks"]} == checks


def test_a_default_of_a_group_reaches_modules_and_actions(site: Site) -> None:
    """Each refuses the value by name, which it had from nowhere else."""
    site.host("one", {})
    refused = {"declaring": {"on_unsupported": "sideways"}, "checks": {"fail_on": "moon"}}
    given = {"thp": {}, "declare": {}, "rdma_check": {}, "path_mtu": {"peers": ["192.0.2.1"]}}
    tasks = [{f"mlnode.tuning.{name}": one, "ignore_errors": True} for name, one in given.items()]

    code, output = play(
        site, tasks, **{f"group/mlnode.tuning.{group}": default for group, default in refused.items()}
    )

    assert code == 0, output
    assert f"ignored={len(given)}" in output, output
    for option in ("on_unsupported", "fail_on"):
        assert output.count(f"value of {option} must be one") >= 2, output


def test_a_default_of_a_group_reaches_the_roles_and_a_variable_of_a_role_counts_more(site: Site) -> None:
    site.host("one", {})
    del site.inventory["training"]["hosts"]["one"]["fabric_layers"]
    site.host("another", {}, node_on_unsupported="ignore", node_layers="{{ ['runtime', 'boot'] }}")
    roles = [
        {"ansible.builtin.include_role": {"name": f"mlnode.tuning.{name}"}}
        for name in ("training_node", "fabric")
    ]
    defaults = {"group/mlnode.tuning.declaring": {"on_unsupported": "fail", "layers": ["boot"]}}

    code, output = play(site, roles, **defaults)

    assert code == 0, output
    said = {
        name: [(asked["on_unsupported"], asked["layers"]) for asked in site.asked(name)]
        for name in ("one", "another")
    }
    assert said["one"] == [("fail", ["boot"])] * 2
    assert said["another"][0] == ("ignore", ["runtime", "boot"])
    assert "skipping: [one]" in output, "without the layer runtime the ports are not verified"


def test_a_default_of_the_checks_reaches_the_role_fabric(site: Site) -> None:
    """A variable of the role counts more, and in check mode a value that the role has of its own. That the
    module refuses a mistaken one is told above."""
    site.note("rdma_check")
    site.host("one", {}, fabric_layers=["runtime"])
    site.host(
        "another", {}, fabric_layers=["runtime"], fabric_fail_on="warn", fabric_expect={"all": {"mtu": 1}}
    )
    role = {"ansible.builtin.include_role": {"name": "mlnode.tuning.fabric"}}

    for words in ((), ("--check",)):
        code, output = play(site, [role], words, **{"group/mlnode.tuning.checks": {"fail_on": "sideways"}})
        assert code == 0, output

    looks = {
        name: [asked for asked in site.asked(name) if asked["call"] == "mlnode.tuning.rdma_check"]
        for name in ("one", "another")
    }
    assert {name: [look["fail_on"] for look in found] for name, found in looks.items()} == {
        "one": ["sideways", "never"],
        "another": ["warn", "never"],
    }
    assert [look["expect"] for look in looks["another"]] == [{"all": {"mtu": 1}}] * 2


def test_a_module_of_one_area_and_declare_take_the_default(site: Site) -> None:
    site.host("one", {})
    tasks = [
        {"mlnode.tuning.thp": {"enabled": "never"}},
        {"mlnode.tuning.declare": {"thp": {"enabled": "never"}}},
    ]

    code, output = play(
        site, tasks, **{"group/mlnode.tuning.declaring": {"name": "site", "on_unsupported": "fail"}}
    )

    assert code == 0, output
    assert [(asked["name"], asked["on_unsupported"]) for asked in site.asked("one")] == [("site", "fail")] * 2


def vaulted(folder: pathlib.Path, text: str) -> str:
    """A line of YAML with what is encrypted, and the file of the password beside it."""
    password = b"only of this test"
    (folder / "password").write_bytes(password)
    cipher = VaultLib([("default", VaultSecret(password))]).encrypt(text).decode()
    return "!vault " + json.dumps(cipher)


#: Numbers of every form that an area has, in a list, a rule, or as a value of its own
NUMBERS = {
    "node_confirm_seconds": 100,
    "node_sysctl": {"vm.swappiness": 10, "vm.max_map_count": {"at_least": 2097152}},
    "node_limits": {"nofile": 1048576, "memlock": {"login": 65536}},
    "node_cpu": {"min_perf_pct": 50, "energy_perf_bias": 6, "max_latency_us": 100},
    "node_storage": {"rules": {"disks": {"read_ahead_kb": {"at_least": 4096}}}},
    "node_nic": {"rules": {"rails": {"mtu": 9000, "rings": {"rx": 4096}, "coalesce": {"rx-usecs": 50}}}},
    "node_irq": {"rules": {"rails": {"nics": {"nodes": [0, 1]}, "rps": 32}}},
    "node_rail": {"rules": {"rails": {"arp_ignore": 1, "arp_announce": 2}}},
    "node_qos": {"rules": {"rails": {"pfc": [3], "dscp": {"26": 3}, "traffic_class": 104}}},
    "node_nccl": {"variables": {"NCCL_IB_TC": 106}},
    "node_boot": {"parameters": {"audit": 0}},
}


def test_a_vaulted_or_templated_number_is_the_number(site: Site) -> None:
    """Up to the digest, which decides whether a node is as the inventory says."""
    for name in ("plain", "other"):
        site.host(name, {})
    plain = json.dumps(NUMBERS)
    forms = itertools.cycle(
        (lambda n: vaulted(site.folder, n), '"{{{{ {} }}}}"'.format, "\"{{{{ '{}' }}}}\"".format)
    )
    other = re.sub(r"(?<=[\[ ])\d+(?=[,\]}])", lambda number: next(forms)(number[0]), plain)
    folder = site.folder / "host_vars"
    folder.mkdir()
    for name, text in (("plain", plain), ("other", other)):
        (folder / f"{name}.yml").write_text(text, encoding="utf-8")

    code, output = site.play("--check", "--vault-password-file", str(site.folder / "password"))

    assert code == 0, output
    [plain], [other] = site.asked("plain"), site.asked("other")
    assert plain["confirm_seconds"] == other["confirm_seconds"] == 100
    found = [
        digests({area: schema.checked(area, spec, options(area)) for area, spec in asked["areas"].items()})
        for asked in (plain, other)
    ]
    assert {name.removeprefix("node_") for name in NUMBERS} - {"confirm_seconds"} <= {*found[0]}
    assert found[0] == found[1]


def test_what_acts_on_the_answer_refuses_async_with_the_reason(tmp_path: pathlib.Path) -> None:
    """Before it asks the host, which is this machine."""
    rule = {"name": "a", "nics": {"names": ["no_such0"]}, "mtu": 1500}
    given = {"declare": {}, "node_drift": {}, "nic_ethtool": {"rules": [rule]}}
    tasks = [
        {f"mlnode.tuning.{name}": options, "async": 60, "poll": 0, "ignore_errors": True}
        for name, options in given.items()
    ]
    playbook = tmp_path / "play.yml"
    playbook.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))

    done = ansible("ansible-playbook", "--check", "-i", "one,", "--connection", "local", str(playbook))

    assert done.returncode == 0, done.stdout + done.stderr
    for name in given:
        assert f"{name}: async is not supported: it acts on the node's answer" in " ".join(
            done.stdout.split()
        )
