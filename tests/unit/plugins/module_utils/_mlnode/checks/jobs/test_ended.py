# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that end during the look. They are skipped, and the look at the others stays whole: jobs.yml
would call a missing value of one of them a deviation."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import pytest
from ansible_collections.mlnode.tuning.tests.unit.job_machine import process
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.checks.jobs import gather, run
from mlnode.checks.jobs.model import Node, Place
from mlnode.checks.model import Verdict
from mlnode.linux import job_processes, jobs
from mlnode.linux.job_processes import JobProcess
from mlnode.model.errors import HostError

from .looking import SCOPE, look, named

RANKS = (20, 21, 22)


def rank(
    node: Machine, pid: int, memory: str = "4096", net: Mapping[str, int] = MappingProxyType({})
) -> None:
    variables = [f"RANK={pid - 20}", "WORLD_SIZE=3", "OMP_NUM_THREADS=2"]
    process(
        node,
        pid,
        "python",
        "/dev/nvidia0",
        cgroup=SCOPE,
        environment=variables,
        memory=memory,
        root=RANKS[0],
        namespaces=net,
    )


@pytest.fixture
def node(trainer: Machine) -> Machine:
    for pid in RANKS:
        rank(trainer, pid)
    return trainer


def begin_to_end(node: Machine, pid: int) -> None:
    """Memory and environment are gone, and the rest follows."""
    rank(node, pid, memory="0")
    node.put(f"/proc/{pid}/environ", "")
    node.unreadable = {f"/proc/{pid}/mountinfo": errno.EINVAL}


def end(node: Machine, pid: int) -> None:
    shutil.rmtree(f"{node.root}/proc/{pid}")


def after(monkeypatch: pytest.MonkeyPatch, module: object, name: str, change: Callable[[], None]) -> None:
    """Make a change after the first call of a function."""
    real = getattr(module, name)
    changes = [change]

    def called(*given: object) -> object:
        result = real(*given)
        if changes:
            changes.pop()()
        return result

    monkeypatch.setattr(module, name, called)


@pytest.mark.parametrize("pid", RANKS)
@pytest.mark.parametrize(
    ("module", "name", "way"),
    [
        (job_processes, "with_devices", begin_to_end),
        (job_processes, "with_devices", end),
        (gather, "places", end),
    ],
    ids=["begins to end, listed", "ends, listed", "ends, gathered"],
)
def test_a_rank_that_ends_meanwhile_takes_no_value_of_others_along(
    node: Machine,
    monkeypatch: pytest.MonkeyPatch,
    module: object,
    name: str,
    way: Callable[[Machine, int], None],
    pid: int,
) -> None:
    whole = look(node)
    after(monkeypatch, module, name, lambda: way(node, pid))

    seen = look(node)

    (all_of_them,), (left,) = whole.places, seen.places
    assert [member.document() for member in left.processes] == [
        member.document() for member in all_of_them.processes if member.pid != pid
    ]
    assert (left.values, left.unknown) == (all_of_them.values, all_of_them.unknown)
    assert seen.unseen == ()


def test_processes_that_end_all_the_time_are_unknown(node: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """They make the look no longer than a few looks."""
    looks: list[int] = []
    real = gather.places

    def places(*given: object) -> object:
        looks.append(1)
        made = real(*given)  # type: ignore[arg-type]  # handed on
        given[0].ended.add([20, 21, 22][len(looks) - 1])  # type: ignore[attr-defined]  # a context
        return made

    monkeypatch.setattr(gather, "places", places)
    seen = look(node)
    assert (seen.places, len(looks)) == ((), run._LOOKS)
    assert named(seen, run.PROCESSES).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("when", ["places", "checks"])
@pytest.mark.parametrize("shared", [True, False], ids=["the node's network", "an own network"])
def test_processes_that_end_all_the_time_hide_no_others(
    node: Machine, monkeypatch: pytest.MonkeyPatch, when: str, shared: bool
) -> None:
    """Those of another job are judged."""
    net = {} if shared else {"net": 4026532900}
    for pid in RANKS:
        rank(node, pid, net=net)
    cgroup = "/slurm/uid_0/job_4711/step_0/task_0"
    for pid in (30, 31):
        process(node, pid, "trainer", "/dev/nvidia1", cgroup=cgroup, root=30)
    whole = look(node)
    ends = iter(RANKS)
    real = gather.places

    def places(known: Node, processes: Sequence[JobProcess]) -> list[Place]:
        pid = next(ends)
        if when == "places":
            end(node, pid)
            return real(known, processes)
        made = real(known, processes)
        known.ended.add(pid)
        return made

    monkeypatch.setattr(gather, "places", places)
    seen = look(node)

    (other,) = seen.places
    (before,) = (place for place in whole.places if place.first.job == other.first.job)
    assert [member.pid for member in other.processes] == [30, 31]
    assert (other.values, other.unknown) == (before.values, before.unknown)
    assert named(seen, run.PROCESSES).verdict is Verdict.UNKNOWN
    assert "1 of 3 processes" in named(seen, run.PROCESSES).found


@pytest.mark.parametrize("ended", [True, False])
def test_a_refused_link_counts_only_for_a_process_that_is_still_there(node: Machine, ended: bool) -> None:
    def process(pid: int) -> None:
        if pid == RANKS[0]:
            if ended:
                end(node, pid)
            raise HostError("read link", f"/proc/{pid}/fd/3", errno.EACCES)

    assert bool(jobs.each(node, process)) == (not ended)
