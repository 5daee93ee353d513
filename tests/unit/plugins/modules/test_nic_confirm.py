# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode import confirm, detached, transaction
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.lock import locked
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.origin import Entry, Origin
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.setting import Write
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.transaction import KernelWrite
from ansible_collections.mlnode.tuning.plugins.modules import nic_confirm
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner

MAPS = "/proc/sys/vm/max_map_count"


@pytest.fixture
def call(machine: Machine, running: Make, monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.setattr(nic_confirm, "Host", lambda: machine)
    return running(nic_confirm)


@pytest.fixture
def armed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> confirm.Pending:
    """A change that waits; its restore is started in words only."""
    monkeypatch.setattr(detached, "start", lambda work: None)
    found: list[confirm.Pending] = []

    def arm(entries: Sequence[Entry], fresh: Sequence[Entry]) -> None:
        found.append(confirm.arm(machine, "training", 60, entries, fresh, "it interrupts eth0"))

    step = KernelWrite("vm.max_map_count", MAPS, "1", "65530", (Write(MAPS, "65530"),))
    with locked(machine):
        transaction.run(machine, Origin.load(machine), [step], arm=arm)
    return found[0]


def answer(done: Any) -> dict[str, Any]:
    return {name: done.result[name] for name in ("changed", "confirmed", "pending", "undone", "padding")}


NOTHING = {"changed": False, "confirmed": False, "pending": {}, "undone": {}, "padding": ""}


def test_a_change_is_kept_and_asking_again_changes_nothing(
    machine: Machine, call: Runner, armed: confirm.Pending
) -> None:
    assert answer(call.ok(id=armed.id)) == {**NOTHING, "changed": True, "confirmed": True}
    after = machine.tree()

    assert answer(call.ok(id=armed.id)) == {**NOTHING, "confirmed": True}
    assert answer(call.ok(check=True, id=armed.id)) == {**NOTHING, "confirmed": True}
    assert machine.tree() == after
    assert machine.now(MAPS) == "1"


def test_check_mode_says_that_it_waits_and_keeps_it_waiting(
    machine: Machine, call: Runner, armed: confirm.Pending
) -> None:
    before = machine.tree()

    found = answer(call.ok(check=True, id=armed.id))

    assert (found["changed"], found["confirmed"], found["pending"]["id"]) == (True, False, armed.id)
    assert machine.tree() == before


@pytest.mark.parametrize("check", [False, True])
def test_without_an_id_it_only_tells(
    machine: Machine, call: Runner, armed: confirm.Pending, check: bool
) -> None:
    before = machine.tree()

    found = answer(call.ok(check))

    pending = found.pop("pending")
    assert found == {name: NOTHING[name] for name in found}
    assert 58 <= pending.pop("left") <= 60
    assert pending == {
        "id": armed.id, "name": "training", "words": "it interrupts eth0", "deadline": armed.deadline,
    }  # fmt: skip
    assert machine.tree() == before


def test_what_was_undone_is_told_until_a_run_has_acknowledged_it(
    machine: Machine, call: Runner, armed: confirm.Pending
) -> None:
    confirm.undo(machine)

    for _again in range(2):
        undone = call.ok().result["undone"]
        assert undone == {"id": armed.id, "text": confirm.report(machine), "stuck": []}
    confirm.acknowledge(machine)
    assert answer(call.ok()) == NOTHING


@pytest.mark.parametrize("check", [False, True])
def test_what_was_undone_cannot_be_kept(
    machine: Machine, call: Runner, armed: confirm.Pending, check: bool
) -> None:
    confirm.undo(machine)
    before = machine.tree()

    assert call.msg(check, id=armed.id) == f"confirm: {confirm.report(machine)}"
    assert machine.tree() == before


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("wanted", ["abcdef01", "", "../x", "\N{SNOWMAN}"])
def test_an_id_under_which_nothing_waits_fails(
    machine: Machine, call: Runner, wanted: str, check: bool
) -> None:
    assert call.msg(check, id=wanted).startswith("confirm: no change waits to be confirmed")


@pytest.mark.parametrize("check", [False, True])
def test_over_the_connection_that_made_the_change_it_is_refused(
    machine: Machine, call: Runner, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    machine.put(f"/proc/{os.getpid()}/environ", "SSH_CONNECTION=10.0.0.9 50000 10.0.0.1 22\0")
    monkeypatch.setattr(detached, "start", lambda work: None)
    with locked(machine):
        armed = confirm.arm(machine, "training", 60, [], [], "words")

    assert "this is the connection over which" in call.msg(check, id=armed.id)


@pytest.mark.parametrize("padding", [0, 1, 2, 3, 4, 1000, 131072])
def test_padding_has_the_length_that_was_asked_for_and_cannot_be_compressed(
    call: Runner, padding: int
) -> None:
    text = call.ok(padding=padding).result["padding"]

    assert len(text) == padding
    # Base64 has six bits in each byte; ssh's compression is zlib.
    assert len(zlib.compress(text.encode())) >= padding * 0.74


@pytest.mark.parametrize("padding", [-1, nic_confirm.MOST_PADDING + 1])
def test_padding_without_measure_is_refused(call: Runner, padding: int) -> None:
    assert call.msg(padding=padding) == f"padding: {padding} is not between 0 and 1048576"


def test_a_damaged_record_is_a_failure_in_clear_words(machine: Machine, call: Runner) -> None:
    machine.put(confirm.PENDING, "{")

    assert call.msg().startswith(f"confirm: {confirm.PENDING} is damaged")


def test_without_root_nothing_is_confirmed(machine: Machine, call: Runner, armed: confirm.Pending) -> None:
    machine.superuser = False

    assert call.msg(id=armed.id) == "confirm: cannot confirm a change of this node: root is needed"
