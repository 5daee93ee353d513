# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import node_audit
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner
from mlnode.checks.audit import run


@pytest.fixture
def look(running: Make, machine: Machine) -> Runner:
    machine.put("/sys/kernel/mm/transparent_hugepage/defrag", "[always] defer madvise never\n")
    machine.put("/proc/swaps", "Filename\n/dev/sda2 partition 8 0 -2\n")
    return running(node_audit)


@pytest.mark.parametrize("check", [False, True])
def test_it_tells_and_changes_nothing(machine: Machine, look: Runner, check: bool) -> None:
    before = machine.tree()
    done = look.ok(check=check)
    assert not done.changed
    assert machine.tree() == before
    assert machine.writes == []
    failures = done.result["failures"]
    assert failures[0] == (
        "high: node: thp fail: always, defrag always (expected madvise or never); "
        "set enabled and defrag to madvise: the module thp"
    )
    assert done.result["summary"]["fail"] == sum("fail:" in line for line in failures) == 2
    assert {check["name"] for check in done.result["checks"]} == {*run.NAMES}


def test_it_fails_where_that_is_asked_for(look: Runner) -> None:
    msg = look.msg(fail_on="fail")
    assert msg.startswith("node_audit: 2 of ")
    assert "\nhigh: node: thp fail" in msg
    assert "swap warn" not in msg
    # A message has eight checks.
    cpus = [name for name in run.NAMES if name.startswith("isolat")]
    assert "\nlow: node: swap warn" in look.msg(fail_on="warn", skip=cpus)
    look.ok(fail_on="fail", skip=["thp", "swappiness"])


def test_what_is_wrong_is_said(look: Runner) -> None:
    assert look.msg(skip=["thpp"]) == "node_audit: skip: 'thpp' is not a check; did you mean thp?"


def test_the_page_names_every_check() -> None:
    page = pathlib.Path(node_audit.__file__).parents[2] / "docs/checks/audit.md"
    text = page.read_text(encoding="utf-8")
    for name in run.NAMES:
        assert f"| `{name}` |" in text, name
