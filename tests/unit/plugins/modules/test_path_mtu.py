# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module on simulated paths; tests/system runs it on real ones."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.modules import path_mtu
from ansible_collections.mlnode.tuning.tests.unit.path_machine import Path, PathMachine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner
from mlnode.checks.model import Verdict

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


def test_a_silent_peer_fails_unless_only_failures_count(check: Runner) -> None:
    assert "10.0.0.8: path_mtu unknown: no answer" in check.msg(peers=[GOOD, SILENT], size=9000)

    done = check.ok(peers=[GOOD, SILENT], size=9000, fail_on="fail")

    assert done.result["summary"] == {"pass": 1, "unknown": 1}
    [warning] = done.warnings
    assert warning.startswith("10.0.0.8: path_mtu unknown: no answer")
    assert BAD in check.msg(peers=[BAD, SILENT], size=9000, fail_on="fail")


def test_a_node_without_ping_proves_nothing(check: Runner, machine: PathMachine) -> None:
    machine.missing.add("ping")

    assert "iputils-ping" in check.msg(peers=[GOOD])


def test_never_is_for_those_who_read_on(check: Runner) -> None:
    done = check.ok(peers=[BAD, SILENT, "gpu.invalid"], size=9000, fail_on="never")

    assert done.result["summary"] == {"fail": 1, "unknown": 2}
    assert len(done.result["failures"]) == 3
    assert done.warnings == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "missing required arguments: peers"),
        ({"peers": []}, "path_mtu: peers: name at least one"),
        ({"peers": ["10.0.0"]}, "path_mtu: peers[0].address: '10.0.0' is not an IPv4 address"),
        ({"peers": [{"addres": BAD}]}, "path_mtu: peers[0].addres: unknown"),
        ({"peers": [BAD], "size": 100}, "path_mtu: size: 100 is not between 576 and 65535"),
        ({"peers": [BAD], "tries": 0}, "path_mtu: tries: 0"),
        ({"peers": [BAD], "timeout": 0}, "path_mtu: timeout: 0.0"),
    ],
)
def test_what_is_wrong_is_said(check: Runner, arguments: dict[str, Any], words: str) -> None:
    assert check.msg(**arguments).startswith(words)


def test_the_documented_fields_are_those_it_has(check: Runner) -> None:
    documented = yaml.safe_load(path_mtu.RETURN)
    done = check.ok(peers=[BAD], size=9000, fail_on="never")

    assert {*documented} <= {*done.result}
    assert {*documented["checks"]["sample"][0]} <= {*done.result["checks"][0]}
    assert {word for word in Verdict if f"V({word})" in str(documented["checks"])} == {
        *(Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.UNKNOWN)
    }
