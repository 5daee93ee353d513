# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run that ends in the middle is named by the next one, once."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import signal
import stat
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.faults import start
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import call, declare, node
from mlnode.agent.declare import Order
from mlnode.agent.registry import KINDS
from mlnode.engine import lock, revert
from mlnode.engine.lock import LOCK_PATH, Note, locked
from mlnode.host import host
from mlnode.host.writing import journal_of

SWAPPINESS = "/proc/sys/vm/swappiness"
DROP_IN = "/etc/sysctl.d/zz-mlnode-node.conf"
ORDER = Order("node", KINDS, {"sysctl": {"settings": {"vm.swappiness": 10}}}, ("sysctl",), whole=True)
NOTE = Note("node", 4711, "2026-01-31T12:00:00Z")


def _interrupted() -> None:
    raise KeyboardInterrupt


def ended(machine: Machine, number: int) -> None:
    """A run that gets this signal when it has written its first value."""

    def work() -> None:
        def die(path: str, value: str) -> None:
            write(path, value)
            os.kill(os.getpid(), number)

        write, machine.write_kernel = machine.write_kernel, die  # type: ignore[method-assign]  # as above
        if number != signal.SIGKILL:
            signal.signal(number, lambda *_about: _interrupted())
        door.apply(machine, door.request("node", "sysctl", ORDER.areas["sysctl"]))

    os.waitpid(start(work), 0)


class Full:
    """The module os, where nothing can be written."""

    def __init__(self, write: Callable[..., int]) -> None:
        self.pwrite = write

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


def earlier(warnings: list[str]) -> list[str]:
    return [words for words in warnings if words.startswith("an earlier run")]


def test_a_killed_run_is_named_once(machine: Machine) -> None:
    ended(machine, signal.SIGKILL)
    assert machine.now(SWAPPINESS) == "10"
    assert stat.S_IMODE(os.stat(machine.real(LOCK_PATH)).st_mode) == 0o600

    [seen] = earlier(declare.run(machine, ORDER._replace(check=True)).warnings)
    found = declare.run(machine, ORDER)

    assert not found.failed, found.msg
    [words] = earlier(found.warnings)
    assert seen == words, "a check names it, too, and leaves it to be named"
    assert words.startswith("an earlier run for node (process ")
    assert "was killed in the middle: no file is half written, and the next run" in words
    assert not machine.exists(LOCK_PATH)
    assert earlier(declare.run(machine, ORDER).warnings) == []


def test_a_file_that_it_was_writing_is_completed_and_named(machine: Machine) -> None:
    assert declare.run(machine, ORDER).changed
    ended(machine, signal.SIGKILL)
    drop_in = pathlib.Path(machine.real(DROP_IN))
    journal = drop_in.with_name(journal_of(drop_in.name))
    with locked(machine):
        lock.add_note(machine, NOTE)
    journal.write_bytes(pathlib.Path(machine.real(DROP_IN)).read_bytes())

    [words] = earlier(declare.run(machine, ORDER).warnings)

    assert f"was killed in the middle: {DROP_IN} is whole again" in words
    assert not journal.exists()


def test_one_that_was_stopped_has_put_back_its_changes(machine: Machine) -> None:
    before = machine.now(SWAPPINESS)
    ended(machine, signal.SIGHUP)
    assert machine.now(SWAPPINESS) == before

    [words] = earlier(declare.run(machine, ORDER).warnings)

    assert words.endswith("was stopped, and has put back its changes")


@pytest.mark.parametrize("changed", [True, False])
def test_one_that_nobody_has_heard_of_has_ended_as_it_should(machine: Machine, changed: bool) -> None:
    question = json.dumps({"call": "declare", "options": {"name": "node", "check": False}}).encode()
    call.unheard(machine, question, {"answer": {"changed": changed}})
    call.unheard(machine, question.replace(b"false", b"true"), {"answer": {"changed": True}})
    call.unheard(machine, question, {"other": True})
    drift = json.dumps({"call": "drift", "options": {}}).encode()
    call.unheard(machine, drift, {"answer": {"changed": False, "failed": True, "msg": "not as declared"}})

    words = earlier(declare.run(machine, ORDER).warnings)

    assert [one.partition(") ")[2] for one in words] == (
        ["has ended well, and could not answer any more"] if changed else []
    )


@pytest.mark.parametrize("changed", [True, False])
def test_one_that_has_failed_unheard_is_reported_with_its_error(machine: Machine, changed: bool) -> None:
    """With changed, all else than what a guard has refused was applied."""
    question = json.dumps({"call": "declare", "options": {"name": "node", "check": False}}).encode()
    msg = "node: refused: vm.overcommit_memory: 2 can lock root out; all else is applied"
    call.unheard(machine, question, {"answer": {"changed": changed, "failed": True, "msg": msg}})

    [words] = earlier(declare.run(machine, ORDER).warnings)

    assert words.endswith(f"has failed, and could not answer any more: {msg}")
    assert earlier(declare.run(machine, ORDER).warnings) == []


def test_a_run_that_fails_says_so_itself(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_path: str, _value: str) -> None:
        raise host.HostError("write", SWAPPINESS, 5)

    monkeypatch.setattr(machine, "write_kernel", broken)
    assert declare.run(machine, ORDER).failed
    assert not machine.exists(LOCK_PATH)


def test_a_note_that_cannot_be_written_fails_no_run(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tmpfs of /run is full."""

    def full(*_arguments: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(lock, "os", Full(full))
    found = declare.run(machine, ORDER)

    assert (found.failed, found.changed) == (False, True), found.msg
    assert not machine.exists(LOCK_PATH)


def test_who_shows_nothing_leaves_it_to_the_next(machine: Machine) -> None:
    ended(machine, signal.SIGKILL)
    node.apply_all(machine)

    assert len(earlier(declare.run(machine, ORDER).warnings)) == 1


def test_after_a_revert_there_is_nothing_to_name(machine: Machine) -> None:
    before = machine.tree()
    ended(machine, signal.SIGKILL)

    revert.revert(machine)

    assert machine.tree() == before


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1\n",
        "1\n{",
        "1\nnull\n[]\n7\n{}\n",
        '1\n{"name": "x", "pid": "y", "since": "", "end": "", "completed": 1}\n',
        "1\n" + "[" * 50_000,
    ],
)
def test_what_is_no_note_is_passed_over(machine: Machine, text: str) -> None:
    machine.put(LOCK_PATH, text)

    assert lock.read_notes(machine) == []
    with locked(machine):
        pass
    assert not machine.exists(LOCK_PATH)


def test_a_note_cannot_command_a_terminal(machine: Machine) -> None:
    hostile = NOTE._replace(name="\x1b[2J", completed=("/etc/\x1b]0;x\x07",))
    with locked(machine):
        lock.add_note(machine, hostile)
        assert lock.read_notes(machine) == [hostile]

    assert all(words.isprintable() for words in (note.text for note in lock.read_notes(machine)))
    with locked(machine):
        assert len(lock.take_notes(machine)) == 1


def test_a_run_that_waits_names_the_holder_alone(machine: Machine) -> None:
    machine.put(LOCK_PATH, f"1\n{lock.render([NOTE])}")
    with locked(machine):
        first = pathlib.Path(machine.real(LOCK_PATH)).read_text().split("\n")[0]
        assert first == str(os.getpid())
        with pytest.raises(lock.LockTimeoutError, match=rf"\(process {os.getpid()}\)"), locked(machine, 0):
            pass
