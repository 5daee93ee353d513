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
from ansible_collections.mlnode.tuning.tests.unit.faults import Gate, Os, failing, in_child, in_memory, start
from mlnode.engine import lock
from mlnode.host import places
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
    real_open = Host.open_lock
    opened = []

    def open_too_late(host: Host, path: str) -> int:
        """As a waiter does that opens the file just before its holder removes it."""
        handle = real_open(host, path)
        opened.append(handle)
        if len(opened) == 1:
            file.unlink()
            if made_again:
                file.touch()
        return handle

    monkeypatch.setattr(Host, "open_lock", open_too_late)
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
    real_open = Host.open_lock

    def remember(host: Host, path: str) -> int:
        opened.append(real_open(host, path))
        return opened[-1]

    def interrupt(handle: int, how: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Host, "open_lock", remember)
    monkeypatch.setattr(lock.fcntl, "flock", interrupt)
    with pytest.raises(KeyboardInterrupt), lock.locked(host, 0):
        pass
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


# -- for root alone ------------------------------------------------------------------------

STRANGER = 1234


@pytest.fixture
def open_host() -> Iterator[Host]:
    """Below a folder that every user can enter."""
    for folder in in_memory():
        folder.chmod(0o755)
        yield Host(str(folder))


def holding(path: str) -> int:
    """Status of another user who tries to hold a file or a folder: 0 where that user can."""

    def hold() -> None:
        os.setgroups([])
        os.setgid(STRANGER)
        os.setuid(STRANGER)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            os._exit(errno.EACCES)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    return in_child(hold)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_no_other_user_can_hold_what_a_run_waits_for(open_host: Host) -> None:
    """Whatever was left there, with the mode of an earlier version or of a umask."""
    for path in (lock.LOCK_PATH, places.CHECK_LOCK, places.PULL_LOCK):
        real = pathlib.Path(open_host.root + path)
        real.parent.mkdir(parents=True, exist_ok=True)
        real.touch()
        real.chmod(0o666)
        with lock.locked(open_host) if path == lock.LOCK_PATH else lock.alone(open_host, path):
            assert holding(str(real)) == errno.EACCES, path
            assert real.stat().st_mode & 0o7777 == 0o600, path
        assert not real.exists(), path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_who_holds_a_folder_of_ours_stops_nothing(open_host: Host) -> None:
    for folder in places.FOLDERS:
        pathlib.Path(open_host.root + folder).mkdir(parents=True)
        assert holding(open_host.root + folder) == 0, "any user may, as of any folder that can be entered"
    reader, writer = os.pipe()

    def hold() -> None:
        handles = [os.open(open_host.root + folder, os.O_RDONLY) for folder in places.FOLDERS]
        for handle in handles:
            fcntl.flock(handle, fcntl.LOCK_EX)
        os.write(writer, b"held")
        time.sleep(60)

    child = start(hold)
    try:
        assert os.read(reader, 4) == b"held"
        for path in (places.CHECK_LOCK, places.PULL_LOCK):
            with lock.alone(open_host, path) as is_alone:
                assert is_alone, path
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("path", [places.CHECK_LOCK, places.PULL_LOCK])
def test_one_at_a_time_and_the_next_after_a_kill(host: Host, path: str) -> None:
    real = pathlib.Path(host.root + path)
    reader, writer = os.pipe()

    def hold() -> None:
        with lock.alone(host, path):
            os.write(writer, b"held")
            time.sleep(60)

    child = start(hold)
    assert os.read(reader, 4) == b"held"
    with lock.alone(host, path) as is_alone:
        assert not is_alone
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert real.exists(), "a killed process removes nothing"
    with lock.alone(host, path) as is_alone:
        assert is_alone
    assert not real.exists()
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["fifo", "folder"])
def test_what_is_no_lock_file_is_an_error_and_no_wait(
    host: Host, file: pathlib.Path, make: Callable[[str], None]
) -> None:
    file.parent.mkdir()
    make(str(file))
    words = r"cannot lock /run/mlnode\.lock: .*(not a regular file|EISDIR)"
    with pytest.raises(HostError, match=words), lock.locked(host, 0):
        pass
