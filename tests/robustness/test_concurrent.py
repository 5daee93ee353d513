# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of every sort at the same time, in processes of their own: what comes out could have come out of the
same runs one after the other, and a look meanwhile reads no half-written file."""

from __future__ import annotations

import itertools
import os
import pathlib
import re
import shutil
import signal
from collections.abc import Callable, Sequence
from functools import partial

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.effort import EFFORT, TRIED, some
from ansible_collections.mlnode.tuning.tests.unit.faults import start
from ansible_collections.mlnode.tuning.tests.unit.nodes import Node, install
from mlnode.agent import node
from mlnode.engine import declared, engine, lock, revert
from mlnode.engine.kind import Kind, Spec
from mlnode.engine.origin import Origin
from mlnode.knobs.nccl.kind import kind as nccl
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.knobs.thp.kind import kind as thp
from mlnode.model.errors import MlnodeError
from mlnode.model.setting import Layer

from .processes import Atomic, copied, plain

pytestmark = pytest.mark.robustness

#: Two and three runs at the same time, of those that there are
PAIRS, TRIPLES = 12, 6

#: What a look may say while a run is at work
MEANWHILE = re.compile("nothing is declared|which does not declare|no declaration here has")


def _declare(name: str, kind: Kind, spec: Spec, *layers: Layer) -> Callable[[Node], object]:
    def declare(machine: Node) -> None:
        door.apply(machine, engine.Request(name, kind, kind.checked(spec), layers or tuple(Layer)))

    return declare


def _boot(machine: Node) -> None:
    node.apply_all(machine)


WORKS: dict[str, Callable[[Node], object]] = {
    "two values": _declare("default", sysctl, {"settings": {"vm.swappiness": 10, "vm.max_map_count": 9}}),
    "one value": _declare("default", sysctl, {"settings": {"vm.swappiness": 1}}),
    "conflict": _declare("other", sysctl, {"settings": {"vm.swappiness": 30}}),
    "thp": _declare("default", thp, {"defrag": "never"}),
    "nccl": _declare("jobs", nccl, {"variables": {"NCCL_DEBUG": "WARN"}}),
    "image": _declare("default", sysctl, {"settings": {"vm.swappiness": 5}}, Layer.BOOT),
    "install": install,
    "boot": _boot,
    "revert": revert.revert,
}


def tuned(machine: Node) -> dict[str, object]:
    """What counts, and what is remembered; the order in which it was is that of the runs."""
    remembered = sorted(str(entry["id"]) for entry in Origin.load(machine).entries())
    return {**machine.tuned(), "remembered": remembered}


def attempt(name: str, machine: Node) -> None:
    """A run that is refused, as another one declares something else, changes nothing."""
    refused = ""
    try:
        WORKS[name](machine)
    except MlnodeError as error:
        refused = str(error)
    assert not refused or "must agree" in refused, f"{name}: {refused}"


def look(machine: Node) -> None:
    """Until it is killed; every file that it reads is a whole one. Without the lock some may be as they were
    before a run, and others as they are after it."""
    while True:
        machine.forget()
        found = node.survey(machine)
        damaged = [words for words in found.errors if not MEANWHILE.search(words)]
        assert not damaged, damaged
        Origin.load(machine)
        declared.load_all(machine)


def at_once(machine: Node, names: Sequence[str]) -> None:
    """All of them, each in a process that waits for the same moment."""
    reader, writer = os.pipe()

    def work(name: str) -> None:
        os.close(writer)
        os.read(reader, 1)  # ends when nobody can write any more
        attempt(name, machine)

    TRIED["runs at the same time"] += 1
    children = [start(partial(work, name)) for name in names]
    os.close(writer)
    os.close(reader)
    watcher = start(partial(look, machine))
    statuses = [os.waitpid(child, 0)[1] for child in children]
    os.kill(watcher, signal.SIGKILL)
    _pid, seen = os.waitpid(watcher, 0)
    assert statuses == [0] * len(names), names
    assert seen == signal.SIGKILL, "what looked meanwhile has failed"


def one_after_the_other(template: Node, names: Sequence[str]) -> list[dict[str, object]]:
    found = []
    for order in sorted({*itertools.permutations(names)}):
        machine = copied(template, "serial")
        for name in order:
            attempt(name, machine)
        found.append(tuned(machine))
        shutil.rmtree(machine.root)
    return found


_PAIRS = list(itertools.combinations_with_replacement(WORKS, 2))
_TRIPLES = list(itertools.combinations(WORKS, 3))


@pytest.mark.parametrize("names", [*some(_PAIRS, PAIRS), *some(_TRIPLES, TRIPLES)], ids=", ".join)
def test_runs_at_the_same_time(
    names: tuple[str, ...], folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "_POLL_SECONDS", 0.001)
    template = plain(folder / "template")
    before = template.tree()
    possible = one_after_the_other(template, names)
    for turn in range(EFFORT):
        machine = copied(template, f"turn-{turn}")
        at_once(machine, names)
        assert tuned(machine) in possible, names
        assert not os.path.exists(machine.root + lock.LOCK_PATH)
        revert.revert(machine)
        assert machine.tree() == before
        shutil.rmtree(machine.root)


def test_many_runs_of_all_sorts(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than can be tried one after the other in every order: none fails, and a revert brings all back."""
    monkeypatch.setattr(lock, "_POLL_SECONDS", 0.001)
    machine = plain(folder / "node")
    assert isinstance(machine, Atomic)
    before = machine.tree()
    for _turn in range(EFFORT):
        at_once(machine, [*WORKS, *WORKS])
    revert.revert(machine)
    assert machine.tree() == before
