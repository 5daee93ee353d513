# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an apply says of settings that others override, and what of it counts."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.limits_machine import LimitsMachine
from mlnode.agent import counted_drift, drift, waivers
from mlnode.engine.engine import Request
from mlnode.engine.kind import Kind
from mlnode.knobs.limits.kind import kind as limits
from mlnode.knobs.sysctl.kind import kind as sysctl

LATE = "/etc/sysctl.d/zzz.conf"
DROP_IN = "/etc/systemd/system/slurmd.service.d/zzz.conf"
FILTER = "net.ipv4.conf.all.rp_filter"  # of high severity, where vm.swappiness is of medium
SETTINGS = {"settings": {"vm.swappiness": 1, FILTER: 2}}


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> LimitsMachine:
    """Somebody else's files lower a limit of one service, and two values at the next boot."""
    found = LimitsMachine.node(str(tmp_path / "node"))
    found.enable_agent()
    found.unit("slurmd")
    found.put(DROP_IN, "[Service]\nLimitMEMLOCK=65536\n")
    found.put(LATE, f"# theirs\nvm.swappiness = 30\n{FILTER} = 1\n")
    return found


def applied(machine: LimitsMachine, kind: Kind, spec: dict[str, Any]) -> list[dict[str, Any]]:
    """As a module returns them."""
    return [row.document() for row in door.apply(machine, Request("training", kind, kind.checked(spec))).rows]


def test_a_run_names_file_and_line_of_what_is_in_its_way(machine: LimitsMachine) -> None:
    settings = applied(machine, sysctl, SETTINGS)
    settings += applied(machine, limits, {"memlock": "unlimited", "defaults": False})
    found = counted_drift.judge(settings, [], "high")
    assert len(found.failures) == 2
    for line, key, place in zip(
        found.failures, (FILTER, "limits.services.memlock"), (f"{LATE}:3", f"{DROP_IN}:2")
    ):
        assert line.startswith(f"{key}: overridden")
        assert f"boot: {place} sets" in line
    assert len(counted_drift.judge(settings, [], "low").failures) == 3
    assert counted_drift.judge(settings, [], "never").failures == []
    assert len(found.drift) == 3, "whatever the severity"


def test_a_run_and_a_look_for_drift_judge_alike(machine: LimitsMachine) -> None:
    settings = applied(machine, sysctl, SETTINGS)
    known = [{"key": "vm.*", "reason": "OPS-1", "until": "2099-12-31"}]
    found = counted_drift.judge(settings, waivers.parse(known), "low")
    looked = drift.report(machine, {"fail_at": "low", "ignore": known, "declarations": {}})
    assert (looked["failures"], looked["drift"]) == ([*found.failures], [*found.drift])
    assert len(found.failures) == 1
    assert [*found.ignored] == ["vm.swappiness"]
