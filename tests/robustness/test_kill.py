# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""kill -9 for every kind of knob, before every change and at any time: no file is torn, the next run does the
rest, and a revert brings back every byte.

For sysctl, THP and the agent, test_killed.py of the library kills a process at every single change;
test_confirm_killed.py does so for changes that undo themselves.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.effort import EFFORT, TRIED, half, some
from ansible_collections.mlnode.tuning.tests.unit.faults import start
from ansible_collections.mlnode.tuning.tests.unit.nodes import CASES, Case, Node, install, made
from mlnode.agent import node
from mlnode.engine import engine, origin, revert
from mlnode.knobs.limits.kind import kind as limits
from mlnode.knobs.nccl.kind import kind as nccl
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.knobs.thp.kind import kind as thp
from mlnode.model.errors import MlnodeError

from .gates import End, EndError, changes, guarded, hit
from .processes import copied, plain

pytestmark = pytest.mark.robustness

#: Changes of each kind before which the work ends, in `make test`; and processes that are killed at any time
POSITIONS, KILLS = 1, 24


#: An empty folder, in Node.tree()
FOLDER = ("/", 0)


def ends(machine: Node, position: int, work: Callable[[Node], object]) -> str:
    """Do the work until just before that change; which one that was."""
    TRIED["ends at a change"] += 1
    with guarded(machine, End(position)) as gate:
        try:
            work(machine)
        except (EndError, MlnodeError):
            pass
    return f"{position}: {hit(gate, machine)}"


def assert_whole(machine: Node, *known: Mapping[str, object], where: str) -> None:
    """Every file is one that was whole; what only a killed run leaves is for the next one."""
    for path, found in machine.tree().items():
        if path.startswith(("/proc", "/sys")) or path.endswith(".mlnode-tmp") or "/run/" in path:
            continue
        if found == FOLDER:  # for a file that did not get there
            continue
        if path in (origin.PATH, origin.COPY):
            json.loads(found[0])
        elif not path.startswith("/var/lib/mlnode/"):
            assert found in [state.get(path) for state in known], f"{where}: {path} is neither old nor new"


def undo(machine: Node) -> None:
    revert.revert(machine)
    machine.unload()


def tune(case: Case, machine: Node) -> None:
    door.apply(machine, case.request)


@pytest.mark.parametrize("kind", half(CASES, 1))
def test_an_apply_that_ends_anywhere(kind: str, folder: pathlib.Path) -> None:
    case = CASES[kind]
    machine, probe = made(case, folder / "node"), made(case, folder / "probe")
    bare = machine.state()
    install(probe)
    before = probe.tuned()
    found = changes(probe, partial(tune, case))
    after = probe.tuned()
    for turn, position in enumerate(some(range(1, len(found) + 1), POSITIONS)):
        for reverts_at_once in (False, True) if EFFORT > 1 else (turn % 2 == 1,):
            install(machine)
            where = ends(machine, position, partial(tune, case))
            assert_whole(machine, before, after, where=where)
            if not reverts_at_once:
                tune(case, machine)
                assert machine.tuned() == after, where
            undo(machine)
            assert machine.state() == bare, where


@pytest.mark.parametrize("kind", half(CASES, 0))
def test_a_revert_that_ends_anywhere(kind: str, folder: pathlib.Path) -> None:
    case = CASES[kind]
    machine, probe = made(case, folder / "node"), made(case, folder / "probe")
    bare = machine.state()
    for one in (machine, probe):
        install(one)
        tune(case, one)
    after = probe.tuned()
    for turn, position in enumerate(some(range(1, 1 + len(changes(probe, revert.revert))), POSITIONS)):
        where = ends(machine, position, revert.revert)
        assert_whole(machine, bare, after, where=where)
        if turn % 2:
            install(machine)
            tune(case, machine)
            assert machine.tuned() == after, where
        undo(machine)
        assert machine.state() == bare, where
        install(machine)
        tune(case, machine)


# -- a real process, at any time -----------------------------------------------------------


REQUESTS = (
    # One kernel file for each value: two of them would not change at once.
    engine.Request("default", sysctl, {"settings": {"vm.swappiness": 10, "net.core.rmem_max": 16777216}}),
    engine.Request("default", thp, {"defrag": "never", "khugepaged": {"defrag": 0}}),
    engine.Request("jobs", limits, {"nofile": 1048576}),
    engine.Request("jobs", nccl, {"variables": {"NCCL_DEBUG": "WARN"}}),
)


def tune_all(machine: Node) -> None:
    for request in REQUESTS:
        door.apply(machine, request)


def nothing(_machine: Node) -> None:
    """The node is as it was installed."""


#: What is killed → what came before it
WORKS: dict[Callable[[Node], object], tuple[Callable[[Node], object], ...]] = {
    tune_all: (nothing,),
    node.apply_all: (tune_all,),
    install: (tune_all,),
    revert.revert: (tune_all, install),
}


def loosened(machine: Node) -> None:
    """What an apply at boot has to do: values are the kernel's own, and a drop-in is gone."""
    machine.put("/proc/sys/vm/swappiness", "60\n")
    machine.remove("/etc/sysctl.d/zz-mlnode-default.conf")


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_a_process_that_is_killed_at_any_time(work: Callable[[Node], object], folder: pathlib.Path) -> None:
    template = plain(folder / "template")
    original = template.tree()
    for earlier in WORKS[work]:
        earlier(template)
    if work is node.apply_all:
        loosened(template)
    before = template.tree()
    # What only the first one does in a process (the agent is packed once) is not part of the work.
    work(copied(template, "first"))
    probe = copied(template, "probe")
    begin = time.monotonic()
    work(probe)
    window = time.monotonic() - begin
    after = probe.tuned()
    known = [original, before, after, *on_the_way(copied(template, "on-the-way"))]
    chance = random.Random(20)
    turns = KILLS * EFFORT // len(WORKS)
    killed = turn = 0
    while turn < turns or (killed <= 2 and turn < 10 * turns):
        turn += 1
        machine = copied(template, f"turn-{turn}")
        child = start(partial(work, machine))
        time.sleep(chance.uniform(0, window))
        os.kill(child, signal.SIGKILL)
        _pid, status = os.waitpid(child, 0)
        # A busy machine sleeps longer than asked for, and works at another pace than before.
        was_cut = os.WIFSIGNALED(status)
        window *= 1.2 if was_cut else 0.8
        killed += was_cut
        TRIED["SIGKILL"] += 1
        where = f"turn {turn}"
        assert_whole(machine, *known, where=where)
        work(machine)
        assert machine.tuned() == after, where
        revert.revert(machine)
        assert machine.tree() == original, where
        shutil.rmtree(machine.root)
    assert killed > 2, "nothing was cut off"


def on_the_way(machine: Node) -> Iterator[Mapping[str, object]]:
    """A declaration is written once for each of its kinds."""
    for request in REQUESTS:
        door.apply(machine, request)
        yield machine.tree()
