# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock between real processes: flock(2) belongs to a process, so threads would prove nothing."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pathlib
import signal
import time
from collections.abc import Callable, Iterator

import pytest
from ansible_collections.mlnode.tuning.tests.unit.faults import Gate, Os, failing, start
from mlnode.engine import lock
from mlnode.host.host import Host
from mlnode.model.errors import HostError, LockTimeoutError

pytestmark = pytest.mark.robustness


@pytest.fixture
def host(tmp_path: pathlib.Path) -> Host:
    return Host(str(tmp_path))


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / lock.LOCK_PATH[1:]


@contextlib.contextmanager
def held(host: Host, then: Callable[[], object]) -> Iterator[int]:
    """A process that holds the lock, then does something in it; its id, once it has the lock."""
    reader, writer = os.pipe()

    def hold() -> None:
        with lock.locked(host):
            os.write(writer, b"held")
            then()

    child = start(hold)
    os.close(writer)
    try:
        assert os.read(reader, 4) == b"held"
        yield child
    finally:
        os.close(reader)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)


def test_the_lock_is_held_and_leaves_nothing(host: Host, file: pathlib.Path) -> None:
    with lock.locked(host):
        assert file.read_text() == f"{os.getpid()}\n"
        with open(file) as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert not file.exists()


def test_an_error_inside_frees_it(host: Host, file: pathlib.Path) -> None:
    with pytest.raises(KeyError), lock.locked(host):
        raise KeyError
    assert not file.exists()
    with lock.locked(host, 0):
        pass


def test_the_second_process_waits_for_the_first(host: Host, tmp_path: pathlib.Path) -> None:
    done = tmp_path / "first-is-done"

    def work() -> None:
        time.sleep(0.3)
        done.touch()

    with held(host, work):
        assert not done.exists()
        with lock.locked(host, 60):
            assert done.exists()


def test_many_processes_never_overlap(
    host: Host, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "_POLL_SECONDS", 0.001)
    counter = tmp_path / "counter"
    counter.write_text("0")

    def work() -> None:
        for _turn in range(15):
            with lock.locked(host, 60):
                number = int(counter.read_text())
                time.sleep(0.001)
                counter.write_text(str(number + 1))

    for child in [start(work) for _child in range(4)]:
        _pid, status = os.waitpid(child, 0)
        assert status == 0
    assert counter.read_text() == "60"
    assert not (tmp_path / "run/mlnode.lock").exists()


def test_a_wait_that_is_too_long_names_the_holder(host: Host) -> None:
    with held(host, lambda: time.sleep(60)) as child:
        began = time.monotonic()
        with pytest.raises(LockTimeoutError, match=rf"process {child}\).* more than 0 s"), lock.locked(
            host, 0.2
        ):
            pass
        assert time.monotonic() - began >= 0.2


def test_a_holder_that_has_not_signed_yet_is_unknown(host: Host, file: pathlib.Path) -> None:
    file.parent.mkdir()
    with open(file, "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(LockTimeoutError, match=r"process unknown"), lock.locked(host, 0):
            pass


def test_a_killed_holder_frees_it(host: Host, file: pathlib.Path) -> None:
    with held(host, lambda: time.sleep(60)) as child:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert file.exists(), "a killed process removes nothing"
        with lock.locked(host, 0):
            assert file.read_text() == f"{os.getpid()}\n"
    assert not file.exists()


@pytest.mark.parametrize("made_again", [False, True], ids=["gone", "another one"])
def test_the_lock_of_a_file_that_is_gone_does_not_count(
    host: Host, file: pathlib.Path, monkeypatch: pytest.MonkeyPatch, made_again: bool
) -> None:
    real_open = lock._open
    opened = []

    def open_too_late(real: str) -> int:
        """As a waiter does that opens the file just before its holder removes it."""
        handle = real_open(real)
        opened.append(handle)
        if len(opened) == 1:
            file.unlink()
            if made_again:
                file.touch()
        return handle

    monkeypatch.setattr(lock, "_open", open_too_late)
    with lock.locked(host, 5):
        assert len(opened) == 2
        with open(file) as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_lock_file_that_somebody_removed_is_no_error(host: Host, file: pathlib.Path) -> None:
    with lock.locked(host):
        file.unlink()


def test_a_link_in_its_place_is_not_followed(host: Host, file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "victim").write_text("precious")
    file.parent.mkdir()
    file.symlink_to(tmp_path / "victim")
    with pytest.raises(HostError, match="ELOOP"), lock.locked(host, 0):
        pass
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_folder_in_its_place_is_named(host: Host, file: pathlib.Path) -> None:
    file.mkdir(parents=True)
    with pytest.raises(HostError, match=f"cannot lock {lock.LOCK_PATH}: EISDIR"), lock.locked(host, 0):
        pass


@pytest.mark.parametrize("call", ["ftruncate", "write"])
def test_a_lock_that_cannot_be_signed_is_freed(
    host: Host, file: pathlib.Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    file.parent.mkdir()
    gate = Gate()
    monkeypatch.setattr(lock, "os", Os(gate))
    with lock.locked(host, 0):
        pass
    position = next(number for number, what in enumerate(gate.seen, 1) if what.startswith(call))
    monkeypatch.setattr(lock, "os", Os(Gate(position, failing(errno.ENOSPC))))
    with pytest.raises(HostError, match=f"write {lock.LOCK_PATH}: ENOSPC"), lock.locked(host, 0):
        pass
    assert not file.exists()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EINTR])
def test_a_file_system_without_locks_is_an_error(
    host: Host, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def flock(handle: int, how: int) -> None:
        raise OSError(number, "none here")

    monkeypatch.setattr(lock.fcntl, "flock", flock)
    with pytest.raises(HostError, match=errno.errorcode[number]), lock.locked(host, 0):
        pass


def test_an_interrupted_wait_keeps_no_file_open(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    real_open = lock._open

    def remember(real: str) -> int:
        opened.append(real_open(real))
        return opened[-1]

    def interrupt(handle: int, how: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lock, "_open", remember)
    monkeypatch.setattr(lock.fcntl, "flock", interrupt)
    with pytest.raises(KeyboardInterrupt), lock.locked(host, 0):
        pass
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])
