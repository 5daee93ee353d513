# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that end, fail, hang, print without end and leave others behind."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from mlnode.host import timed
from mlnode.model.errors import HostError


def shell(script: str, seconds: float = 30, most: int = 1 << 16) -> timed.Ran:
    return timed.run(["/bin/sh", "-c", script], seconds, most)


def test_its_output_its_status_and_its_time_are_returned() -> None:
    ran = shell("echo one; sleep 0.05; printf 'two \\377\\0'")

    assert (ran.rc, ran.out, ran.problem) == (0, "one\ntwo \ufffd\ufffd", "")
    assert ran.seconds >= 0.05


def test_it_has_no_input_and_no_terminal() -> None:
    assert shell("cat; tty").out == "not a tty\n"


@pytest.mark.parametrize(
    ("script", "rc", "problem"),
    [
        ("exit 7", 7, "it ended with exit status 7"),
        ("echo 1; echo no memory >&2; exit 1", 1, "it ended with exit status 1: no memory"),
        ("echo only here; exit 1", 1, "it ended with exit status 1: only here"),
        ("printf '\\033[31mred' >&2; exit 1", 1, "it ended with exit status 1: \\x1b[31mred"),
        ("seq 9 >&2; echo ---- >&2; exit 1", 1, f"it ended with exit status 1: {' / '.join('23456789')}"),
        ("kill -KILL $$", -9, "it was ended by signal 9"),
    ],
)
def test_a_failure_has_its_last_words(script: str, rc: int, problem: str) -> None:
    assert (shell(script).rc, shell(script).problem) == (rc, problem)


def gone(path: pathlib.Path) -> bool:
    """The process whose number is in the file has ended, or will be reaped."""
    number = int(path.read_text(encoding="ascii"))
    for _try in range(100):
        try:
            state = pathlib.Path(f"/proc/{number}/stat").read_text(encoding="ascii").rpartition(")")[2]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state.split()[0] in "ZX":
            return True
        time.sleep(0.02)
    return False


def test_a_hanging_program_ends_with_all_that_it_has_started(tmp_path: pathlib.Path) -> None:
    child = tmp_path / "child"

    ran = shell(f"sleep 60 & echo $! > {child}; wait", seconds=0.3)

    assert ran.problem == "no end within 0.3 s"
    assert ran.rc < 0
    assert gone(child)


def test_one_that_ignores_sigterm_is_killed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed, "_GRACE", 0.1)

    ran = shell(f"trap '' TERM; echo $$ > {tmp_path}/own; while :; do sleep 0.05; done", seconds=0.2)

    assert (ran.rc, ran.problem) == (-9, "no end within 0.2 s")
    assert gone(tmp_path / "own")


def test_what_runs_on_after_a_good_end_ends_too(tmp_path: pathlib.Path) -> None:
    child = tmp_path / "child"

    ran = shell(f"sleep 60 & echo $! > {child}; echo done")

    assert (ran.rc, ran.out, ran.problem) == (0, "done\n", "")
    assert gone(child)


#: Process that leaves its group, with its number in $1 → the program that starts it
ESCAPES = {
    "another session keeps the output open": "setsid sh -c 'echo $$ > $1; exec sleep 60' - $1 &",
    "a daemon": "(setsid sh -c 'echo $$ > $1; exec sleep 60' - $1 </dev/null >/dev/null 2>&1 &)",
    "a child of a daemon": "(setsid sh -c 'sh -c \"echo \\$\\$ > $1; sleep 60; true\"; true' - $1 &)",
    "it ignores signals": "(setsid sh -c 'trap : TERM HUP; echo $$ > $1; sleep 60; sleep 60' - $1 &)",
}


@pytest.mark.parametrize("escapes", ESCAPES)
@pytest.mark.parametrize("ends", ["true", "sleep 60"], ids=["it ends", "it hangs"])
def test_a_process_that_leaves_the_group_ends_too(tmp_path: pathlib.Path, escapes: str, ends: str) -> None:
    child = tmp_path / "child"
    script = f"{ESCAPES[escapes]}\nuntil test -s $1; do sleep 0.01; done; echo done; {ends}"

    ran = timed.run(["/bin/sh", "-c", script, "-", str(child)], 2, 1 << 16)

    assert (ran.out, ran.problem) == ("done\n", "" if ends == "true" else "no end within 2 s")
    assert gone(child)


def test_a_process_that_is_not_its_own_runs_on() -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        shell("true")
        running = other.poll() is None
        other.kill()

    assert running


def test_a_process_that_cannot_be_killed_is_not_waited_for(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed, "_REST", 0.2)
    child = tmp_path / "child"
    with monkeypatch.context() as patched:
        patched.setattr(os, "kill", lambda _number, _signal: None)
        ran = shell(
            f"setsid sh -c 'echo $$ > {child}; exec sleep 60' & until test -s {child}; do :; done; echo"
        )

    os.kill(int(child.read_text(encoding="ascii")), 9)
    assert (ran.rc, ran.out) == (0, "\n")


def test_output_byte_by_byte_is_whole() -> None:
    script = "import os\nfor _number in range(100_000): os.write(1, b'x')"

    ran = timed.run([sys.executable, "-S", "-c", script], 60, 1 << 20)

    assert (len(ran.out), ran.problem) == (100_000, "")


@pytest.mark.parametrize("stream", [1, 2])
def test_output_without_end_is_bounded(stream: int) -> None:
    """On the standard output it ends the program; on the other one it is skipped."""
    ran = shell(f"head -c 3000000 /dev/zero | tr '\\0' x >&{stream}; echo done", most=1 << 17)

    assert len(ran.out) <= 1 << 17
    assert ran.problem == ("it printed more than 131072 bytes" if stream == 1 else "")


@pytest.mark.parametrize("program", ["/no/such/program", "/etc/passwd", "a\0b"])
def test_one_that_cannot_be_started_is_named(program: str) -> None:
    with pytest.raises(HostError, match="cannot run"):
        timed.run([program], 1, 10)


@pytest.mark.parametrize(
    ("program", "there"),
    [("sh", True), ("/bin/sh", True), ("no-such-program", False), ("/etc/passwd", False)],
)
def test_a_program_is_installed_if_it_can_be_started(program: str, there: bool) -> None:
    assert timed.is_installed(program) is there


@pytest.mark.parametrize("way", ["no reader", "no output", "SIGTERM", "SIGHUP"])
def test_a_program_ends_with_the_controller_of_this_process(tmp_path: pathlib.Path, way: str) -> None:
    """One that is killed, or that has lost another node."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        os.dup2(writer, 1)
        os.close(writer)
        if way == "no output":  # from the start: no one was to read it
            os.close(1)
        seconds = 0.2 if way == "no output" else 60
        ran = shell(f"echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/own; sleep {seconds}")
        os._exit(ran.problem != ("" if way == "no output" else "its controller is gone"))
    os.close(writer)
    while not (tmp_path / "own").exists():
        time.sleep(0.02)
    if way.startswith("SIG"):
        os.kill(child, signal.Signals[way])
    else:
        os.close(reader)

    assert os.waitpid(child, 0)[1] == 0
    assert gone(tmp_path / "own")
