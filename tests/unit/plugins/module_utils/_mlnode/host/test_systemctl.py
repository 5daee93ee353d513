# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd without an answer in its time is no job that has failed."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Callable, Sequence

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.engine import handlers, lock, transaction
from mlnode.engine.origin import Origin
from mlnode.engine.steps import FileWrite
from mlnode.host import systemctl
from mlnode.host.system import Finished
from mlnode.model.errors import HostError, TransactionError, UnansweredError

UNIT = "mlnode-check.timer"


class Starved(Machine):
    """answers: to each command, in their order; None where it takes too long."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.answers: list[str | None] = []
        self.asked: list[str] = []

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        self.asked.append(command[1])
        answer = self.answers.pop(0) if self.answers else None
        if answer is None:
            raise UnansweredError("run", command[0], None, f"no answer in {seconds:.0f} s")
        return Finished(1 if answer.startswith("Job failed") else 0, answer, answer)


@pytest.fixture
def host(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Starved:
    # Each look at the clock is 20 s after the one before.
    clock = itertools.count(0, 20)
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    return Starved(str(tmp_path))


def shown(active: str, job: str = "", result: str = "success") -> str:
    return f"ActiveState={active}\nJob={job}\nResult={result}\n"


@cases.table
def test_the_unit_says_what_became_of_it(
    host: Starved, verb: str, answers: list[str | None], asked: list[str]
) -> None:
    host.answers = answers
    systemctl.job(host, verb, UNIT, "start the timer:")
    assert host.asked == asked


@cases.table
def test_a_job_that_has_failed_is_a_failure(host: Starved, answers: list[str | None], words: str) -> None:
    host.answers = answers
    with pytest.raises(HostError) as caught:
        systemctl.job(host, "start", UNIT, "start the timer:")
    assert words in str(caught.value)
    assert not isinstance(caught.value, UnansweredError)


@pytest.mark.parametrize(
    "ask",
    [lambda host: systemctl.job(host, "start", UNIT, "x:"), lambda host: systemctl.reload(host, "x:")],
    ids=["job", "reload"],
)
def test_without_any_answer_it_ends_and_says_that_it_does_not_know(
    host: Starved, ask: Callable[[Starved], None]
) -> None:
    with pytest.raises(UnansweredError):
        ask(host)


def test_an_unknown_end_undoes_nothing_and_is_reported(
    host: Starved, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/etc/mlnode/irqbalance-policy"
    step = FileWrite(path, path, b"new\n", notify="units")

    def silent(_host: Machine) -> None:
        raise UnansweredError("ask", "systemctl", None, "no answer in 360 s")

    monkeypatch.setattr(handlers, "HANDLERS", {"units": silent})
    with lock.locked(host):
        transaction.run(host, Origin.load(host), [step])
        assert host.read(path) == "new\n"
        [note] = lock.take_notes(host)
    assert "no answer in 360 s" in note

    def failed(_host: Machine) -> None:
        raise HostError("ask", "systemctl", None, "Job failed")

    monkeypatch.setattr(handlers, "HANDLERS", {"units": failed})
    with lock.locked(host), pytest.raises(TransactionError, match="Job failed"):
        transaction.run(host, Origin.load(host), [step._replace(content=b"newer\n", before=b"new\n")])
    assert host.read(path) == "new\n"
