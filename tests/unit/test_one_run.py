# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/one_run.py with real processes, on a machine in a folder. podman, ip and the agent are stand-ins."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT

SWAPPINESS = "proc/sys/vm/swappiness"

#: Lists and removes the files of a folder as containers: name → label
PODMAN = """#!/bin/sh
cd "$ONE_RUN_ROOT/containers" || exit 1
if [ "$1" = ps ]; then
    for word; do case $word in --filter=label=*) label=${word#--filter=label=} ;; esac; done
    grep -lFx "$label" -- * 2>/dev/null
    exit 0
fi
for word; do case $word in -*|rm) ;; *) rm -f "$word" ;; esac; done
"""
IP = """#!/bin/sh
if [ "$1 $2" = "netns delete" ]; then rm "$ONE_RUN_ROOT/run/netns/$3"; fi
"""
AGENT = """#!/bin/sh
[ "$1" = revert ] && [ ! -e "$ONE_RUN_ROOT/refuses" ] || { echo "cannot revert" >&2; exit 1; }
rm -r "$ONE_RUN_ROOT/var/lib/mlnode" && echo 60 >"$ONE_RUN_ROOT/proc/sys/vm/swappiness" && rm "$0"
"""
#: What `make machine` and `make molecule` do to a machine, and a process that outlives them
CHANGES = """
import os, pathlib, subprocess, sys, time
from one_run import ROOT, tuned
(ROOT / "containers/one").write_text("mlnode.run=" + os.environ["MLNODE_RUN"] + "\\n")
(ROOT / "run/netns" / f"mlnode-rail-{os.getpid()}-node").touch()
(ROOT / "run/netns/mlnode-bench-a").touch()
with tuned(str(ROOT / "etc/zzz.conf")):
    (ROOT / "etc/zzz.conf").touch()
    (ROOT / "var/lib/mlnode").mkdir()
    (ROOT / "proc/sys/vm/swappiness").write_text("1\\n")
    (ROOT / "proc/sys/vm/min_free_kbytes").write_text("2\\n")
    outlives = subprocess.Popen(["sleep", "60"], stderr=subprocess.DEVNULL, start_new_session=True)
    (ROOT / "began").write_text(str(outlives.pid))
    time.sleep(60)
"""


class Lab:
    """Two checkouts on one machine."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.root = folder / "machine"
        self.environment = {
            **{
                name: value for name, value in os.environ.items() if name not in ("MLNODE_RUN", "MLNODE_WAIT")
            },
            "ONE_RUN_ROOT": str(self.root),
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
        }
        self.checkouts = [folder / name for name in ("first", "second")]
        for checkout in self.checkouts:
            for name in ("tools/one_run.py", "molecule/shared/host_knobs.py"):
                (checkout / name).parent.mkdir(parents=True)
                shutil.copy(ROOT / name, checkout / name)
            self._program(checkout / "tools/container-lab.sh", '#!/bin/sh\nexec "$@"\n')
        self._program(folder / "bin/podman", PODMAN)
        self._program(folder / "bin/ip", IP)
        for name in ("containers", "run/netns", "etc", "var/lib", "proc/sys/vm"):
            (self.root / name).mkdir(parents=True)
        self._program(self.root / "usr/local/bin/mlnode", AGENT)
        self.put(SWAPPINESS, "60\n")
        self.put("proc/sys/vm/min_free_kbytes", "67584\n")
        # Of somebody else, and of a run whose process is alive
        self.put("containers/other", "mlnode.run=\n")
        self.put(f"run/netns/mlnode-test-{os.getpid()}", "")
        self.put("run/netns/other", "")
        self.before = self.tree()

    def _program(self, path: pathlib.Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def put(self, path: str, text: str) -> None:
        (self.root / path).write_text(text)

    def now(self, path: str) -> str:
        return (self.root / path).read_text().rstrip("\n")

    def tree(self) -> dict[str, str]:
        """Of a machine that no run has: the agent is removed by a revert, and the lock stays."""
        own = ("run/mlnode-tests.lock", "usr/local/bin/mlnode", "began", "said")
        files = [path for path in self.root.rglob("*") if path.is_file()]
        return {
            name: self.now(name) for path in files if (name := str(path.relative_to(self.root))) not in own
        }

    def command(self, *words: str, at: int = 0) -> list[str]:
        return [sys.executable, str(self.checkouts[at] / "tools/one_run.py"), *words]

    def run(self, *words: str, at: int = 1, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words, at=at), env={**self.environment, **environment}, capture_output=True,
            text=True, check=False, timeout=60,
        )  # fmt: skip

    @contextlib.contextmanager
    def started(self, *words: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
        """With a session of its own, as a terminal gives it."""
        with (self.root / "said").open("wb") as said:
            process = subprocess.Popen(
                self.command(*words),
                env={**self.environment, **environment},
                stderr=said,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    @contextlib.contextmanager
    def changing(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """A run that has changed the machine, and goes on."""
        path = str(self.checkouts[0] / "tools")
        with self.started(*options, sys.executable, "-c", CHANGES, PYTHONPATH=path) as process:
            wait_for(lambda: (self.root / "began").exists() and self.now("began") != "")
            yield process

    def kill(self, process: subprocess.Popen[bytes]) -> int:
        """The whole tree, and return the process that is in none any more."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return int(self.now("began"))


@pytest.fixture
def lab(tmp_path: pathlib.Path) -> Lab:
    return Lab(tmp_path)


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def ended(pid: int) -> bool:
    """A zombie of a container's first process counts."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_what_a_killed_run_has_left_is_put_back_by_the_next_one(lab: Lab) -> None:
    with lab.changing("--name", "make machine") as process, subprocess.Popen(["sleep", "60"]) as stranger:
        try:
            outlives = lab.kill(process)
            assert lab.tree() != lab.before
            assert not ended(outlives)

            done = lab.run(
                "sh",
                "-c",
                'cd "$ONE_RUN_ROOT/proc/sys/vm"; printf "%s %s" $(cat min_free_kbytes) $(cat swappiness)',
            )

            assert (done.returncode, done.stdout) == (0, "67584 60"), done.stderr
            assert f"cleaning up after make machine (PID {process.pid}, since " in done.stderr
            assert lab.tree() == lab.before
            wait_for(lambda: ended(outlives))
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_after_a_reboot_the_files_are_reverted_and_values_left(lab: Lab) -> None:
    """Which are those of the new boot."""
    with lab.changing() as process:
        lab.kill(process)
    path = lab.root / "var/lib/mlnode-tests/run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "boot": "another", "pid": os.getpid()}))
    snapshot = lab.root / "run/mlnode-container-lab.knobs.json"
    snapshot.unlink()  # as /run is empty then
    lab.put("proc/sys/vm/min_free_kbytes", "90112\n")

    assert lab.run("true").returncode == 0
    assert lab.tree() == {**lab.before, "proc/sys/vm/min_free_kbytes": "90112"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_run_that_is_interrupted_puts_back_at_once(lab: Lab, number: signal.Signals) -> None:
    with lab.changing() as process:
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.send_signal(number)
        assert process.wait(30) != 0
    assert lab.tree() == lab.before


def test_what_a_command_leaves_is_put_back_at_its_end(lab: Lab) -> None:
    """As where molecule ran out of time."""
    leave = 'echo "mlnode.run=$MLNODE_RUN" >"$ONE_RUN_ROOT/containers/one"; exit 7'
    assert lab.run("sh", "-c", leave).returncode == 7
    assert lab.tree() == lab.before


def test_a_second_run_waits_and_says_for_whom(lab: Lab) -> None:
    with lab.changing("--name", "make machine") as first, lab.started(
        "touch", str(lab.root / "second")
    ) as second:
        wait_for(lambda: "waiting" in lab.now("said"))
        line = lab.now("said")
        assert f"another run is under way on this machine: make machine (PID {first.pid}, since " in line
        assert f"in {lab.checkouts[0]}); waiting" in line
        time.sleep(0.3)
        assert not (lab.root / "second").exists()
        first.terminate()
        assert second.wait(30) == 0
        assert (lab.root / "second").exists()


def test_a_limited_wait_ends_without_a_change(lab: Lab) -> None:
    with lab.changing():
        before = lab.tree()
        done = lab.run("touch", str(lab.root / "second"), MLNODE_WAIT="0.1")
        assert done.returncode == 1
        assert "another run is under way" in done.stderr
        assert "nothing was done" in done.stderr
        assert lab.tree() == before


def test_a_command_of_a_run_is_a_part_of_it(lab: Lab) -> None:
    inner = lab.command("sh", "-c", "echo inner; exit 3")
    done = lab.run(*inner)
    assert (done.returncode, done.stdout) == (3, "inner\n"), done.stderr


def test_a_part_of_a_killed_run_ends(lab: Lab) -> None:
    """It would go on beside the next one, which has ended all that it found."""
    done = lab.run("echo", "inner", MLNODE_RUN="00")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the run that this belongs to was killed" in done.stderr


def test_what_cannot_be_put_back_ends_the_next_run_and_is_tried_again(lab: Lab) -> None:
    with lab.changing() as process:
        lab.kill(process)
    lab.put("refuses", "")
    done = lab.run("echo", "second")
    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot revert" in done.stderr
    assert str(lab.root / "var/lib/mlnode-tests") in done.stderr
    # All else is back.
    assert not (lab.root / "containers/one").exists()
    (lab.root / "refuses").unlink()

    assert lab.run("true").returncode == 0
    assert lab.tree() == lab.before


def test_what_a_user_has_tuned_stays(lab: Lab) -> None:
    """`make site` on the machine itself, and an end of it that nobody meant."""
    with lab.started("--keep", "sh", "-c", f'echo 1 >"$ONE_RUN_ROOT/{SWAPPINESS}"; sleep 60') as process:
        wait_for(lambda: lab.now(SWAPPINESS) == "1")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert lab.run("true").returncode == 0
    assert lab.tree() == {**lab.before, SWAPPINESS: "1"}


def test_a_number_that_another_process_has_by_now_is_not_the_run(lab: Lab) -> None:
    with lab.changing() as process:
        lab.kill(process)
    path = lab.root / "var/lib/mlnode-tests/run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "pid": os.getpid()}))
    assert lab.run("true").returncode == 0
    assert lab.tree() == lab.before


def test_values_of_a_lab_by_hand_stay(lab: Lab) -> None:
    """`molecule converge` leaves containers and values on purpose."""
    snapshot = str(lab.root / "run/mlnode-container-lab.knobs.json")
    knobs = str(lab.checkouts[0] / "molecule/shared/host_knobs.py")
    subprocess.run([sys.executable, knobs, "save", snapshot], env=lab.environment, check=True)
    lab.put(SWAPPINESS, "1\n")
    assert lab.run("true").returncode == 0
    assert lab.now(SWAPPINESS) == "1"
    subprocess.run([sys.executable, knobs, "restore", snapshot], env=lab.environment, check=True)
    assert lab.tree() == lab.before


def test_a_folder_that_others_may_enter_is_refused(lab: Lab) -> None:
    (lab.root / "var/lib/mlnode-tests").mkdir()
    (lab.root / "var/lib/mlnode-tests").chmod(0o755)
    done = lab.run("echo", "on")
    assert (done.returncode, done.stdout) == (1, "")
    assert "0700" in done.stderr
