# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A restore whose timer goes off undoes what is due, and waits where the run has begun the time again, as
what comes after the change has taken some of it."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit.faults import in_child, in_memory
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import declare
from mlnode.agent.declare import Order, Result
from mlnode.agent.registry import KINDS
from mlnode.engine import confirm, confirm_store, transaction
from mlnode.engine.confirm_store import PENDING, Pending
from mlnode.engine.lock import locked
from mlnode.engine.origin import Entry, Origin
from mlnode.engine.steps import KernelWrite
from mlnode.host import detached
from mlnode.model.errors import HostError
from mlnode.model.setting import KnobFile, Write
from mlnode.topology import management

from ..knobs.nic.node import NicNode

MAPS = "/proc/sys/vm/max_map_count"
MTU = "/sys/class/net/eth4/mtu"
#: Of an area that comes after NICs
CONFIG = "/etc/nccl.conf"
DECLARED = "/etc/mlnode/declared.d/node.json"

#: How long a change waits to be confirmed, and how long what comes after it takes
SECONDS, SLOW = 60, 300


class Clock:
    """time, as the library sees it. meanwhile: what others do while a restore sleeps, called each time."""

    gmtime, strftime, time = (staticmethod(one) for one in (time.gmtime, time.strftime, time.time))

    def __init__(self) -> None:
        # Whole seconds: of a fraction, what is added may come back as a little more.
        self.now = float(int(time.monotonic()))
        self.slept: list[float] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        self.slept.append(seconds)
        self.meanwhile()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Lets the time of those who wait pass at once. Restores are started in words only."""
    found = Clock()
    monkeypatch.setattr(confirm, "time", found)
    monkeypatch.setattr(confirm_store, "time", found)
    monkeypatch.setattr(detached, "start", lambda _work: None)
    return found


def change(machine: Machine) -> Pending:
    armed: list[Pending] = []

    def arm(entries: Sequence[Entry], fresh: Sequence[Entry]) -> None:
        armed.append(confirm.arm(machine, "default", SECONDS, entries, fresh, "the words"))

    step = KernelWrite("vm.max_map_count", KnobFile(0, MAPS, "65530", "1", (Write(MAPS, "65530"),)))
    with locked(machine):
        transaction.run(machine, Origin.load(machine), [step], arm=arm)
    return armed[0]


# -- the restore ---------------------------------------------------------------------------------


def test_it_undoes_when_the_time_is_over_though_it_could_not_look_meanwhile(
    machine: Machine, clock: Clock
) -> None:
    armed = change(machine)
    text = machine.read(PENDING)
    clock.meanwhile = lambda: machine.put(PENDING, "{" if len(clock.slept) == 1 else text, 0o600)

    done = confirm.undo_when_due(machine, armed.id)

    assert sum(clock.slept) == SECONDS
    assert max(clock.slept) == 1
    assert machine.now(MAPS) == "65530"
    assert done is not None
    assert f"as it was not confirmed over a new connection within {SECONDS} s" in done.text


def test_it_undoes_at_once_what_is_due(machine: Machine, clock: Clock) -> None:
    armed = change(machine)
    clock.now += SECONDS

    assert confirm.undo_when_due(machine, armed.id)
    assert clock.slept == []
    assert machine.now(MAPS) == "65530"


@pytest.mark.parametrize("other", [False, True])
def test_it_leaves_what_is_not_its_own_change_and_ends_soon(
    machine: Machine, clock: Clock, other: bool
) -> None:
    armed = change(machine)
    before: list[object] = []

    def decide() -> None:
        confirm.confirm(machine, armed.id)
        if other:
            change(machine)
        before.append(machine.tree())

    clock.meanwhile = decide

    for _again in range(2):
        assert confirm.undo_when_due(machine, armed.id) is None
        assert [machine.tree()] == before
    assert clock.slept == [1]


def test_one_that_comes_while_there_is_time_waits_for_the_new_end(machine: Machine, clock: Clock) -> None:
    armed = change(machine)
    clock.now += 40
    with locked(machine):
        again = confirm.restart(machine, armed)
    clock.now += 20  # the timer goes off

    assert confirm.undo_when_due(machine, armed.id)
    assert sum(clock.slept) == 40
    assert clock.now == again.due
    assert machine.now(MAPS) == "65530"


@pytest.mark.parametrize("confirmed", [False, True])
def test_one_that_waits_for_the_lock_of_a_slow_run_heeds_the_new_end(
    machine: Machine, clock: Clock, monkeypatch: pytest.MonkeyPatch, confirmed: bool
) -> None:
    armed = change(machine)
    clock.now += SLOW
    real = confirm.locked

    @contextmanager
    def until_the_run_ends(host: Machine, wait_seconds: float) -> Iterator[list[str]]:
        assert wait_seconds == confirm.UNDO_WAIT
        monkeypatch.setattr(confirm, "locked", real)
        confirm.restart(machine, armed)
        with real(host, wait_seconds) as mended:
            yield mended

    def keep() -> None:
        if confirmed and len(clock.slept) == 30:
            assert confirm.confirm(machine, armed.id)

    monkeypatch.setattr(confirm, "locked", until_the_run_ends)
    clock.meanwhile = keep

    done = confirm.undo_when_due(machine, armed.id)

    assert (done is None, sum(clock.slept)) == ((True, 30) if confirmed else (False, SECONDS))
    assert machine.now(MAPS) == ("1" if confirmed else "65530")


def test_a_restart_gives_all_of_the_time_again_and_changes_nothing_else(
    machine: Machine, clock: Clock
) -> None:
    armed = change(machine)
    clock.now += SLOW
    assert not armed.left

    again = confirm.restart(machine, armed)

    assert again == confirm_store.load_pending(machine)
    assert (again.left, again.due) == (SECONDS, clock.now + SECONDS)
    assert again._replace(due=armed.due, deadline=armed.deadline) == armed


# -- a whole declaration -------------------------------------------------------------------------


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[NicNode]:
    """Managed over eth4."""
    monkeypatch.setattr(management, "connection", lambda _host: "10.0.0.9")
    monkeypatch.setattr(confirm, "_start", lambda _host, _armed: None)
    for folder in in_memory():
        yield NicNode.made(folder / "node")


AREAS: dict[str, dict[str, Any]] = {
    "nic": {"rules": {"m": {"nics": {"names": ["eth4"]}, "mtu": 9000}}, "allow": ["management"]},
    "nccl": {"variables": {"NCCL_DEBUG": "WARN"}},
}


def run(node: NicNode) -> Result:
    order = Order("node", KINDS, AREAS, tuple(KINDS), whole=True, confirm_seconds=SECONDS)
    return declare.run(node, order)


def during_the_later_area(
    monkeypatch: pytest.MonkeyPatch, node: NicNode, happens: Callable[[], object]
) -> None:
    real = NicNode.write_file

    def write_file(self: NicNode, path: str, content: bytes, mode: int | None = None) -> None:
        if path == CONFIG:
            assert node.now(MTU) == "9000", "this area is not the later one"
            happens()
        real(self, path, content, mode)

    monkeypatch.setattr(NicNode, "write_file", write_file)


def state(node: NicNode) -> tuple[str, bool, bool]:
    return node.now(MTU), node.exists(CONFIG), node.exists(DECLARED)


OLD = ("1500", False, False)
NEW = ("9000", True, True)


def test_a_later_area_that_is_slow_takes_nothing_of_the_time(
    node: NicNode, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pass_by() -> None:
        clock.now += SLOW
        found = confirm_store.load_pending(node)
        assert found is not None
        assert not found.left, "the timer has gone off by now, and waits for the lock"

    during_the_later_area(monkeypatch, node, pass_by)

    found = run(node)

    assert not found.failed, found.msg
    assert found.confirm["seconds"] == SECONDS
    clock.meanwhile = lambda: confirm.confirm(node, found.confirm["id"])
    assert confirm.undo_when_due(node, found.confirm["id"]) is None
    assert state(node) == NEW


def test_what_nobody_confirms_after_a_slow_area_is_undone_with_it(
    node: NicNode, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pass_by() -> None:
        clock.now += SLOW

    during_the_later_area(monkeypatch, node, pass_by)
    found = run(node)
    assert state(node) == NEW

    assert confirm.undo_when_due(node, found.confirm["id"])

    assert sum(clock.slept) == SECONDS
    assert state(node) == OLD


def test_a_run_that_is_killed_in_a_later_area_is_undone_when_the_first_time_is_over(
    node: NicNode, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    during_the_later_area(monkeypatch, node, lambda: os._exit(9))

    assert in_child(lambda: run(node)) == 9
    armed = confirm_store.load_pending(node)
    assert armed is not None
    assert node.now(MTU) == "9000"

    assert confirm.undo_when_due(node, armed.id)

    assert sum(clock.slept) == SECONDS
    assert state(node) == OLD


def test_a_time_that_cannot_begin_again_undoes_the_run(
    node: NicNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller would come too late to confirm it."""

    def full(*_told: object) -> Pending:
        raise HostError("write", PENDING, errno.ENOSPC)

    monkeypatch.setattr(confirm, "restart", full)

    found = run(node)

    assert found.failed
    assert f"cannot write {PENDING}: ENOSPC" in found.msg
    assert state(node) == OLD
    assert confirm_store.load_pending(node) is None
