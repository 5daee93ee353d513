# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import build
from ansible_collections.mlnode.tuning.tests.unit.machine import THP, Machine
from mlnode.agent import cli
from mlnode.checks.audit import run as audit

from .test_cli import schema

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def root(tmp_path: pathlib.Path) -> str:
    machine = Machine.debian(str(tmp_path / "node"))
    machine.put(f"{THP}/defrag", "[always] defer defer+madvise madvise never\n")
    return machine.root


def test_a_severe_finding_is_an_exit_status(root: str, capsys: Capture) -> None:
    assert cli.main(["audit", "--root", root]) == cli.DRIFT
    assert capsys.readouterr().out.startswith(
        "HIGH      thp, node: always, defrag always (expected madvise or never)\n"
    )
    Machine(root).put(f"{THP}/enabled", "always [madvise] never\n")
    assert cli.main(["audit", "--root", root]) == cli.OK


def test_json_has_all_checks(root: str, capsys: Capture) -> None:
    assert cli.main(["audit", "--json", "--root", root]) == cli.DRIFT
    found = json.loads(capsys.readouterr().out)
    assert [*found] == ["format", "mlnode", "checks", "summary"]
    assert {check["name"] for check in found["checks"]} == {*audit.NAMES}
    assert sum(found["summary"].values()) == len(found["checks"])


@pytest.mark.parametrize("name", ["hgx", "epyc256"])
def test_the_json_of_a_machine_is_what_its_schema_says(name: str, capsys: Capture) -> None:
    cli.main(["audit", "--json", "--root", build.tree(name)])
    document = json.loads(capsys.readouterr().out)
    schema("audit").validate(document)
    assert {"pass", "skip"} < {check["verdict"] for check in document["checks"]}
