# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a command that changes this machine: one at a time, and restores the machine afterwards.

A run of another checkout may be under way on this machine: the command waits for its end (MLNODE_WAIT=SECONDS
limits that). Leftovers of a killed run are restored first. A command that a run starts is a part of that run.
A command without root rights cannot change the machine, and is simply started.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import re
import secrets
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

CHECKOUT = pathlib.Path(__file__).resolve().parents[1]

#: Each process of a run has its id in its environment, and each container as a label.
VARIABLE, LABEL = "MLNODE_RUN", "mlnode.run"

#: For the tests of this file: stands in for the root folder
ROOT = pathlib.Path(os.environ.get("ONE_RUN_ROOT", "/"))

#: State to restore even after a reboot, because the files of a tuned machine persist; and the lock, which the
#: kernel releases with its process
STATE, LOCK = ROOT / "var/lib/mlnode-tests", ROOT / "run/mlnode-tests.lock"

#: Saved by host_knobs.py; the values of an earlier boot are gone with it.
SNAPSHOT = ROOT / "run/mlnode-container-lab.knobs.json"
KNOBS = CHECKOUT / "molecule/shared/host_knobs.py"

AGENT = ROOT / "usr/local/bin/mlnode"
ORIGINS = (ROOT / "var/lib/mlnode/origin.json", ROOT / "etc/mlnode/origin.json")
_AGENT_SOURCES = "ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.agent.cli"

#: Namespaces of tests/system and benchmarks: with the process that made it, or a name that only one run at a
#: time uses
_NAMESPACE = re.compile(r"mlnode-(?:bench-[ab]|[a-z]+-(?P<owner>\d+)(?:-.*)?)\Z")

#: A process that has not ended so long after SIGKILL waits for a device.
_END_SECONDS = 10.0


class LeftError(Exception):
    """Something that a run has left and that cannot be put back."""


@dataclasses.dataclass(frozen=True)
class Record:
    """The run that has the machine, or had it. start: of its process, in clock ticks after boot."""

    id: str
    pid: int
    start: int
    boot: str
    since: str
    folder: str
    command: str
    keep: bool

    def __str__(self) -> str:
        return f"{self.command} (PID {self.pid}, since {self.since}, in {self.folder})"

    @property
    def is_alive(self) -> bool:
        return self.boot == _boot_id() and self.start == _start_of(self.pid)


def say(words: str) -> None:
    print(f"one-run: {words}", file=sys.stderr, flush=True)


def is_inside() -> bool:
    """True if this process belongs to the run that holds the machine."""
    record = _record()
    return record is not None and record.id == os.environ.get(VARIABLE) and record.is_alive


@contextlib.contextmanager
def held(command: str, keep: bool = False) -> Iterator[None]:
    """Hold the machine for this process and its children. Raises LeftError."""
    if is_inside():
        yield
        return
    if VARIABLE in os.environ:
        raise LeftError("the run that this belongs to was killed; nothing was done")
    lock = _locked(float(os.environ.get("MLNODE_WAIT", "inf")))
    try:
        dead = _record()
        if dead is not None:
            if not dead.keep:
                say(f"cleaning up after {dead}, which was killed")
            _put_back(dead)
        record = _begin(command, keep)
        os.environ[VARIABLE] = record.id
        try:
            yield
        finally:
            del os.environ[VARIABLE]
            _put_back(record)
    finally:
        os.close(lock)


@contextlib.contextmanager
def tuned(*files: str) -> Iterator[None]:
    """Note that this run declares the machine as a node and writes these additional files. Raises
    LeftError."""
    _run([sys.executable, str(KNOBS), "save", str(SNAPSHOT)])
    _write(STATE / "tuned", json.dumps(files))
    try:
        yield
    finally:
        _revert()
        _restore_values(os.environ[VARIABLE])


# -- the lock ------------------------------------------------------------------------------


def _locked(patience: float) -> int:
    """File descriptor with the lock; no child inherits it, as one of them may outlive the run."""
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    end = time.monotonic() + patience
    said = False
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = f"another run is under way on this machine: {_record() or 'it is just starting'}"
            if time.monotonic() >= end:
                os.close(lock)
                raise LeftError(f"{other}; nothing was done") from None
            if not said:
                say(f"{other}; waiting for its end")
            said = True
            time.sleep(0.2)
        else:
            return lock


def _begin(command: str, keep: bool) -> Record:
    record = Record(
        id=secrets.token_hex(8),
        pid=os.getpid(),
        start=_start_of(os.getpid()),
        boot=_boot_id(),
        since=time.strftime("%Y-%m-%d %H:%M"),
        folder=str(CHECKOUT),
        command=command,
        keep=keep,
    )
    STATE.mkdir(mode=0o700, exist_ok=True)
    status = STATE.lstat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o77 or STATE.is_symlink():
        raise LeftError(f"{STATE}: expected a folder of this user with mode 0700; remove it")
    _write(STATE / "run.json", json.dumps(dataclasses.asdict(record)))
    return record


def _record() -> Record | None:
    try:
        return Record(**json.loads((STATE / "run.json").read_text(encoding="utf-8")))
    except (FileNotFoundError, PermissionError):
        return None
    except (TypeError, ValueError) as error:
        raise LeftError(f"{STATE}/run.json cannot be read ({error}); remove {STATE}") from error


def _write(path: pathlib.Path, text: str) -> None:
    """Whole or not at all, and still there after a power cut."""
    new = path.with_suffix(".new")
    with new.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    new.replace(path)


def _boot_id() -> str:
    return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _start_of(pid: int) -> int:
    """Start time of a process (proc_pid_stat(5), starttime); -1 if it does not exist or has ended (Z)."""
    try:
        state, *more = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return -1
    return -1 if state == "Z" else int(more[18])


# -- leftovers of a run --------------------------------------------------------------------


def _put_back(record: Record) -> None:
    """Restore all parts, even if one fails. Raises LeftError."""
    parts: tuple[Callable[[], None], ...] = (
        lambda: _end_processes(record.id),
        lambda: _remove_containers(record.id),
        _remove_namespaces,
        _revert,
        lambda: _restore_values(record.id),
    )
    problems = []
    for part in () if record.keep else parts:
        try:
            part()
        except (LeftError, OSError, subprocess.SubprocessError) as error:
            problems.append(str(error))
    if problems:
        again = f"the next run tries again; rm -r {STATE} leaves it as it is"
        raise LeftError("; ".join([f"of {record}", *problems, again]))
    shutil.rmtree(STATE)


def _remove_containers(run: str) -> None:
    if not shutil.which("podman"):
        return
    podman = [str(CHECKOUT / "tools/container-lab.sh"), "podman"]
    containers = _run([*podman, "ps", "--all", "--quiet", f"--filter=label={LABEL}={run}"]).split()
    if containers:
        say(f"removing {len(containers)} containers")
        _run([*podman, "rm", "--force", "--ignore", "--time=0", "--volumes", *containers])


def _end_processes(run: str) -> None:
    mark = f"{VARIABLE}={run}".encode()

    def is_marked(pid: int) -> bool:
        return mark in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")

    _end("of the run", is_marked)


def _remove_namespaces() -> None:
    for path in sorted((ROOT / "run/netns").glob("mlnode-*")):
        match = _NAMESPACE.match(path.name)
        if match is None or (match["owner"] and _start_of(int(match["owner"])) != -1):
            continue
        number = path.stat().st_ino

        def is_inside(pid: int, number: int = number) -> bool:
            return pathlib.Path(f"/proc/{pid}/ns/net").stat().st_ino == number

        _end(f"in the network namespace {path.name}", is_inside)
        say(f"removing the network namespace {path.name}")
        _run(["ip", "netns", "delete", path.name])


def _end(where: str, is_meant: Callable[[int], bool]) -> None:
    """SIGKILL to each process of a kind, until there is none. Raises LeftError."""
    end = time.monotonic() + _END_SECONDS
    while pids := [pid for pid in _processes() if _killed(pid, is_meant)]:
        say(f"ended {len(pids)} processes {where}")
        if time.monotonic() > end:
            raise LeftError(f"the processes {pids} {where} do not end")


def _processes() -> list[int]:
    return [int(path.name) for path in pathlib.Path("/proc").iterdir() if path.name.isdigit()]


def _killed(pid: int, is_meant: Callable[[int], bool]) -> bool:
    """Kill a process; False if it is not one of the intended ones."""
    try:
        # The descriptor stays with this process; its number may belong to another one by the time of the
        # signal.
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if not is_meant(pid):
            return False
        signal.pidfd_send_signal(process, signal.SIGKILL)
        select.select([process], [], [], 1)
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return False
    else:
        return True
    finally:
        os.close(process)


def _revert() -> None:
    tuned = STATE / "tuned"
    if not tuned.exists():
        return
    for file in json.loads(tuned.read_text(encoding="utf-8")):
        pathlib.Path(file).unlink(missing_ok=True)
    # The installed one first, as it has recorded the origin.
    if AGENT.exists():
        say("reverting this machine")
        _run([str(AGENT), "revert"])
    elif any(path.exists() for path in ORIGINS):
        say("reverting this machine with the agent of this checkout")
        sources = {**os.environ, "PYTHONPATH": str(CHECKOUT / ".ansible/collections")}
        _run([sys.executable, "-m", _AGENT_SOURCES, "revert"], sources)
    tuned.unlink()


def _restore_values(run: str) -> None:
    try:
        saved = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    if saved.get("run") == run:
        for line in _run([sys.executable, str(KNOBS), "restore", str(SNAPSHOT)]).splitlines():
            say(line)


def _run(command: Sequence[str], environment: dict[str, str] | None = None) -> str:
    """Output of a program. Raises LeftError with its last words."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip()[-300:] or f"exit status {done.returncode}"
        raise LeftError(f"{' '.join(command[:4])}: {words}")
    return done.stdout


# -- the command ---------------------------------------------------------------------------


def _carry_out(command: Sequence[str]) -> int:
    """Exit status of the command. Signals to this process go to the command first; its leftovers are restored
    after its end."""
    process: subprocess.Popen[bytes] | None = None

    def forward(number: int, _frame: FrameType | None) -> None:
        # A terminal sends SIGINT to all of its foreground processes.
        if process is not None and number != signal.SIGINT:
            process.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, forward)
    process = subprocess.Popen(command)
    code = process.wait()
    return code if code >= 0 else 128 - code


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--name", help="of the run, in messages; else the command")
    parser.add_argument("--keep", action="store_true", help="keep the changes of the command")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    command = options.command
    if not command:
        parser.error("no command")
    may_change = pathlib.Path("/") != ROOT or (os.geteuid() == 0 and sys.platform == "linux")
    code = 1
    try:
        if not may_change or is_inside():
            os.execvp(command[0], command)
        with held(options.name or " ".join(command), options.keep):
            code = _carry_out(command)
    except (LeftError, OSError) as error:
        say(f"error: {error}")
        return code or 1
    except KeyboardInterrupt:  # while it waits
        return 130
    return code


if __name__ == "__main__":
    sys.exit(main())
