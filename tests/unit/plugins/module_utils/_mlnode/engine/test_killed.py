# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""kill -9 at any change: no torn file, a true origin, and everything works afterwards."""

from __future__ import annotations

import json
import os
import pathlib
import random
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.effort import EFFORT
from ansible_collections.mlnode.tuning.tests.unit.faults import Gated, kills, start
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import install as agent
from mlnode.engine import declared, engine, lock, origin, revert
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.knobs.thp.kind import kind as thp
from mlnode.model.setting import Layer
from mlnode.model.values import chosen, same

pytestmark = pytest.mark.robustness

Tree = dict  # of path → (content, mode), as Machine.tree() gives it

DECLARATION = declared.path_of("default")  # written once for each kind

SETTINGS = {"vm.swappiness": 10, "vm.dirty_bytes": 268435456, "net.ipv4.tcp_congestion_control": "bbr"}


def tune(machine: Machine) -> None:
    door.apply(machine, engine.Request("default", sysctl, {"settings": SETTINGS}))


def tune_thp(machine: Machine) -> None:
    door.apply(machine, engine.Request("default", thp, {"enabled": "madvise", "defrag": "never"}))


def tune_defrag(machine: Machine) -> None:
    door.apply(machine, engine.Request("default", thp, {"defrag": "never"}))


def declare_only(machine: Machine) -> None:
    layers = (Layer.BOOT,)
    door.apply(machine, engine.Request("default", sysctl, {"settings": SETTINGS}, layers))
    door.apply(machine, engine.Request("default", thp, {"enabled": "madvise"}, layers))
    agent.install(machine)


def tune_otherwise(machine: Machine) -> None:
    spec = {"settings": {"vm.swappiness": 1, "vm.max_map_count": 262144, "vm.dirty_ratio": 5}}
    door.apply(machine, engine.Request("default", sysctl, spec))


def nothing(machine: Machine) -> None:
    """The node is as it was installed."""


def make(folder: pathlib.Path, *works: Callable[[Machine], None]) -> Gated:
    machine = Gated.debian(str(folder))
    assert isinstance(machine, Gated)
    for work in works:
        work(machine)
    return machine


def copy(machine: Gated, name: str) -> Gated:
    target = pathlib.Path(machine.root).parent / name
    shutil.copytree(machine.root, target, symlinks=True)
    return Gated(str(target))


def ours(path: str) -> bool:
    """Files that only a killed run leaves: the half-written one, and the lock, which nobody holds."""
    return path.endswith(".mlnode-tmp") or path == lock.LOCK_PATH


def assert_whole(machine: Machine, states: Sequence[Tree], where: str) -> None:
    for path, found in machine.tree().items():
        if not ours(path):
            assert found in [state.get(path) for state in states], f"{where}: {path} is neither old nor new"


def assert_true_origin(machine: Machine, original: Tree, where: str) -> None:
    text = machine.content(origin.PATH)
    if text is None:
        return
    document: Any = json.loads(text)
    for entry in document["entries"]:
        kind, _colon, path = entry["id"].partition(":")
        if kind == "kernel":
            assert same(chosen(original[path][0]), entry["value"]), f"{where}: {path}"
        elif kind == "file":
            assert (entry["saved"] is None) is (path not in original), f"{where}: {path}"


def assert_recovers(
    machine: Gated, work: Callable[[Machine], None], after: Tree, original: Tree, where: str
) -> None:
    """A fresh run reaches the very same state, and a revert the very first one."""
    work(machine)
    assert machine.tree() == after, where
    revert.revert(machine)
    assert machine.tree() == original, where


@pytest.mark.parametrize(
    ("prepare", "work"),
    [(nothing, tune), (nothing, tune_thp), (tune_otherwise, tune), (nothing, agent.install)],
    ids=["sysctl", "thp", "sysctl again", "agent"],
)
def test_an_apply_killed_anywhere(
    tmp_path: pathlib.Path, prepare: Callable[[Machine], None], work: Callable[[Machine], None]
) -> None:
    original = make(tmp_path / "original").tree()
    template = make(tmp_path / "template", prepare)
    before = template.tree()
    probe = copy(template, "probe")
    work(probe)
    after = probe.tree()
    for machine, where in kills(template, work):
        # What leaves the declaration goes back before anything else is set.
        assert_whole(machine, [before, original, after], where)
        assert_true_origin(machine, original, where)
        undone = copy(machine, "undone")
        revert.revert(undone)
        assert undone.tree() == original, f"{where}, and reverted at once"
        assert_recovers(machine, work, after, original, where)
        shutil.rmtree(undone.root)


def test_a_revert_killed_anywhere(tmp_path: pathlib.Path) -> None:
    original = make(tmp_path / "original").tree()
    template = make(tmp_path / "template", tune_otherwise)
    # Going back, vm.dirty_ratio passes the value it had before vm.dirty_bytes was declared.
    between = template.tree()
    for work in (tune_defrag, tune, agent.install):
        work(template)
    before = template.tree()
    for machine, where in kills(template, revert.revert):
        assert_whole(machine, [before, between, original], where)
        assert_true_origin(machine, original, where)
        revert.revert(machine)
        assert machine.tree() == original, where


def test_a_revert_killed_anywhere_can_be_applied_over(tmp_path: pathlib.Path) -> None:
    original = make(tmp_path / "original").tree()
    template = make(tmp_path / "template", tune)
    after = {path: found for path, found in template.tree().items() if path != origin.PATH}
    for machine, where in kills(template, revert.revert):
        tune(machine)
        now = machine.tree()
        assert {path: found for path, found in now.items() if path != origin.PATH} == after
        assert_true_origin(machine, original, where)
        revert.revert(machine)
        assert machine.tree() == original, where


def test_an_apply_killed_at_any_time(tmp_path: pathlib.Path) -> None:
    """Not between two changes, but wherever it is just then; files only, as the kernel behind them here is
    a small program that would be killed as well."""
    original = make(tmp_path / "original").tree()
    template = make(tmp_path / "template")
    probe = copy(template, "probe")
    declare_only(probe)
    after = probe.tree()
    chance = random.Random(20)
    for turn in range(6 * EFFORT):
        machine = copy(template, f"turn-{turn}")
        child = start(partial(declare_only, machine))
        time.sleep(chance.uniform(0, 0.06))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        where = f"turn {turn}"
        half = {path: found for path, found in machine.tree().items() if path != origin.PATH}
        for path, found in half.items():
            known = (original.get(path), after.get(path))
            assert ours(path) or path == DECLARATION or found in known, f"{where}: {path} is torn"
        assert_true_origin(machine, original, where)
        assert_recovers(machine, declare_only, after, original, where)
