# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module on simulated paths; tests/system runs it on real ones."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import path_mtu
from ansible_collections.mlnode.tuning.tests.unit.path_machine import Path, PathMachine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner

GOOD = "10.0.0.2"
BAD = "10.0.0.7"
SILENT = "10.0.0.8"


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> PathMachine:
    machine = PathMachine(str(tmp_path))
    machine.paths = {BAD: Path(mtu=1500), SILENT: Path(mtu=0)}
    return machine


@pytest.fixture
def check(running: Make) -> Runner:
    return running(path_mtu)


@pytest.mark.parametrize("check_mode", [False, True])
def test_all_is_well(check: Runner, check_mode: bool) -> None:
    done = check.ok(check_mode, peers=[GOOD], size=9000)

    assert not done.changed
    assert done.result["summary"] == {"pass": 1}
    assert done.result["failures"] == done.warnings == []
    [of_peer] = done.result["checks"]
    assert (of_peer["target"], of_peer["verdict"]) == (GOOD, "pass")


def test_a_peer_that_fails_is_named_with_what_to_do(check: Runner) -> None:
    done = check(peers=[GOOD, BAD], size=9000)

    assert done.rc == 1
    assert not done.changed
    assert done.result["msg"] == (
        "path_mtu: 1 of 2 checks are not as expected:\n"
        "10.0.0.7: path_mtu fail: packets of 9000 bytes do not arrive, 1500 do and 2044 do not (expected "
        "packets of 9000 bytes arrive); no router reports why, so a link on the way drops them: look at the "
        "MTU of the peer's interface and of every switch port between"
    )
    assert done.result["summary"] == {"pass": 1, "fail": 1}
    assert [one["verdict"] for one in done.result["checks"]] == ["pass", "fail"]
    assert len(done.result["failures"]) == 1
