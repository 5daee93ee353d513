# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module on whole nodes; what each check says is tested beside the library."""

from __future__ import annotations

import os
import pathlib
import re
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.modules import rdma_check
from ansible_collections.mlnode.tuning.tests.fixtures import fabric
from ansible_collections.mlnode.tuning.tests.fixtures.build import build, tree
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner
from ansible_collections.mlnode.tuning.tests.unit.rail_machine import CapturedWithIp
from mlnode.checks import expect, rdma_limits
from mlnode.checks.model import Verdict
from mlnode.checks.rdma import run

BASELINE = "/var/lib/mlnode/rdma-baseline.json"


@pytest.fixture
def check(running: Make, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """On the sick node, whose tree is shared and only to be read."""
    monkeypatch.setattr(check_module, "Host", lambda mounts: ReadOnly(tree("sick"), mounts))
    return running(rdma_check)


class ReadOnly(CapturedWithIp):
    def is_superuser(self) -> bool:
        return False


def test_what_fails_is_named_with_what_to_do(check: Runner) -> None:
    done = check(expect=fabric.EXPECT["sick"])

    assert done.rc == 1
    assert not done.changed
    title, *lines = done.result["msg"].splitlines()
    assert title.startswith("rdma_check: 8 of ")
    assert len(lines) == 8
    assert any(
        line.startswith("mlx5_3/1: rate fail: 200 Gb/sec (2X NDR) (expected 400 Gb/s (NDR)); ")
        for line in lines
    )
    assert done.result["summary"]["fail"] == 8
    assert len(done.result["failures"]) == 11
    assert all(" fail: " in line for line in done.result["failures"][:8])
    assert all(" warn: " in line for line in done.result["failures"][8:])


def test_a_healthy_node(check: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_module, "Host", lambda mounts: ReadOnly(tree("roce8"), mounts))
    done = check.ok(expect=fabric.EXPECT["roce8"], fail_on="warn")
    assert done.result["failures"] == done.warnings == []
    assert {*done.result["summary"]} == {"pass", "skip"}


def test_the_baseline_is_kept_by_root_and_not_in_check_mode(
    check: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    machine = Machine(build(fabric.roce8(), str(tmp_path / "fabric")))
    machine.remove(BASELINE)
    monkeypatch.setattr(check_module, "Host", lambda mounts: machine)
    before = machine.tree()

    def verdict(**options: Any) -> str:
        machine.forget()
        done = check.ok(expect=fabric.EXPECT["roce8"], **options)
        assert not done.changed
        [flap] = [
            one for one in done.result["checks"] if (one["name"], one["target"]) == ("flap", "mlx5_0/1")
        ]
        return str(flap["verdict"])

    assert verdict(check=True) == "skip"
    machine.superuser = False
    assert verdict() == "skip"
    assert machine.tree() == before
    machine.superuser = True
    assert verdict() == "skip"
    assert {*machine.tree()} - {*before} - {os.path.dirname(BASELINE)} == {BASELINE}
    assert verdict() == verdict(check=True) == "pass"
    assert verdict(baseline="reset") == "skip"


def test_the_documented_fields_are_those_it_has(check: Runner) -> None:
    documented = yaml.safe_load(rdma_check.RETURN)
    done = check.ok(expect=fabric.EXPECT["sick"], fail_on="never")
    assert {*documented} <= {*done.result}
    fields = {name: None for one in done.result["checks"] for name in one}
    assert [*documented["checks"]["contains"]] == [*fields]
    assert {word for word in Verdict if f"V({word})" in str(documented["checks"])} == {*Verdict}


def test_the_examples_are_declarations() -> None:
    for task in yaml.safe_load(rdma_check.EXAMPLES):
        expect.parse(task["mlnode.tuning.rdma_check"].get("expect"))


def test_the_page_names_every_check_key_and_counter() -> None:
    page = (pathlib.Path(rdma_check.__file__).parents[2] / "docs/checks/rdma_check.md").read_text(
        encoding="utf-8"
    )
    for name in (*run.NAMES, *expect.PORT_KEYS, *expect.NODE_KEYS):
        assert f"`{name}`" in page, name
    for counter in rdma_limits.COUNTERS:
        written = re.sub("(?<=prio)[0-7]|(?<=priority_)[0-7]", "N", counter.name)
        assert f"`{written}`" in page, counter.name
