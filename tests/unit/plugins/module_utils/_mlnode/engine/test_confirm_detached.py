# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process that undoes a change where systemd cannot: for real, with a folder as the machine."""

from __future__ import annotations

import fcntl
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import ansible_collections
import pytest
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.engine import confirm, confirm_store, transaction
from mlnode.engine.confirm_store import Pending
from mlnode.engine.lock import LOCK_PATH, locked
from mlnode.engine.origin import Entry, Origin
from mlnode.engine.steps import FileWrite
from mlnode.host import detached
from mlnode.host.host import Host

FILE = "/etc/mlnode/declared.d/default.json"

#: The most to wait for what happens within a second on an idle machine: it only stops a hang
LONG = 60.0


def until(true: Callable[[], object], seconds: float = LONG) -> bool:
    over = time.monotonic() + seconds
    while time.monotonic() < over:
        if true():
            return True
        time.sleep(0.05)
    return False


def change(node: Host, seconds: int) -> Pending:
    armed: list[Pending] = []

    def arm(entries: Sequence[Entry], fresh: Sequence[Entry]) -> None:
        armed.append(confirm.arm(node, "default", seconds, entries, fresh, "the words"))

    with locked(node):
        transaction.run(node, Origin.load(node), [FileWrite(FILE, FILE, b"new\n")], arm=arm)
    return armed[0]


def gone(path: pathlib.Path) -> bool:
    """True if the process whose id is in the file has ended, even where nobody has waited for it yet."""
    try:
        return "\nState:\tZ" in pathlib.Path(f"/proc/{path.read_text().strip()}/status").read_text()
    except FileNotFoundError:
        return True


def note(path: pathlib.Path, work: Callable[[], object] = lambda: None) -> Callable[[], object]:
    def run() -> None:
        path.with_suffix(".new").write_text(str(os.getpid()))
        path.with_suffix(".new").rename(path)
        work()

    return run


def test_a_change_that_nobody_confirms_is_undone(machine: Machine) -> None:
    before = machine.tree()
    armed = change(machine, 1)
    assert machine.exists(FILE)

    assert until(lambda: confirm_store.report(machine))

    assert until(lambda: not machine.exists(LOCK_PATH))
    assert "as it was not confirmed over a new connection within 1 s" in confirm_store.report(machine)
    assert armed.left == 0
    confirm_store.acknowledge(machine)
    assert machine.tree() == before


def test_what_is_confirmed_is_left_alone_and_the_process_ends(
    machine: Machine, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = detached.start
    monkeypatch.setattr(detached, "start", lambda work: start(note(tmp_path / "pid", work)))
    armed = change(machine, 3600)
    assert until((tmp_path / "pid").exists)

    assert confirm.confirm(machine, armed.id)

    assert until(lambda: gone(tmp_path / "pid"))
    assert armed.left > 0, "it ended with its time only"
    assert machine.read(FILE) == "new\n"
    assert confirm_store.report(machine) == ""


def test_it_waits_for_a_run_that_is_still_at_work(machine: Machine) -> None:
    with locked(machine):
        steps = [FileWrite(FILE, FILE, b"new\n")]

        def arm(entries: Sequence[Entry], fresh: Sequence[Entry]) -> None:
            confirm.arm(machine, "default", 1, entries, fresh, "the words")

        transaction.run(machine, Origin.load(machine), steps, arm=arm)
        time.sleep(2)
        assert machine.exists(FILE)

    assert until(lambda: confirm_store.report(machine))
    assert not machine.exists(FILE)


def test_it_waits_for_longer_where_the_run_begins_the_time_again(machine: Machine) -> None:
    with locked(machine):
        armed: list[Pending] = []

        def arm(entries: Sequence[Entry], fresh: Sequence[Entry]) -> None:
            armed.append(confirm.arm(machine, "default", 2, entries, fresh, "the words"))

        transaction.run(machine, Origin.load(machine), [FileWrite(FILE, FILE, b"new\n")], arm=arm)
        assert until(lambda: not armed[0].left)
        again = confirm.restart(machine, armed[0])

    assert until(lambda: confirm_store.report(machine))
    assert not again.left
    assert not machine.exists(FILE)


def test_nothing_of_the_caller_is_kept(tmp_path: pathlib.Path) -> None:
    """Neither its session, its folder, its files, nor the locks on them."""
    held = os.open(tmp_path / "held", os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)

    def work() -> None:
        files = sorted(os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")[:-1])
        facts = [str(os.getsid(0) != sid), os.getcwd(), str(os.getppid() != parent), *files]
        (tmp_path / "facts.new").write_text("\n".join(facts))
        (tmp_path / "facts.new").rename(tmp_path / "facts")
        time.sleep(LONG)

    sid, parent = os.getsid(0), os.getpid()
    detached.start(note(tmp_path / "pid", work))
    assert until((tmp_path / "facts").exists)
    os.close(held)
    again = os.open(tmp_path / "held", os.O_RDWR)
    fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if the process still held it
    os.close(again)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)

    new_session, folder, not_child, *files = (tmp_path / "facts").read_text().splitlines()
    assert (new_session, folder, not_child) == ("True", "/", "True")
    assert {*files} == {"/dev/null"}


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_the_end_of_the_session_does_not_end_it(tmp_path: pathlib.Path, number: int) -> None:
    detached.start(note(tmp_path / "pid", lambda: time.sleep(LONG)))
    assert until((tmp_path / "pid").exists)
    pid = int((tmp_path / "pid").read_text())

    os.kill(pid, number)
    time.sleep(0.2)
    assert not gone(tmp_path / "pid")

    os.kill(pid, signal.SIGTERM)
    assert until(lambda: gone(tmp_path / "pid"))


def test_a_second_fork_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    real, first = os.fork, os.getpid()

    def fork() -> int:
        if os.getpid() != first:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return real()

    monkeypatch.setattr(os, "fork", fork)
    files = sorted(os.listdir("/proc/self/fd"))

    with pytest.raises(OSError, match="the process ended before it was ready"):
        detached.start(lambda: None)
    assert sorted(os.listdir("/proc/self/fd")) == files


def test_a_first_fork_that_fails_leaves_no_files_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    files = sorted(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "fork", fork)

    with pytest.raises(BlockingIOError):
        detached.start(lambda: None)
    assert sorted(os.listdir("/proc/self/fd")) == files


def test_an_error_in_the_process_is_the_end_of_it_only(tmp_path: pathlib.Path, capfd: object) -> None:
    def fail() -> None:
        raise RuntimeError("nobody sees this")

    detached.start(note(tmp_path / "pid", fail))

    assert until((tmp_path / "pid").exists)
    assert until(lambda: gone(tmp_path / "pid"))


_MODULE = """\
import shutil, sys
sys.path[:0] = {paths!r}
from _mlnode.engine import confirm, transaction
from _mlnode.host.host import Host
from _mlnode.engine.lock import locked
from _mlnode.engine.origin import Origin
from _mlnode.engine.steps import FileWrite

node = Host({root!r})
with locked(node):
    transaction.run(
        node, Origin.load(node), [FileWrite({file!r}, {file!r}, b"new")],
        arm=lambda entries, fresh: confirm.arm(node, "default", {seconds}, entries, fresh, "the words"),
    )
shutil.rmtree({code!r})
print("done")
"""


def module(machine: Machine, tmp_path: pathlib.Path, seconds: int) -> None:
    """As Ansible runs one, and deletes its code. A change waits for so many seconds to be confirmed."""
    import shutil

    package = (
        pathlib.Path(next(iter(ansible_collections.__path__))) / "mlnode/tuning/plugins/module_utils/_mlnode"
    )
    shutil.copytree(package, tmp_path / "code" / "_mlnode", ignore=shutil.ignore_patterns("__pycache__"))
    script = _MODULE.format(
        paths=[str(tmp_path / "code")], code=str(tmp_path / "code"), root=machine.root, file=FILE,
        seconds=seconds,
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=LONG, check=False
    )
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_it_works_when_the_code_it_came_from_is_deleted(machine: Machine, tmp_path: pathlib.Path) -> None:
    module(machine, tmp_path, 1)
    assert until(lambda: confirm_store.report(machine))
    assert not machine.exists(FILE)


def test_who_waits_for_the_output_of_a_module_does_not_wait_for_this(
    machine: Machine, tmp_path: pathlib.Path
) -> None:
    module(machine, tmp_path, 3600)
    armed = confirm_store.load_pending(machine)
    assert armed is not None
    assert confirm.confirm(machine, armed.id)  # and the process ends
