# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The call with which a controller confirms a change, and asks what became of it."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import call
from mlnode.engine import confirm, confirm_store, transaction
from mlnode.engine.lock import locked
from mlnode.engine.origin import Entry, Origin
from mlnode.engine.steps import KernelWrite
from mlnode.host import detached
from mlnode.model.setting import KnobFile, Write

MAPS = "/proc/sys/vm/max_map_count"
NOTHING = {"pending": {}, "undone": {}, "padding": ""}


@pytest.fixture
def armed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> confirm_store.Pending:
    """A change that waits; its restore is started in words only."""
    monkeypatch.setattr(detached, "start", lambda work: None)
    found: list[confirm_store.Pending] = []

    def arm(entries: Sequence[Entry], fresh: Sequence[Entry]) -> None:
        found.append(confirm.arm(machine, "training", 60, entries, fresh, "it interrupts eth0"))

    step = KernelWrite("vm.max_map_count", KnobFile(0, MAPS, "65530", "1", (Write(MAPS, "65530"),)))
    with locked(machine):
        transaction.run(machine, Origin.load(machine), [step], arm=arm)
    return found[0]


def ask(machine: Machine, change_id: str = "", padding: int = 0) -> dict[str, Any]:
    # `instead` is added for an agent that is sent along.
    options = {"id": change_id, "padding": padding, "instead": "the installed one is of another version"}
    return call.CALLS["confirm"](machine, options)


def refusal(machine: Machine, change_id: str = "") -> str:
    found = ask(machine, change_id)
    assert found["failed"] is True
    return str(found["msg"])


def test_a_change_is_kept_and_asking_again_changes_nothing(
    machine: Machine, armed: confirm_store.Pending
) -> None:
    assert ask(machine, armed.id) == NOTHING
    after = machine.tree()

    assert ask(machine, armed.id) == NOTHING
    assert machine.tree() == after
    assert machine.now(MAPS) == "1"


def test_without_an_id_it_only_answers(machine: Machine, armed: confirm_store.Pending) -> None:
    before = machine.tree()

    found = ask(machine)

    pending = found.pop("pending")
    assert found == {"undone": {}, "padding": ""}
    assert 58 <= pending.pop("left") <= 60
    assert pending == {"id": armed.id, "words": "it interrupts eth0"}
    assert machine.tree() == before


def test_what_was_undone_is_answered_until_a_run_has_acknowledged_it(
    machine: Machine, armed: confirm_store.Pending
) -> None:
    confirm.undo(machine)

    for _again in range(2):
        assert ask(machine)["undone"] == {"id": armed.id, "text": confirm_store.report(machine), "stuck": []}
    confirm_store.acknowledge(machine)
    assert ask(machine) == NOTHING


def test_what_was_undone_cannot_be_kept(machine: Machine, armed: confirm_store.Pending) -> None:
    confirm.undo(machine)
    before = machine.tree()

    assert refusal(machine, armed.id) == f"confirm: {confirm_store.report(machine)}"
    assert machine.tree() == before


@pytest.mark.parametrize("wanted", ["abcdef01", "../x", "\N{SNOWMAN}"])
def test_an_id_under_which_nothing_waits_fails(machine: Machine, wanted: str) -> None:
    assert refusal(machine, wanted).startswith("confirm: no change waits to be confirmed")


def test_over_the_connection_that_made_the_change_it_is_refused(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.put(f"/proc/{os.getpid()}/environ", "SSH_CONNECTION=10.0.0.9 50000 10.0.0.1 22\0")
    monkeypatch.setattr(detached, "start", lambda work: None)
    with locked(machine):
        armed = confirm.arm(machine, "training", 60, [], [], "words")

    assert "this is the connection over which" in refusal(machine, armed.id)


@pytest.mark.parametrize("padding", [0, 1, 2, 3, 4, 1000, 131072])
def test_padding_has_the_length_that_was_asked_for_and_cannot_be_compressed(
    machine: Machine, padding: int
) -> None:
    text = ask(machine, padding=padding)["padding"]

    assert len(text) == padding
    # Base64 has six bits in each byte; ssh's compression is zlib.
    assert len(zlib.compress(text.encode())) >= padding * 0.74


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"id": "", "padding": -1}, "padding is -1, and not between 0 and 1048576"),
        ({"id": "", "padding": call._MOST_PADDING + 1}, "padding is 1048577"),
        ({"id": "", "padding": True}, "padding is True, which is not int"),
        ({"id": None, "padding": 0}, "id is None, which is not str"),
        ({"padding": 0}, "id is None"),
    ],
)
def test_other_options_are_refused(machine: Machine, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call.CALLS["confirm"](machine, options)


def test_a_damaged_record_is_a_failure_in_clear_words(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer, as the question is well formed."""
    machine.put(confirm_store.PENDING, "{")
    monkeypatch.setattr(call, "_digest", lambda _size: "mine")
    question = {"size": 1, "sha256": "mine", "call": "confirm", "options": {"id": "", "padding": 0}}

    found = call.answer(machine, json.dumps(question))["answer"]

    assert found["failed"] is True
    assert found["msg"].startswith(f"confirm: {confirm_store.PENDING} is damaged")


def test_without_root_nothing_is_confirmed(machine: Machine, armed: confirm_store.Pending) -> None:
    machine.superuser = False

    assert refusal(machine, armed.id) == "confirm: cannot confirm a change of this node: root is needed"
