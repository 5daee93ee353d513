# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import nic_ethtool
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.nic.node import (
    FULL,
    NicNode,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner
from mlnode.engine import confirm
from mlnode.topology import management


@pytest.fixture(name="machine")
def _machine() -> Iterator[NicNode]:
    for folder in in_memory():
        yield NicNode.made(folder / "node")


@pytest.fixture
def nics(running: Make) -> Runner:
    return running(nic_ethtool)


def test_the_difference_has_the_nics_of_a_value_together(nics: Runner) -> None:
    done = nics.ok(name="training", **FULL)

    assert done.diff["runtime"][0].splitlines()[:2] == [
        "nic.fabric.channels = eth2, eth3: 63",
        "nic.fabric.ring.rx = eth2, eth3: 1024",
    ]


def test_the_commands_for_the_same_are_told_though_nothing_changes(machine: NicNode, nics: Runner) -> None:
    nics.ok(name="training", **FULL)
    commands = nics.ok(name="training", **FULL).result["commands"]
    assert commands[:2] == ["ethtool -L eth2 combined 4", "ethtool -G eth2 rx 2048 tx 2048"]
    assert "ip link set dev eth3 mtu 9000" in commands


def test_a_change_of_it_over_a_connection_waits_to_be_confirmed(
    machine: NicNode, nics: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(management, "connection", lambda _host: "10.0.0.9")
    armed: list[int] = []
    real = confirm.arm

    def arm(host: Any, name: str, seconds: int, *more: Any) -> Any:
        armed.append(seconds)
        return real(host, name, seconds, *more)

    monkeypatch.setattr(confirm, "arm", arm)
    monkeypatch.setattr(confirm, "_start", lambda _host, _armed: None)
    rule = {"name": "m", "nics": {"names": ["eth4"]}, "mtu": 9000}
    done = nics.ok(rules=[rule], allow=["management"], confirm_seconds=30)
    assert done.result["confirm"]["seconds"] == 30
    assert armed == [30]
    waiting = nics.msg(rules=[rule], allow=["management"])
    assert "waits to be confirmed" in waiting
    confirm.undo(machine)
    assert machine.now("/sys/class/net/eth4/mtu") == "1500"
    assert not machine.exists("/etc/mlnode/declared.d/default.json")


def test_nothing_is_armed_for_what_is_at_no_risk(
    machine: NicNode, nics: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(management, "connection", lambda _host: "10.0.0.9")
    done = nics.ok(name="training", **FULL)
    assert done.result["confirm"] == {}
    assert confirm.pending(machine) is None
