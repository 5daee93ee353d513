# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`mlnode preflight`: what a scheduler and a person get of the checks of one node."""

from __future__ import annotations

import json
from typing import Sequence

import pytest
from mlnode.agent import cli, verdicts
from mlnode.checks.model import Check, Verdict
from mlnode.checks.preflight import run
from mlnode.host.host import Host


def check(verdict: Verdict, found: str = "found", name: str = "drift") -> Check:
    return Check(name, "node", verdict, "as declared", found, "mlnode check", "do this")


FAIL, UNKNOWN, WARN, PASS, SKIP = map(
    check, (Verdict.FAIL, Verdict.UNKNOWN, Verdict.WARN, Verdict.PASS, Verdict.SKIP)
)


def found(monkeypatch: pytest.MonkeyPatch, *checks: Check) -> None:
    def all_checks(_host: object, request: run.Request, _writable: bool) -> Sequence[Check]:
        assert request.peers == ()
        return checks

    monkeypatch.setattr(run, "all_checks", all_checks)


@pytest.mark.parametrize(
    ("checks", "status"),
    [
        ((PASS, SKIP), cli.OK),
        ((PASS, WARN), cli.OK),
        ((PASS, UNKNOWN), cli.ERROR),
        ((SKIP,), cli.ERROR),
        ((), cli.ERROR),
        ((UNKNOWN, PASS, FAIL), cli.DRIFT),
    ],
)
@pytest.mark.parametrize("form", [(), ("--brief",), ("--json",)])
def test_exit_status(
    monkeypatch: pytest.MonkeyPatch, checks: Sequence[Check], status: int, form: Sequence[str]
) -> None:
    found(monkeypatch, *checks)
    assert cli.main(["preflight", *form]) == status


def test_the_worst_is_first(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found(monkeypatch, SKIP, PASS, WARN, UNKNOWN, FAIL)
    cli.main(["preflight"])

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:6]] == ["fail", "unknown", "warn", "pass", "skip"]
    assert lines[1].endswith("node: found; do this")
    assert lines[-1] == "5 checks: 1 fail, 1 pass, 1 skip, 1 unknown, 1 warn"


@pytest.mark.parametrize(
    ("checks", "line"),
    [
        ((PASS, SKIP), "1 pass, 1 skip"),
        ((WARN, PASS, FAIL), "fail: drift, node: found (and 1 more)"),
        ((PASS, UNKNOWN), "unknown: drift, node: found"),
    ],
)
def test_brief(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], checks: Sequence[Check], line: str
) -> None:
    found(monkeypatch, *checks)
    cli.main(["preflight", "--brief"])
    assert capsys.readouterr().out == f"{line}\n"


def test_brief_is_one_short_line_whatever_a_node_says() -> None:
    line = verdicts.brief([check(Verdict.FAIL, "a\n\x1b[31m" + "x" * 5000), FAIL])

    assert len(line) == verdicts.BRIEF
    assert line.isprintable()
    assert line.endswith("x... (and 1 more)")


def test_this_machine(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Host, "is_superuser", lambda _host: False)  # nothing is kept for the next look
    status = cli.main(["preflight", "--json"])

    document = json.loads(capsys.readouterr().out)
    names = {one["name"] for one in document["checks"]}
    assert {"clock_sync", "jobs", "drift", "rdma_check", "path_mtu", "tcp_connect"} <= names
    assert sum(document["summary"].values()) == len(document["checks"])
    assert (status == cli.DRIFT) == ("fail" in document["summary"])
