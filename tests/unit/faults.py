# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that fails, or dies, at the n-th thing it is asked to change."""

from __future__ import annotations

import errno
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit.effort import some
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import archive as agent_zip
from mlnode.agent.archive import INTERPRETER
from mlnode.engine import lock as lock_module
from mlnode.host import folders, writing
from mlnode.host import host as host_module
from mlnode.host.system import Finished
from mlnode.model.errors import HostError

#: Calls of os that change a file, or promise that it is on disk
CHANGING = (
    "open", "write", "fsync", "rename", "unlink", "mkdir", "rmdir", "symlink",
    "chmod", "chown", "fchmod", "fchown", "ftruncate", "setxattr",
)  # fmt: skip


class Gate:
    """Counts what is about to change, and acts just before number `at`; 0 only counts."""

    def __init__(self, at: int = 0, act: Callable[[], object] = lambda: None) -> None:
        self.at = at
        self.act = act
        self.seen: list[str] = []

    def step(self, what: str, torn: Callable[[], object] = lambda: None) -> None:
        """torn: what a call that is cut off in the middle has already done by then."""
        self.seen.append(what)
        if len(self.seen) == self.at:
            torn()
            self.act()

    @property
    def passed(self) -> bool:
        """True if the run ended before number `at` was reached."""
        return 0 < len(self.seen) < self.at


def _path(what: Any, named: Mapping[str, Any]) -> Any:
    """By name, as the number of a handle tells no reader which file it is."""
    if isinstance(what, int):
        return os.readlink(f"/proc/self/fd/{what}")
    folder = named.get("dir_fd", named.get("src_dir_fd"))
    return what if folder is None else os.path.join(os.readlink(f"/proc/self/fd/{folder}"), what)


class Os:
    """The module os, as the code under test sees it; each call that changes something passes the gate."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def __getattr__(self, name: str) -> Any:
        call = getattr(os, name)
        if name not in CHANGING:
            return call

        def guarded(*arguments: Any, **named: Any) -> Any:
            if name == "open" and not arguments[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return call(*arguments, **named)
            self._gate.step(f"{name} {_path(arguments[0], named)}")
            return call(*arguments, **named)

        return guarded

    def write(self, handle: int, data: bytes) -> int:
        self._gate.step(f"write {handle}", torn=lambda: os.write(handle, bytes(data)[: len(data) // 2]))
        return os.write(handle, data)


class Gated(Machine):
    """A machine whose kernel writes and commands pass a gate as well."""

    gate = Gate()

    def write_kernel(self, path: str, value: str) -> None:
        try:
            self.gate.step(f"kernel {path}")
        except OSError as error:
            raise HostError(f"write {value!r} to", path, error.errno) from error
        super().write_kernel(path, value)

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        try:
            self.gate.step(f"run {' '.join(command)}")
        except OSError as error:
            words = os.strerror(error.errno or 0)
            return Finished(1, "", f"modprobe: ERROR: could not insert {command[-1]!r}: {words}\n")
        return super().run(command, seconds)


def failing(number: int) -> Callable[[], object]:
    def fail() -> None:
        raise OSError(number, os.strerror(number))

    return fail


def install(patch: pytest.MonkeyPatch, machine: Gated, gate: Gate) -> None:
    """Let all that the machine changes from now on pass the gate."""
    machine.gate = gate
    for module in (host_module, folders, writing):
        patch.setattr(module, "os", Os(gate))


_build = agent_zip.build
_built: dict[tuple[object, ...], bytes] = {}


def _build_once(
    files: agent_zip.Files, interpreter: str = INTERPRETER, compiled: bool = True, *modules: agent_zip.Modules
) -> bytes:
    key = (*files.items(), interpreter, compiled)
    if key not in _built:
        _built[key] = _build(files, interpreter, compiled, *modules)
    return _built[key]


def no_disk() -> Iterator[None]:
    """Never wait for the disk, in tests that do the same a thousand times: a killed process loses nothing
    that it had written, only a power cut would. And compile the agent once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        patch.setattr(agent_zip, "build", _build_once)
        yield


def in_memory() -> Iterator[pathlib.Path]:
    """A folder on a tmpfs, in which a thousand small nodes cost little."""
    place = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=place if os.access(place, os.W_OK) else None) as folder:
        yield pathlib.Path(folder)


def in_child(work: Callable[[], object]) -> int:
    """Run work in a process of its own; its exit status, or minus the signal that ended it."""
    child = start(work)
    _pid, status = os.waitpid(child, 0)
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def start(work: Callable[[], object]) -> int:
    """Fork a process that does the work and nothing else; its id."""
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    os._exit(70)


def killed_at(position: int, machine: Gated, work: Callable[[Machine], object]) -> bool:
    """Do the work in a process that is killed at its position-th change; False if it ended before."""

    def run() -> None:
        machine.gate = Gate(position, lambda: os.kill(os.getpid(), signal.SIGKILL))
        for module in (host_module, folders, writing, lock_module):
            vars(module)["os"] = Os(machine.gate)
        work(machine)

    status = in_child(run)
    assert status in (0, -signal.SIGKILL), f"the child failed before position {position}"
    return status != 0


#: Changes before which a process is killed, in `make test`
_POSITIONS = 8


def kills(template: Gated, work: Callable[[Machine], object]) -> Iterator[tuple[Gated, str]]:
    """Copies of the node on which the work was killed, each at another change, and last one on which it was
    not; and where."""
    last = _changes(_copy(template, "counted"), work) + 1
    assert last > 8, "nothing would be tried"
    for position in [*some(range(1, last), _POSITIONS), last]:
        machine = _copy(template, f"at-{position}")
        assert killed_at(position, machine, work) is (position < last), f"change {position} of {last - 1}"
        yield machine, f"killed at change {position}"
        shutil.rmtree(machine.root)


def _copy(node: Gated, name: str) -> Gated:
    target = pathlib.Path(node.root).parent / name
    shutil.copytree(node.root, target, symlinks=True)
    return type(node)(str(target))


def _changes(machine: Gated, work: Callable[[Machine], object]) -> int:
    with pytest.MonkeyPatch.context() as patch:
        machine.gate = Gate()
        for module in (host_module, folders, writing, lock_module):
            patch.setattr(module, "os", Os(machine.gate))
        work(machine)
    number = len(machine.gate.seen)
    shutil.rmtree(machine.root)
    return number


ERRNOS = [errno.EPERM, errno.EROFS, errno.EINVAL, errno.ENOSPC, errno.EIO]
