# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts for Slurm, between a preflight and a scontrol that answer as a test wants."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT

FOLDER = ROOT / "scripts/slurm"
#: Of the role, which sends it as one word
ROLE_SCRIPT = ROOT / "roles/node/files/slurm.sh"
GUIDE = (ROOT / "docs/guide/slurm.md").read_text(encoding="utf-8")

#: Two lines and quotes, as no one should write them into a reason
FAILURE = "fail: drift, node: vm.swappiness \"60\" $(id) 'x' (and 1 more)"

OUT = "out of service"


class Node:
    """A node on which preflight says `line` and ends with `status`, and slurmctld shows `state`."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.environment = {
            "PATH": f"{folder}:/usr/bin:/bin",
            "SLURMD_NODENAME": "gpu001",
            "SLURM_JOB_ID": "7",
        }
        for name in ("logger", "scontrol"):
            self.program(name, "exit 0")

    def program(self, name: str, body: str) -> None:
        """A program that notes its arguments, one in a line."""
        path = self.folder / name
        path.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> "{self.folder}/{name}.log"\n{body}\n')
        path.chmod(0o755)

    def preflight(self, status: int, line: str = "") -> None:
        (self.folder / "line").write_text(line)
        self.program("mlnode", f'cat "{self.folder}/line"; exit {status}')

    def slurmctld(self, state: str, rc: int = 0) -> None:
        shown = f"NodeName=gpu001 Arch=x86_64 State={state} ThreadsPerCore=1 Reason=State=IDLE DRAIN"
        self.program("scontrol", f'case "$*" in *show*) echo "{shown}" ;; *) echo refused; exit {rc} ;; esac')

    def reboots(
        self,
        state: str,
        reason: str = "none",
        alias: str = "gpu001",
        then: str = "DOWN+DRAIN+REBOOT_ISSUED Extra=x Reason=two words : reboot issued",
    ) -> None:
        """slurmctld knows the node as alias, and takes requests. then: its state and reason after one."""
        words = f"{state} Extra=x" + (f" Reason={reason}" if reason else "")
        (self.folder / "now").write_text(f"NodeName=gpu001 OS=Linux 6.1 State={words}\n")
        (self.folder / "then").write_text(f"NodeName=gpu001 State={then}\n")
        cases = f"""'show aliases') echo '{alias}' ;; *show*) cat now ;; 'reboot ASAP'*) mv then now ;;"""
        self.program("scontrol", f'cd "{self.folder}"; case "$*" in {cases} esac')
        self.program("sleep", "exit 0")

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The role's script."""
        return subprocess.run(
            ["/bin/sh", "-c", ROLE_SCRIPT.read_text(encoding="utf-8"), "slurm", *words],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )

    def said(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [FOLDER / script], env=self.environment, capture_output=True, text=True, check=False, timeout=30
        )


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Node:
    return Node(tmp_path)


# -- prolog --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "expected"), [(0, 0), (3, 1), (1, 0), (2, 0), (124, 0), (137, 0), (127, 0)]
)
def test_a_prolog_keeps_a_job_from_a_node_that_fails(node: Node, status: int, expected: int) -> None:
    """Any status but 0 drains the node: what is unknown starts the job, and is logged."""
    node.preflight(status, FAILURE)
    done = node.run("prolog")

    assert done.returncode == expected
    assert node.said("mlnode") == "preflight\n--brief\n"
    assert node.said("scontrol") == "", "slurmd drains by itself"
    assert ("job 7: fail (exit status 3): " + FAILURE in node.said("logger")) == (status == 3)
    assert bool(node.said("logger")) == (status != 0)
    assert (FAILURE in done.stderr) == (status == 3)


def test_a_prolog_without_logger_decides_the_same(node: Node) -> None:
    node.program("logger", "exit 1")
    for status, expected in ((3, 1), (1, 0)):
        node.preflight(status)
        assert node.run("prolog").returncode == expected


def test_a_node_without_the_agent_runs_jobs(node: Node) -> None:
    if shutil.which("mlnode", path="/usr/local/sbin:/usr/local/bin:/usr/bin"):
        node.preflight(127)
    done = node.run("prolog")
    assert done.returncode == 0
    assert "unknown (exit status 127)" in node.said("logger")


# -- health check --------------------------------------------------------------------------


def test_a_node_that_fails_is_drained_with_its_reason(node: Node) -> None:
    node.preflight(3, FAILURE)
    node.slurmctld("IDLE")
    done = node.run("health-check")

    assert (done.returncode, done.stderr) == (0, "")
    words = node.said("scontrol").splitlines()
    assert words[:4] == ["--oneliner", "show", "node", "gpu001"]
    assert words[4:] == ["update", "NodeName=gpu001", "State=DRAIN", f"Reason=mlnode preflight: {FAILURE}"]


@pytest.mark.parametrize("state", ["IDLE+DRAIN", "ALLOCATED+DRAIN", "DOWN*", "FAILING", "DRAINED"])
def test_a_node_out_of_service_keeps_its_reason(node: Node, state: str) -> None:
    node.preflight(3, FAILURE)
    node.slurmctld(state)
    assert node.run("health-check").returncode == 0
    assert "update" not in node.said("scontrol")


@pytest.mark.parametrize("status", [0, 1, 2, 124, 127, 137])
def test_only_a_failure_drains(node: Node, status: int) -> None:
    node.preflight(status, "unknown: jobs")
    done = node.run("health-check")

    assert node.said("scontrol") == ""
    assert done.returncode == (1 if status else 0)
    assert bool(done.stderr) == bool(status)


def test_a_controller_that_refuses_is_reported(node: Node) -> None:
    node.preflight(3, FAILURE)
    node.slurmctld("IDLE", rc=1)
    done = node.run("health-check")
    assert done.returncode == 1
    assert done.stderr == f"cannot drain gpu001: refused; reason: {FAILURE}\n"

    node.program("scontrol", "echo no answer >&2; exit 1")
    done = node.run("health-check")
    assert done.returncode == 1
    assert done.stderr.startswith("cannot read the state of gpu001: no answer; not drained: fail: ")


def test_an_older_slurmd_names_no_node_and_gives_no_environment(node: Node) -> None:
    node.preflight(3)
    node.slurmctld("IDLE")
    del node.environment["SLURMD_NODENAME"]
    node.run("health-check")
    assert f"NodeName={os.uname().nodename.partition('.')[0]}\n" in node.said("scontrol")

    node.environment.clear()
    done = node.run("prolog")
    assert done.returncode == 0, "mlnode is not on the PATH of this machine"


# -- epilog --------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 1, 2, 3, 124, 127, 137])
def test_an_epilog_drains_with_the_reason_and_never_by_its_status(node: Node, status: int) -> None:
    node.preflight(status, FAILURE)
    node.slurmctld("COMPLETING")
    done = node.run("epilog")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (f"Reason=mlnode preflight: {FAILURE}" in node.said("scontrol")) == (status == 3)
    assert (f"job 7: mlnode preflight (exit status {status})" in node.said("logger")) == (
        status not in (0, 3)
    )


def test_an_epilog_reports_a_node_that_it_could_not_drain(node: Node) -> None:
    node.preflight(3, FAILURE)
    node.slurmctld("IDLE", rc=1)
    assert node.run("epilog").returncode == 0
    assert "job 7: cannot drain gpu001: refused" in node.said("logger")


# -- reboots -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        *((state, "idle") for state in ("IDLE", "IDLE+CLOUD+PLANNED", "IDLE+MAINTENANCE+RESERVED")),
        *((state, "jobs") for state in ("ALLOCATED", "MIXED", "MIXED+CLOUD", "IDLE+COMPLETING")),
        *(
            (f"IDLE+{flag}", "out of service")
            for flag in ("DRAIN", "FAIL", "POWERED_DOWN", "REBOOT_REQUESTED")
        ),
        *((state, "out of service") for state in ("IDLE*", "ALLOCATED*+DRAIN", "ALLOCATED+DRAIN+COMPLETING")),
        *(
            (state, "out of service")
            for state in ("DOWN", "DOWN*", "UNKNOWN", "FUTURE", "ERROR", "", "NEWEST")
        ),
        # Its jobs are still being cleared.
        *(
            (f"{state}+COMPLETING", "out of service")
            for state in ("DOWN", "IDLE*", "UNKNOWN", "DOWN+RESERVED", "NEWEST")
        ),
        ("IDLE+DYNAMIC_NORM+NEWEST", "out of service"),
    ],
)
def test_only_states_that_are_known_are_in_service(node: Node, state: str, expected: str) -> None:
    node.reboots(state, "a State=IDLE [root@2026-11-30T18:27:55]")
    told = node.ask("look").stdout.splitlines()
    assert told == [expected, "gpu001", state, "a State=IDLE [root@2026-11-30T18:27:55]"]
    # A drain with another reason is not the request's.
    is_waiting = expected == OUT and "+DRAIN" not in state
    assert node.ask("wait", "two words").returncode == is_waiting

    done = node.ask("request", "two words", "60")

    request = "reboot\nASAP\nnextstate=resume\nreason=two words\ngpu001\n"
    assert (request in node.said("scontrol")) == (done.returncode == 0) == (expected != OUT)
    assert (f"gpu001 is out of service: {state}" in done.stderr) == (expected == OUT)


REQUESTED = "ALLOCATED+DRAIN+REBOOT_REQUESTED Reason=two words"


@pytest.mark.parametrize(
    ("then", "seconds", "words", "drained"),
    [
        (f"{REQUESTED} [root@now]", "0", "its jobs did not end within 0 s", ""),
        ("IDLE", "60", "others have cancelled the reboot: IDLE", ""),
        ("ALLOCATED+DRAIN Reason=x", "60", "others have cancelled the reboot: ALLOCATED+DRAIN x", ""),
        (
            REQUESTED.replace("two", "other"),
            "60",
            "others have drained it meanwhile: other words",
            "other words",
        ),
        (
            f"{REQUESTED}, RMA [1] [root@now]",
            "60",
            "others have drained it meanwhile: two words, RMA [1] [root@now]",
            "two words, RMA [1]",
        ),
    ],
)
def test_a_request_ends_once_others_decide(
    node: Node, then: str, seconds: str, words: str, drained: str
) -> None:
    """Slurm would resume a node after its reboot, whoever has drained it before."""
    node.reboots("ALLOCATED", then=then)
    done = node.ask("request", "two words", seconds)
    assert (done.returncode, done.stderr.strip()) == (1, words)
    undone = f"cancel_reboot\ngpu001\nupdate\nNodeName=gpu001\nState=DRAIN\nReason={drained}\n"
    assert (undone in node.said("scontrol")) == ("cancel_reboot" in node.said("scontrol")) == bool(drained)


def test_a_drain_that_cannot_be_set_again_is_said(node: Node) -> None:
    node.reboots("ALLOCATED", then=REQUESTED.replace("two", "other"))
    program = node.folder / "scontrol"
    program.write_text(program.read_text().replace('case "$*" in', 'case "$*" in update*) exit 1 ;;'))
    done = node.ask("request", "two words", "60")
    assert (done.returncode, "it is not drained again" in done.stderr) == (1, True)


def test_a_request_outlasts_a_slurmctld_that_does_not_answer(node: Node) -> None:
    node.reboots("ALLOCATED", then="")
    node.program("sleep", f"cd '{node.folder}'; printf 'x State=DOWN+REBOOT_ISSUED\n' >after; mv after soon")
    answers = "'show aliases') echo gpu001 ;; reboot*) rm now ;; *) cat now || { mv soon now; exit 1; } ;;"
    node.program("scontrol", f"cd '{node.folder}'; case \"$*\" in {answers} esac")
    assert node.ask("request", "two words", "60").returncode == 0


@pytest.mark.parametrize(
    ("state", "reason", "is_waiting"),
    [
        ("DOWN+DRAIN+REBOOT_ISSUED", "mlnode: x : reboot issued [root]", True),
        ("DOWN+DRAIN+REBOOT_ISSUED", "RMA [root]", True),
        ("DOWN*", "mlnode: x : reboot issued [root]", True),
        ("DOWN", "RMA [root]", True),
        ("IDLE+DRAIN", "mlnode: x : reboot issued [root]", True),
        ("IDLE+DRAIN", "RMA [root]", False),
        ("IDLE", "", False),
    ],
)
def test_the_wait_ends_with_a_drain_of_others(node: Node, state: str, reason: str, is_waiting: bool) -> None:
    node.reboots(state, reason)
    assert node.ask("wait", "mlnode: x").returncode == is_waiting


@pytest.mark.parametrize(
    ("state", "reason", "cancelled"),
    [
        ("ALLOCATED+DRAIN+REBOOT_REQUESTED", "mlnode: x [root]", True),
        ("ALLOCATED+DRAIN+REBOOT_REQUESTED", "mlnode: x, RMA [root]", False),
        ("ALLOCATED+DRAIN+REBOOT_REQUESTED", "new firmware [root]", False),
        ("DOWN+DRAIN+REBOOT_ISSUED", "mlnode: x : reboot issued [root]", False),
        ("IDLE", "mlnode: x [root]", False),
    ],
)
def test_only_its_own_request_is_cancelled(node: Node, state: str, reason: str, cancelled: bool) -> None:
    node.reboots(state, reason)
    told = node.ask("cancel", "mlnode: x").stdout.splitlines()
    assert (told[0] == "cancelled", "cancel_reboot\ngpu001" in node.said("scontrol")) == (
        cancelled,
        cancelled,
    )
    assert told[1:] == ["gpu001", state, reason]


def test_what_slurm_does_not_answer_is_an_error(node: Node) -> None:
    node.reboots("IDLE", alias="gpu001 gpu002")
    assert "expected one node of Slurm on this host, got gpu001 gpu002" in node.ask("look").stderr
    node.reboots("IDLE", alias="")
    assert (
        f"show\nnode\n{os.uname().nodename.partition('.')[0]}\n"
        in (node.ask("look"), node.said("scontrol"))[1]
    )
    for body in ("exit 1", "echo", "echo State=IDLE", "sleep 0; exit 124"):
        node.program("scontrol", body)
        for verb in ("look", "wait", "request", "cancel"):
            done = node.ask(verb, "x", "60")
            assert (done.returncode, done.stdout) == (1, ""), (body, verb)


# -- both ----------------------------------------------------------------------------------


@pytest.mark.parametrize("script", ["prolog", "health-check"])
@pytest.mark.parametrize("hangs", ["exec sleep 20", "setsid sleep 20 & wait"])
def test_a_preflight_that_hangs_is_unknown(node: Node, script: str, hangs: str) -> None:
    """Also one that no signal ends, as in a driver that hangs. With the limit shortened, as 4.6 s each would
    be most of this file's time."""
    text = (FOLDER / script).read_text(encoding="utf-8")
    assert text.count("timeout --kill-after=0.4 4.6 mlnode") == 1
    short = node.folder / "short"
    short.write_text(text.replace("--kill-after=0.4 4.6", "--kill-after=0.1 0.2"))
    short.chmod(0o755)
    node.program("mlnode", f"trap '' TERM; {hangs}")
    done = subprocess.run(
        [short], env=node.environment, capture_output=True, text=True, check=False, timeout=15
    )

    assert done.returncode == (0 if script == "prolog" else 1)
    assert "no result after" in node.said("logger") + done.stderr
    assert node.said("scontrol") == ""


@pytest.mark.parametrize("path", [*sorted(FOLDER.iterdir()), ROLE_SCRIPT], ids=lambda path: path.name)
def test_they_are_for_every_shell(path: pathlib.Path) -> None:
    assert os.access(path, os.X_OK)
    assert path == ROLE_SCRIPT or f"scripts/slurm/{path.name}" in GUIDE
    programs = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    for command in (["sh", "-n"], ["shellcheck", "--severity=style"]):
        if shutil.which(command[0], path=programs):
            done = subprocess.run(
                [*command, path],
                env={**os.environ, "PATH": programs},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
