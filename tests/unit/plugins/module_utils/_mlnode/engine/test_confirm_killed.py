# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""kill -9 at every change that a commit-confirm makes: the node always ends as it was, or confirmed."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import time
from collections.abc import Iterator, Sequence

import pytest
from ansible_collections.mlnode.tuning.tests.unit.faults import Gated, in_memory, kills
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.engine import confirm, confirm_store, lock
from mlnode.engine.confirm_store import CONFIRMED, PENDING, UNDONE, Pending
from mlnode.engine.lock import locked
from mlnode.engine.origin import Entry, Origin
from mlnode.engine.steps import FileWrite, KernelWrite, Step
from mlnode.engine.transaction import Transaction
from mlnode.host.system import Finished
from mlnode.model.errors import MlnodeError
from mlnode.model.setting import KnobFile, Write

pytestmark = pytest.mark.robustness

MTU = "/sys/class/net/eth0/mtu"
RULES = "/etc/udev/rules.d/90-mlnode.rules"
DECLARED = "/etc/mlnode/declared.d/default.json"
AGENT = "/usr/local/bin/mlnode"


class Node(Gated):
    """With systemd and the agent; the timer itself runs only in words."""

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if command[0] in ("systemd-run", AGENT):
            self.gate.step(f"run {command[0]}")
            return Finished(0, "usage: mlnode undo [-h] [--when-due] ID\n", "")
        return super().run(command, seconds)


@pytest.fixture
def folder() -> Iterator[pathlib.Path]:
    yield from in_memory()


def make(folder: pathlib.Path) -> Node:
    node = Node.debian(str(folder), {MTU: "1500"})
    assert isinstance(node, Node)
    node.put("/run/systemd/system/.keep", "")
    node.put(AGENT, "", 0o755)
    return node


def copy(node: Node, name: str) -> Node:
    target = pathlib.Path(node.root).parent / name
    shutil.copytree(node.root, target, symlinks=True)
    return Node(str(target))


def change(node: Machine) -> None:
    """As the engine does it: in stages, after the last of which the time to confirm begins again."""
    stages: list[list[Step]] = [
        [
            KernelWrite(
                "nic.mtu",
                KnobFile(0, MTU, "1500", "9000", (Write(MTU, "1500"),), device="/sys/class/net/eth0"),
            ),
            FileWrite(DECLARED, DECLARED, b"new\n"),
        ],
        [FileWrite(RULES, RULES, b"rule\n", notify="units")],
    ]
    waits: list[Pending] = []

    def arm(entries: Sequence[Entry], fresh: Sequence[Entry]) -> bool:
        if waits:
            waits.append(confirm.extend(node, waits[-1], entries, fresh))
        else:
            waits.append(confirm.arm(node, "default", 60, entries, fresh, "mtu of eth0"))
        return True

    with locked(node):
        confirm.refuse_while_pending(node)
        with Transaction(node, Origin.load(node), arm) as work:
            for stage in stages:
                work.perform(stage)
            confirm.restart(node, waits[-1])


def id_of(node: Machine) -> str:
    found = confirm_store.load_pending(node)
    assert found is not None
    return found.id


def lapse(node: Machine) -> None:
    text = node.content(PENDING)
    if text is not None:
        node.put(PENDING, json.dumps({**json.loads(text), "due": time.monotonic() - 1}), 0o600)


def settle(node: Machine) -> None:
    """What the next run does first, once the time is over, and what it tells afterwards."""
    lapse(node)
    with locked(node):
        confirm.refuse_while_pending(node)
    confirm_store.acknowledge(node)


def tree(node: Machine) -> dict[str, tuple[str, int]]:
    """What counts: not what a killed run leaves for the next one to take over, nor an empty folder."""
    return {
        path: found
        for path, found in node.tree().items()
        if not path.endswith(".mlnode-tmp") and path != lock.LOCK_PATH and found[0] != "/"
    }


def test_a_change_killed_anywhere_undoes_itself(folder: pathlib.Path) -> None:
    template = make(folder / "template")
    before = tree(template)

    for node, where in kills(template, change):
        settle(node)
        now = tree(node)
        # The origin may be on disk before anything waits: then nothing has been changed, and it is true.
        assert {path: now[path] for path in now if not path.startswith("/var/lib/mlnode/")} == before, where
        change(node)  # and the next one finds nothing in its way
        confirm.undo(node)


def test_a_change_killed_anywhere_is_undone_by_its_own_restore(folder: pathlib.Path) -> None:
    """Also where it is killed while its time begins again: it waits until then, or until the first end."""
    template = make(folder / "template")
    before = tree(template)
    began = time.monotonic()

    for node, where in kills(template, change):
        found = confirm_store.load_pending(node)
        if found is not None:
            assert began + 60 <= found.due <= time.monotonic() + 60, where
            lapse(node)
            assert confirm.undo_when_due(node, found.id), where
            confirm_store.acknowledge(node)
        now = tree(node)
        assert {path: now[path] for path in now if not path.startswith("/var/lib/mlnode/")} == before, where


def test_nothing_is_changed_before_what_undoes_it_is_on_disk(folder: pathlib.Path) -> None:
    template = make(folder / "template")

    for node, where in kills(template, change):
        changed = node.now(MTU) != "1500" or node.exists(DECLARED)
        assert not changed or node.exists(PENDING), where


@pytest.mark.parametrize("boot", [False, True])
def test_an_undo_killed_anywhere_can_be_repeated(folder: pathlib.Path, boot: bool) -> None:
    template = make(folder / "template")
    before = tree(template)
    change(template)

    for node, where in kills(template, confirm.undo):
        if boot:
            node.put("/proc/sys/kernel/random/boot_id", "another\n")
            node.put(MTU, "1500\n")
        settle(node)
        assert {path: found for path, found in tree(node).items() if "boot_id" not in path} == before, where


def test_an_undo_killed_anywhere_is_told_once_it_is_done(folder: pathlib.Path) -> None:
    template = make(folder / "template")
    change(template)
    known = id_of(template)

    for node, where in kills(template, confirm.undo):
        assert node.exists(PENDING) or node.exists(UNDONE), where
        assert f"was undone at {confirm.undo(node, known).time}" in confirm_store.report(node), where


def test_a_confirmation_killed_anywhere_is_all_or_nothing(folder: pathlib.Path) -> None:
    template = make(folder / "template")
    before = tree(template)
    change(template)
    known = id_of(template)
    after = {path: found for path, found in tree(template).items() if path != PENDING}

    def keep(node: Machine) -> None:
        confirm.confirm(node, known)

    for node, where in kills(template, keep):
        if node.exists(PENDING):
            again = copy(node, "again")
            assert confirm.confirm(again, known), where
            assert {path: found for path, found in tree(again).items() if path != CONFIRMED} == after, where
            shutil.rmtree(again.root)
            settle(node)
            assert {path: found for path, found in tree(node).items() if path != CONFIRMED} == before, where
            with pytest.raises(MlnodeError):
                confirm.undo(node, "00000000")
        else:
            assert not confirm.confirm(node, known), where
            assert {path: found for path, found in tree(node).items() if path != CONFIRMED} == after, where


def test_a_cancelled_change_killed_anywhere_leaves_nothing(folder: pathlib.Path) -> None:
    """A write is refused: the transaction rolls back and cancels, and may be killed at that."""
    template = make(folder / "template")
    before = tree(template)

    def fails(node: Machine) -> None:
        node.fails[MTU] = 30  # EROFS: no answer of the device
        try:
            change(node)
        except MlnodeError:
            with locked(node):
                confirm.cancel(node)

    for node, where in kills(template, fails):
        settle(node)
        now = tree(node)
        assert {path: now[path] for path in now if not path.startswith("/var/lib/mlnode/")} == before, where
        assert not os.path.exists(node.root + PENDING), where
