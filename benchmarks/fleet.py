# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays over N nodes: containers with systemd, reached over SSH as real nodes are."""

from __future__ import annotations

import functools
import json
import pathlib
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from . import measure
from .measure import BenchError, Sample

ROOT = pathlib.Path(__file__).resolve().parents[1]
_SHARED = ROOT / "molecule/shared"
_PLAYS = ROOT / "benchmarks/plays"
_SITE = ROOT / "playbooks/site.yml"

#: A play while the nodes have no agent; the agent is then sent for this run only
BARE = "site --check, no agent"
_AGENT = "/usr/local/bin/mlnode"

#: Name → arguments of ansible-playbook. All of them become root, as all but the first need it.
PLAYS: dict[str, tuple[str, ...]] = {
    "ping": (str(_PLAYS / "ping.yml"),),
    "drift": (str(ROOT / "playbooks/drift.yml"),),
    "site --check": (str(_SITE), "--check"),
    "site": (str(_SITE),),
    "ansible.posix.sysctl": (str(_PLAYS / "peer.yml"), "--check"),
}

_SUITE = "trixie"


class Fleet:
    """Containers with these names; plays use the first ones.

    folder: for keys and inventories. programs: where Ansible is. recipe: of their image, if not the one of
    molecule's scenarios.
    """

    def __init__(
        self,
        names: Sequence[str],
        folder: pathlib.Path,
        programs: pathlib.Path,
        recipe: dict[str, Any] | None = None,
    ) -> None:
        self.names = [*names]
        self._folder = folder
        self._programs = programs
        self._recipe = recipe
        #: Additional variables of single nodes
        self.variables: dict[str, dict[str, Any]] = {}
        self._known: list[tuple[str, str]] = []

    def ansible(self, count: int, *arguments: str, **variables: Any) -> list[str]:
        """The command for a play over the first count nodes."""
        return [
            str(self._programs / "ansible-playbook"),
            f"--inventory={self._inventory(count)}",
            *([f"--extra-vars={json.dumps(variables)}"] if variables else []),
            *arguments,
        ]

    def _inventory(self, count: int) -> pathlib.Path:
        hosts = {name: {"lab_suite": _SUITE, **self.variables.get(name, {})} for name in self.names[:count]}
        reach = {"ansible_ssh_common_args": f"-F {self._folder}/ssh_config"}
        path = self._folder / f"nodes-{count}.json"
        groups = {"training": {"hosts": hosts, "vars": reach}, "inference": {}, "fabric": {}}
        path.write_text(json.dumps(groups), encoding="utf-8")
        return path

    def lab(self, play: str) -> None:
        """One of the plays that molecule's scenarios share."""
        variables: dict[str, Any] = {"molecule_ephemeral_directory": str(self._folder)}
        if self._recipe is not None:
            variables["lab_recipe"] = self._recipe
        measure.run(self.ansible(len(self.names), str(_SHARED / play), **variables), {})

    def declare(self) -> None:
        """Declare the nodes. They share one kernel, so one may see changes by another: nothing is
        reverted."""
        measure.run(self.ansible(len(self.names), str(_SITE)), {})

    def sample(
        self,
        count: int,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        fine: Sequence[int] = (0,),
    ) -> Sample:
        """One run of a play. Raises BenchError if it ends with another exit status, such as for a drifted
        node."""
        return self._sample(count, self.ansible(count, *arguments), environment or {}, fine)

    def runner(self, count: int, arguments: Sequence[str]) -> Sample:
        """The same with ansible-runner, as AWX does it."""
        program = str(self._programs / "ansible-runner")
        playbook, *more = arguments
        command = [program, "run", str(self._folder / "runner"), "--playbook", playbook, "--inventory"]
        (self._folder / "runner").mkdir(exist_ok=True)
        given = ["--cmdline", " ".join(more)] if more else []
        return self._sample(count, [*command, str(self._inventory(count)), *given], {})

    def _sample(
        self, count: int, command: Sequence[str], environment: Mapping[str, str], fine: Sequence[int] = (0,)
    ) -> Sample:
        before = self._spent(count)
        found = measure.run(command, environment, fine)
        cpu, received = (after - then for after, then in zip(self._spent(count), before))
        return Sample(found.wall, found.cpu, found.peak, cpu / 1e6, received)

    @contextmanager
    def bare(self, count: int) -> Iterator[None]:
        """The first containers without the agent that they have."""
        self._move(count, _AGENT, f"{_AGENT}.away")
        try:
            yield
        finally:
            self._move(count, f"{_AGENT}.away", _AGENT)

    def _move(self, count: int, old: str, new: str) -> None:
        for name in self.names[:count]:
            podman("exec", name, "mv", old, new)

    def _spent(self, count: int) -> tuple[int, int]:
        """Microseconds of CPU that the first containers have used, and bytes that have arrived there."""
        usage = received = 0
        for group, pid in self._processes()[:count]:
            lines = pathlib.Path(f"/sys/fs/cgroup{group}/cpu.stat").read_text(encoding="ascii").splitlines()
            usage += int(dict(line.split() for line in lines)["usage_usec"])
            lines = pathlib.Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii").splitlines()
            received += sum(int(line.split(":")[1].split()[0]) for line in lines if "eth0:" in line)
        return usage, received

    def _processes(self) -> list[tuple[str, str]]:
        """Control group and first process of each container."""
        if not self._known:
            answer = podman("inspect", "--format={{.State.CgroupPath}} {{.State.Pid}}", *self.names)
            for line in answer.splitlines():
                group, pid = line.split()
                self._known.append((group, pid))
        return self._known


def podman(*arguments: str, given: bytes | None = None) -> str:
    """Output of the command. Raises BenchError."""
    done = subprocess.run(["podman", *arguments], input=given, capture_output=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"podman {' '.join(arguments)}: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout.decode("utf-8", "replace")


@contextmanager
def started(made: Fleet, say: Callable[[str], None]) -> Iterator[Fleet]:
    """A started and declared fleet, removed in any case; the machine's own kernel settings are restored."""
    try:
        say(f"starting {len(made.names)} containers")
        made.lab("create.yml")
        say("declaring them as training nodes")
        made.declare()
        yield made
    finally:
        made.lab("destroy.yml")


def plays(made: Fleet, counts: Sequence[int], rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Number of nodes → play → figures."""
    found = {}
    for count in counts:
        say(f"plays over {count} nodes")
        measured = {
            name: functools.partial(made.sample, count, arguments) for name, arguments in PLAYS.items()
        }
        made.sample(count, PLAYS["ping"])  # the first one opens the connections
        figures = measure.document(measure.interleaved(rounds, measured, say))
        with made.bare(count):
            alone = {BARE: functools.partial(made.sample, count, PLAYS["site --check"])}
            figures.update(measure.document(measure.interleaved(rounds, alone, say)))
        found[str(count)] = figures
    return found
