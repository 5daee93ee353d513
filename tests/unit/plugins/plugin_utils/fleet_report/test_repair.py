# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report import finding as findings
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report import repair
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.fleet_report import fleets

ROOT = pathlib.Path(__file__).parents[5]


def finding(item: dict[str, Any], module: str = "node_drift") -> findings.Finding:
    [found] = findings.findings({"checks" if "verdict" in item else "settings": [item]}, module)
    return found


SITE = "ansible-playbook mlnode.tuning.site"


@pytest.mark.parametrize(
    ("item", "module", "expected"),
    [
        (fleets.drifted(), "declare", f"{SITE} --limit n1 --tags sysctl"),
        (fleets.drifted(kind="agent", key="agent.boot"), "declare", f"{SITE} --limit n1"),
        (
            fleets.drifted(kind="boot", status="pending_reboot"),
            "declare",
            f"{SITE} --limit n1 -e node_reboot=true",
        ),
        (fleets.drifted(status="overridden"), "declare", "ansible n1 -b -a 'mlnode explain vm.swappiness'"),
        (fleets.drifted(status="unknown"), "declare", "ansible n1 -b -a 'mlnode explain vm.swappiness'"),
        (
            fleets.check(),
            "rdma_check",
            "ansible-playbook mlnode.tuning.fabric_check --limit n1  # after the advice",
        ),
        (fleets.check(), "node_audit", "ansible n1 -b -m mlnode.tuning.node_audit  # after the advice"),
        # Nothing to repair, or nothing that is known
        (fleets.setting(), "declare", ""),
        (fleets.drifted(ignored="until then"), "declare", ""),
        (fleets.drifted(kind="x; reboot"), "declare", ""),
        (fleets.drifted("a'; reboot; '", status="overridden"), "declare", ""),
        (fleets.drifted("--help", status="overridden"), "declare", ""),
    ],
)
def test_a_finding_has_its_command(item: dict[str, Any], module: str, expected: str) -> None:
    assert repair.together([finding(item, module)], ["n1"], 5) == expected


@pytest.mark.parametrize(
    ("names", "total", "expected"),
    [
        (["n1", "n2"], 2, f"{SITE} --tags sysctl"),
        (["n1", "n2"], 3, f"{SITE} --limit n1,n2 --tags sysctl"),
        ([f"n{at}" for at in range(13)], 99, f"{SITE} --tags sysctl"),
        (["n1", "a b; reboot"], 9, f"{SITE} --tags sysctl"),
        (["-e"], 9, f"{SITE} --tags sysctl"),
    ],
)
def test_hosts_are_named_where_they_are_few(names: list[str], total: int, expected: str) -> None:
    assert repair.together([finding(fleets.drifted())], names, total) == expected


def test_what_is_run_is_there() -> None:
    for name in ("site", *repair.PLAYBOOKS.values()):
        assert (ROOT / f"playbooks/{name}.yml").is_file()


def test_what_one_run_repairs_has_one_command() -> None:
    several = [finding(fleets.drifted()), finding(fleets.drifted("thp.enabled", kind="thp"))]
    overridden = finding(fleets.drifted(status="overridden"))

    assert repair.together(several, ["n1"], 5) == f"{SITE} --limit n1"
    assert repair.together([*several, overridden], ["n1"], 5) == ""
    assert repair.together([overridden, overridden], ["n1"], 5).startswith("ansible n1 -b -a 'mlnode explain")
