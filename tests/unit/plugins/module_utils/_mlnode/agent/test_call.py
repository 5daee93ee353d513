# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a controller asks the agent. What is answered is tested in test_declare and with drift."""

from __future__ import annotations

import io
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import archive as agent_zip
from mlnode.agent import call, cli, drift, node
from mlnode.agent import install as agent
from mlnode.engine import engine, lock
from mlnode.knobs.thp.kind import kind as thp
from mlnode.model.errors import MlnodeError

OPTIONS: dict[str, Any] = {"fail_at": "low", "ignore": [], "declarations": {}}


def question(**other: Any) -> str:
    said = agent_zip.uncompiled(agent._files())[1]
    return json.dumps(
        {"size": said.size, "sha256": said.sha256, "call": "drift", "options": OPTIONS, **other}
    )


def ask(path: pathlib.Path, text: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(path), "call"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)


def said(done: subprocess.CompletedProcess[str]) -> Any:
    begun, _line, text = done.stdout.rpartition(call.MARK)
    assert begun in ("", f"{call.BEGUN}\n")
    return json.loads(text)


@pytest.fixture
def installed(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "mlnode"
    path.write_bytes(agent.build("/whatever/python"))
    return path


def test_the_agent_answers_whoever_has_the_same_sources(installed: pathlib.Path) -> None:
    done = ask(installed, question())

    assert (done.returncode, done.stderr) == (0, "")
    # Of this very machine, whatever is declared on it.
    assert {"compliant", "verdict", "settings", "digests"} <= {*said(done)["answer"]}


def test_it_says_that_it_has_begun_before_it_does_anything(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(call, "_digest", lambda size: agent_zip.uncompiled(agent._files())[1].sha256)
    monkeypatch.setitem(call.CALLS, "drift", lambda _host, _options: done.append("asked") or {})

    call.answer(machine, question(), begin=lambda: done.append("begun"))
    assert done == ["begun", "asked"]
    call.answer(machine, question(sha256="0" * 64), begin=lambda: done.append("begun"))
    assert done == ["begun", "asked"], "another agent does nothing"


def test_an_answer_that_nobody_takes_is_left_for_the_next_run(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call, "_digest", lambda size: agent_zip.uncompiled(agent._files())[1].sha256)
    monkeypatch.setitem(call.CALLS, "declare", lambda _host, _options: {"changed": True})
    monkeypatch.setattr(cli, "Host", lambda *_arguments: machine)
    asked = question(call="declare", options={"name": "node", "check": False})
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(asked.encode())))
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as gone:
        monkeypatch.setattr("sys.stdout", gone)
        assert cli.main(["call"]) == cli.OK

    assert [(note.name, note.end) for note in lock.read_notes(machine)] == [("node", lock.UNHEARD)]


def test_an_agent_that_is_replaced_while_it_runs_says_so(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def torn(*_arguments: Any) -> None:
        raise ImportError("bad local file header")

    monkeypatch.setattr(node, "survey", torn)

    assert cli.main(["check", "--root", machine.root]) == cli.ERROR
    assert capsys.readouterr().err == (
        "mlnode: bad local file header: was mlnode replaced while it ran? Run it again\n"
    )


def test_it_does_not_look_for_one_with_others(installed: pathlib.Path) -> None:
    done = ask(installed, question(sha256="0" * 64))

    assert (done.returncode, said(done)) == (0, {"other": True})


def test_it_notices_that_its_own_have_been_changed(installed: pathlib.Path) -> None:
    installed.write_bytes(installed.read_bytes().replace(b"nothing to put back", b"nothing to put BACK", 1))

    assert said(ask(installed, question())) == {"other": True}


ILL_FORMED = {
    "nothing": "",
    "no JSON": "no JSON",
    "no UTF-8": b'{"size": "\xff"}',
    "a list": "[]",
    "an empty one": "{}",
    "null": "null",
    "half of a character": '{"size": 1, "sha256": "\\ud800", "call": "drift", "options": {}}',
    "deep": "[" * 100_000,
    "a size that is a text": '{"size": "x", "sha256": "", "call": "drift", "options": {}}',
    "a size below 0": '{"size": -1, "sha256": "", "call": "drift", "options": {}}',
    "an endless size": f'{{"size": {"9" * 5000}, "sha256": "", "call": "drift", "options": {{}}}}',
    "a size that is a switch": '{"size": true, "sha256": "", "call": "drift", "options": {}}',
    "a call that is unknown": '{"size": 0, "sha256": "", "call": "reboot", "options": {}}',
    "options that are a list": '{"size": 1, "sha256": "", "call": "drift", "options": []}',
}


@pytest.mark.parametrize("text", ILL_FORMED.values(), ids=ILL_FORMED)
def test_what_is_no_question_is_an_error(text: str | bytes, machine: Machine) -> None:
    with pytest.raises(MlnodeError, match="not a question of a controller: "):
        call.answer(machine, text)


@cases.table
def test_options_that_the_module_would_not_take_are_an_error(
    options: dict[str, Any], machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {**OPTIONS, **options} if options else {}
    assert call.answer(machine, question(options=given)) == {"other": True}, "of another version, in any form"
    monkeypatch.setattr(call, "_digest", lambda size: agent_zip.uncompiled(agent._files())[1].sha256)
    with pytest.raises(MlnodeError, match="not a question of a controller: "):
        call.answer(machine, question(options=given))


def test_the_agent_says_so_in_one_line(installed: pathlib.Path) -> None:
    done = ask(installed, "no JSON")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("mlnode: not a question of a controller: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_wrong_option_is_an_answer(machine: Machine) -> None:
    wrong = {**OPTIONS, "ignore": [{"key": "vm.*", "reason": "", "until": "2026-01-31"}]}

    answer = drift.answer(machine, wrong)

    assert answer["failed"] is True
    assert answer["msg"].startswith("drift: ignore, exception 1 (vm.*): reason is empty")
    answer = drift.answer(machine, {**OPTIONS, "declarations": {"node": {"thp": 1}}})
    assert (answer["failed"], answer["msg"]) == (True, "drift: thp: must be a dictionary, got 1")


def test_the_answer_is_that_of_the_module(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.enable_agent()
    door.apply(machine, engine.Request("default", thp, {"enabled": "madvise"}))
    monkeypatch.setattr(call, "_digest", lambda size: agent_zip.uncompiled(agent._files())[1].sha256)

    answer = call.answer(machine, question())["answer"]

    assert answer == drift.answer(machine, OPTIONS)
    assert answer["verdict"] == "as declared: 2 ok"


def test_no_other_process_takes_itself_for_an_agent(machine: Machine) -> None:
    assert call.answer(machine, question()) == {"other": True}


def test_a_machine_is_looked_at_and_no_captured_tree(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["call", "--root", machine.root])
    assert ended.value.code == cli.USAGE
    assert "unrecognized arguments: --root" in capsys.readouterr().err
