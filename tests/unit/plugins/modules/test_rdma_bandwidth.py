# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module on a simulated machine; tests/lab runs perftest itself."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.modules import rdma_bandwidth
from ansible_collections.mlnode.tuning.tests.fixtures import perftest as says
from ansible_collections.mlnode.tuning.tests.unit import rdma_bench as bench
from ansible_collections.mlnode.tuning.tests.unit.perftest_machine import Running, job
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner
from mlnode.checks.model import Verdict
from mlnode.host.system import Finished

ASKED = {"device": "mlx5_0", "peer": "gpu002"}


@pytest.fixture
def roce(tmp_path: pathlib.Path) -> Running:
    return Running(bench.node(tmp_path / "rdma", bench.roce()).root)


@pytest.fixture
def measure(running: Make, roce: Running, monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.setattr(check_module, "Host", lambda mounts: roce)
    return running(rdma_bandwidth)


def test_enough(measure: Runner) -> None:
    done = measure.ok(**ASKED)

    assert not done.changed
    assert done.result["gbits"] == 93.1
    assert done.result["summary"] == {"pass": 1}
    assert done.result["failures"] == done.warnings == []


def test_too_little_is_said_with_what_to_do(measure: Runner, roce: Running) -> None:
    roce.says("47.10")
    done = measure(**ASKED)

    assert done.rc == 1
    assert done.result["msg"] == (
        "rdma_bandwidth: 1 of 1 checks are not as expected:\n"
        "mlx5_0/1 -> gpu002: bandwidth fail: 47.1 Gb/s on CPUs 0-1 (expected at least 90 Gb/s, "
        "0.9 of 100); look at rate, pcie_link, max_read_request and relaxed_ordering of both sides "
        "(rdma_check), and at other senders"
    )
    assert done.result["summary"] == {"fail": 1}
    assert len(done.result["failures"]) == 1


def test_what_was_not_measured_fails_unless_only_failures_count(measure: Runner, roce: Running) -> None:
    roce.answer = Finished(1, "", says.ERRORS["path"])
    assert "bandwidth unknown: ib_write_bw: Failed status 12" in measure.msg(**ASKED)

    done = measure.ok(**ASKED, fail_on="fail")

    assert "gbits" not in done.result
    [warning] = done.warnings
    assert "Failed status 12" in warning
    roce.says("1.00")
    assert "bandwidth fail" in measure.msg(**ASKED, fail_on="fail")


def test_in_check_mode_nothing_is_sent(measure: Runner, roce: Running) -> None:
    done = measure.ok(check=True, **ASKED)
    assert done.result["summary"] == {"skip": 1}
    assert "gbits" not in done.result
    assert roce.commands == []


def test_a_job_is_not_disturbed(measure: Runner, roce: Running) -> None:
    job(roce)
    assert "under what runs here: pid 4711 (python3) holds /dev/nvidia0" in measure.msg(
        **ASKED, fail_on="never"
    )
    assert roce.commands == []
    assert measure.ok(**ASKED, allow=["busy"]).result["summary"] == {"pass": 1}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "missing required arguments: device"),
        ({"device": "mlx5_0"}, "rdma_bandwidth: give one of serve: true and peer: ADDRESS"),
        ({**ASKED, "serve": True}, "rdma_bandwidth: give one of serve: true and peer: ADDRESS"),
        ({**ASKED, "duration": 1}, "rdma_bandwidth: duration: 1 is not between 5 and 3600"),
        ({**ASKED, "allow": ["jobs"]}, "value of allow must be one or more of: busy"),
    ],
)
def test_what_is_wrong_is_said(measure: Runner, arguments: dict[str, Any], words: str) -> None:
    assert measure.msg(**arguments).startswith(words)


def test_the_documented_fields_are_those_it_has(measure: Runner) -> None:
    documented = yaml.safe_load(rdma_bandwidth.RETURN)
    done = measure.ok(**ASKED)

    assert {*documented} <= {*done.result}
    assert {*documented["checks"]["sample"][0]} <= {*done.result["checks"][0]}
    named = {word for word in Verdict if f"V({word})" in str(documented["checks"])}
    assert named == {*Verdict} - {Verdict.WARN, Verdict.PENDING}
