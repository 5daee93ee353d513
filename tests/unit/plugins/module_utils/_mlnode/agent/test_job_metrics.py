# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running jobs as metrics: how many series, and no success for a look that did not see all."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import nodes
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.agent.test_metrics import (
    apply,
    series,
)
from mlnode.agent import inspections, job_metrics, metrics
from mlnode.checks.model import Verdict

PLACE = {"processes": [{"pid": 7}, {"pid": 8}]}


def check(name: str, verdict: str) -> dict[str, str]:
    return {"name": name, "verdict": verdict}


@pytest.fixture
def node(tmp_path: pathlib.Path) -> nodes.Node:
    node = nodes.made(nodes.CASES["metrics"], tmp_path / "node")
    nodes.install(node)
    return node


def exported(
    node: nodes.Node, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], jobs: bool = True
) -> dict[str, float]:
    """Series about jobs."""
    apply(node, metrics={"textfile_directory": "auto", "jobs": jobs})
    monkeypatch.setattr(inspections, "answer", lambda *_given: answer)
    node.forget()
    found = series(metrics.look(node).text)
    return {name: value for name, value in found.items() if name.startswith("mlnode_job_")}


def test_jobs_are_looked_at_if_they_are_declared(node: nodes.Node, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = [check("job_limit", "fail"), check("job_limit", "unknown"), check("job_shm", "pass")]
    answer = {"places": [PLACE, PLACE], "checks": checks}

    assert exported(node, monkeypatch, answer, jobs=False) == {}
    found = exported(node, monkeypatch, answer)

    assert found.pop("mlnode_job_look_duration_seconds") >= 0
    assert found == {
        "mlnode_job_places": 2,
        "mlnode_job_processes": 4,
        'mlnode_job_checks{verdict="pass"}': 1,
        'mlnode_job_checks{verdict="warn"}': 0,
        'mlnode_job_checks{verdict="fail"}': 1,
        'mlnode_job_checks{verdict="pending"}': 0,
        'mlnode_job_checks{verdict="skip"}': 0,
        'mlnode_job_checks{verdict="unknown"}': 1,
        'mlnode_job_deviation_info{check="job_limit",verdict="fail"}': 1,
        "mlnode_job_unlisted_deviations": 0,
        "mlnode_job_look_success": 0,
    }


@pytest.mark.parametrize(
    ("answer", "success"),
    [
        ({"places": [], "checks": []}, 1),
        ({"places": [PLACE], "checks": [check("job_limit", "fail")]}, 1),
        ({"places": [PLACE], "checks": [check("job_limit", "unknown")]}, 0),
        ({"failed": True, "msg": "node_job: cannot read /proc: Permission denied"}, 0),
    ],
)
def test_a_look_that_did_not_see_all_is_no_success(
    node: nodes.Node, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], success: int
) -> None:
    assert exported(node, monkeypatch, answer)["mlnode_job_look_success"] == success


def test_no_more_series_than_the_budget(node: nodes.Node, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"job_{number}" for number in range(30)]
    checks = [check(name, str(verdict)) for name in names for verdict in Verdict]

    found = exported(node, monkeypatch, {"places": [PLACE] * 500, "checks": checks})

    assert len(found) <= job_metrics.SERIES
    assert found["mlnode_job_unlisted_deviations"] == len(names) - job_metrics.LISTED


def test_a_deviation_of_high_rank_is_listed_first(node: nodes.Node, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = [check(f"job_{number}", "warn") for number in range(30)]
    found = exported(node, monkeypatch, {"places": [PLACE], "checks": [*checks, check("job_z", "fail")]})
    assert 'mlnode_job_deviation_info{check="job_z",verdict="fail"}' in found
