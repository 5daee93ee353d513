# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os
import pathlib
import subprocess
import sys
import time

import pytest
from mlnode.host import child
from mlnode.host.child import Answer
from mlnode.model.errors import HostError

#: Seconds that no work here needs, unless it stalls
LONG = 60.0


def fails() -> object:
    raise HostError("read", "/x", errno.ESRCH)


def stalls() -> object:
    time.sleep(LONG)
    return None


def dies() -> object:
    os._exit(3)


def test_works_are_answered_in_their_order() -> None:
    works = [lambda: {"a": ["\x1b", "\u202e", "\udcff", None]}, os.getpid, fails]
    value, pid, failed = child.answers(works, LONG, LONG)
    assert value == Answer({"a": ["\x1b", "\u202e", "\udcff", None]})
    assert pid.value != os.getpid()
    assert failed == Answer(None, "cannot read /x: ESRCH (No such process)", errno.ESRCH)
    assert child.answers([], LONG, LONG) == []


def test_a_work_that_stalls_is_unknown_and_another_child_does_the_rest() -> None:
    works = [lambda: 1, stalls, lambda: 3, dies, lambda: 5]
    first, late, third, dead, last = child.answers(works, 0.5, LONG)
    assert (first, third, last) == (Answer(1), Answer(3), Answer(5))
    assert late.unknown == "no answer in 0.5 s"
    assert dead.unknown == "the process that reads it ended early"


def test_all_works_have_a_limit_together() -> None:
    found = child.answers([stalls] * 50, 0.2, 0.5)
    assert len(found) == 50
    assert {answer.value for answer in found} == {None}
    assert found[-1].unknown == "not read, as others took 0 s"


def test_an_answer_that_is_too_long_is_unknown() -> None:
    long, short = child.answers([lambda: "x" * (2 << 20), lambda: 1], LONG, LONG)
    assert long.unknown.startswith("expected at most 1048576 bytes, got ")
    assert short == Answer(1)


def test_an_error_of_a_program_ends_the_child_alone() -> None:
    def wrong() -> object:
        raise ValueError

    first, second = child.answers([wrong, lambda: 2], LONG, LONG)
    assert first.unknown == "the process that reads it ended early"
    assert second == Answer(2)


def test_no_child_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    # A busy machine takes its time to end a process.
    monkeypatch.setattr(child, "_LAST_SECONDS", LONG)
    started = []
    leave = child._leave

    def noted(process: child._Child) -> None:
        started.append(process.pid)
        leave(process)

    monkeypatch.setattr(child, "_leave", noted)
    child.answers([lambda: 1, stalls], 0.2, LONG)
    assert started
    for pid in started:  # other tests may have left children of theirs
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


_HOLDING = """
import os, sys, time
from _mlnode.host import child
child._leave = lambda started: os.close(started.reader)  # as if SIGKILL did not end it
def stalls():
    open(sys.argv[1], "w").write(str(os.getpid()))
    time.sleep(60)
print(child.answers([stalls], 5, 60)[0].unknown, flush=True)
"""


def test_a_child_that_not_even_sigkill_ends_holds_no_file_of_its_parent(tmp_path: pathlib.Path) -> None:
    """The reader of the parent's output would wait for the child, as ssh does."""
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(child.__file__).parents[2])}
    number = tmp_path / "pid"
    try:
        done = subprocess.run(
            [sys.executable, "-c", _HOLDING, str(number)],
            env=environment, capture_output=True, text=True, check=False, timeout=30,
        )  # fmt: skip
        assert done.stdout == "no answer in 5 s\n", done.stderr
        assert os.path.exists(f"/proc/{number.read_text()}")
    finally:
        os.kill(int(number.read_text()), 9)
