# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module on a simulated machine; tests/system runs nodes that look at each other."""

from __future__ import annotations

import re

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.modules import node_preflight
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner
from mlnode.checks.model import Check, Verdict
from mlnode.checks.preflight import run

SOCKSTAT = "sockets: used 9\nTCP: inuse 4 orphan 0 tw {} alloc 7 mem 1\n"


@pytest.fixture
def look(running: Make, machine: Machine) -> Runner:
    machine.put("/proc/net/snmp", "Tcp: OutSegs RetransSegs\nTcp: 9 0\n")
    machine.put("/proc/sys/kernel/random/boot_id", "first\n")
    machine.put("/proc/uptime", "100.00 5.00\n")
    machine.put("/proc/net/sockstat", SOCKSTAT.format(10_001))
    return running(node_preflight)


@pytest.mark.parametrize("check_mode", [False, True])
def test_what_fails_is_named_with_its_remedy_and_nothing_is_changed(
    look: Runner, machine: Machine, check_mode: bool
) -> None:
    done = look(check_mode)

    assert (done.rc, done.changed) == (1, False)
    assert re.search(r"node: time_wait fail: 10001 .*tcp_tw_reuse", done.result["msg"])
    assert done.result["summary"]["fail"] == 1
    assert 0 <= done.result["seconds"] < run.LIMIT
    # In check mode nothing is kept for the next look.
    assert machine.exists("/run/mlnode/preflight-0.json") == (not check_mode)
    assert look.ok(fail_on="never").result["summary"]["fail"] == 1


def test_the_documented_fields_are_those_it_has(look: Runner) -> None:
    checks = yaml.safe_load(node_preflight.RETURN)["checks"]
    _all, name, _target, verdict = checks["description"]
    assert {*checks["sample"][0]} <= {*Check("", "", Verdict.PASS, "", "", "").document()}
    assert all(f"V({word})" in verdict for word in Verdict)
    names = {check["name"] for check in look.ok(fail_on="never").result["checks"]}
    documented = {*re.findall(r"C\((\w+)\)", name)}
    # Without a peer, sizes have no name of their own.
    assert names - {"path_mtu"} <= documented
