# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lease under which a controller alternates the state of a node, and its end without the controller."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import time
from typing import Any, Mapping, Sequence

import pytest
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import lease, own_archive
from mlnode.engine import confirm, confirm_store, units
from mlnode.engine.confirm_store import LEASE
from mlnode.engine.lock import locked
from mlnode.host import detached
from mlnode.host.host import Host
from mlnode.host.places import LEASE_AGENT
from mlnode.host.system import Finished
from mlnode.model.errors import HostError, MlnodeError, RefusedError, StoreError

BOOT = "/proc/sys/kernel/random/boot_id"
MAPS = "/proc/sys/vm/max_map_count"
OURS, OTHERS = "0123abcd", "ffffffff"


class Node(Machine):
    """With or without systemd, whose programs are noted."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.commands: list[list[str]] = []
        self.refuses = ""

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        self.commands.append(list(command))
        return Finished(1, "", "no") if command[0] == self.refuses else Finished(0, "", "")


@pytest.fixture(name="started")
def _started(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """Detached programs, which are not started."""
    words: list[Sequence[str]] = []
    monkeypatch.setattr(detached, "program", words.append)
    monkeypatch.setattr(own_archive, "content", lambda: b"#!the agent")
    return words


@pytest.fixture(name="node")
def _node(tmp_path: pathlib.Path, started: list[Sequence[str]]) -> Machine:
    del started
    node = Node.debian(str(tmp_path / "node"), {BOOT: "6a3b0f1e-0000-4000-8000-000000000001"})
    node.put("/etc/systemd/system/multi-user.target.wants/.keep", "")
    return node


def options(step: str, lease_id: str = OURS, seconds: int = 60, check: bool = False) -> dict[str, Any]:
    back = [["revert", {"without_origin": False, "check": False, "diff": False}]]
    about = {"id": lease_id, "step": step, "seconds": seconds, "words": "reverted", "calls": back}
    return {"check": check, "lease": about}


def call(node: Machine, step: str, **given: Any) -> str:
    """Why the work was not done; empty if it was. Each call is a process of its own."""
    done: list[bool] = []

    def work() -> dict[str, Any]:
        done.append(True)
        return {"changed": True}

    node.lease = ""
    answer = lease.under(node, options(step, **given), work)
    node.lease = ""
    assert bool(done) is not bool(answer.get("failed")), answer
    return str(answer.get("msg", ""))


def waits_no_longer(node: Machine) -> None:
    document = json.loads(node.read(LEASE))
    node.put(LEASE, json.dumps({**document, "due": time.monotonic() - 1}), 0o600)


def due(node: Machine) -> float:
    return float(json.loads(node.read(LEASE))["due"])


def known(node: Machine, problem: str = "") -> Mapping[str, Any]:
    """The calls of an agent: `revert` sets a value."""

    def revert(host: Host, _options: Mapping[str, Any]) -> dict[str, Any]:
        assert host.lease == OURS
        with locked(host):  # as the real one
            node.put(MAPS, "reverted\n")
        return {"failed": True, "msg": problem} if problem else {"changed": True}

    return {"revert": revert}


# -- a controller that goes on --------------------------------------------------------------------


@pytest.mark.parametrize("systemd", [True, False])
def test_all_that_ends_it_is_there_before_the_first_change(
    node: Machine, started: list[Sequence[str]], systemd: bool
) -> None:
    if systemd:
        node.put("/run/systemd/system/.keep", "")
    before = node.tree()

    def work() -> dict[str, Any]:
        assert (os.stat(node.root + LEASE).st_mode & 0o777) == 0o600
        assert node.read(LEASE_AGENT) == "#!the agent"
        commands = node.commands  # type: ignore[attr-defined]  # of a machine with systemd
        ends = [*started, *(words for words in commands if words[0] == "systemd-run")]
        assert [words[-5:] for words in ends] == [["-IS", LEASE_AGENT, "undo", "--when-due", OURS]]
        assert node.exists(units.LEASE_FILE) == node.is_link(units.LEASE_LINK) == systemd
        if systemd:
            assert f"{LEASE_AGENT} undo {OURS}\n" in node.read(units.LEASE_FILE)
        return {"changed": True}

    assert lease.under(node, options("begin"), work) == {"changed": True}
    assert call(node, "renew") == call(node, "back") == ""
    assert call(node, "end") == ""
    assert node.tree() == before


def test_each_change_begins_its_time_again(node: Machine) -> None:
    assert call(node, "begin", seconds=10) == ""
    first = due(node)

    assert call(node, "renew", seconds=500) == ""

    assert due(node) > first + 400


def test_without_a_restore_nothing_is_changed_and_nothing_left(node: Node) -> None:
    node.put("/run/systemd/system/.keep", "")
    node.refuses = "systemd-run"
    before = node.tree()

    assert "start the restore with systemd-run" in call(node, "begin")
    assert node.tree() == before


def test_check_mode_writes_nothing_and_reports_a_node_without_systemd(node: Machine) -> None:
    before = node.tree()

    answer = lease.under(node, options("begin", check=True), lambda: {"changed": False})

    [warning] = answer["warnings"]
    assert "systemd does not run here" in warning
    assert node.tree() == before


# -- others ---------------------------------------------------------------------------------------


def test_others_may_not_change_the_node(node: Machine) -> None:
    assert call(node, "begin") == ""

    for step in ("begin", "renew", "back", "end"):
        for check in (True, False):
            assert "another run has it" in call(node, step, lease_id=OTHERS, check=check)
    with pytest.raises(RefusedError, match=f"lease-agent undo {OURS}"):
        confirm.refuse_while_pending(node)
    assert any(OURS in line for line in confirm_store.notes(node))
    node.lease = OURS
    confirm.refuse_while_pending(node)


def test_a_lease_that_is_over_is_not_renewed(node: Machine) -> None:
    for check in (True, False):
        assert "it is over: nothing is known of it" in call(node, "renew", check=check)
    assert call(node, "begin") == ""
    assert call(node, "renew", check=True) == ""
    waits_no_longer(node)

    for step in ("begin", "renew"):
        assert "it is over, after 60 s" in call(node, step)
    assert "it is over, after 60 s" in call(node, "renew", check=True)
    # The way back is the same as its end.
    assert call(node, "back") == call(node, "end") == ""
    assert not node.exists(LEASE)


# -- a controller that is gone --------------------------------------------------------------------


def test_the_node_puts_itself_back_and_reports_it(node: Machine) -> None:
    before = node.tree()
    assert call(node, "begin") == ""
    waits_no_longer(node)

    done = lease.end_when_due(node, OURS, known(node))

    assert done is not None
    assert "as its controller did not go on within 60 s: the old values are back" in done.text
    assert node.now(MAPS) == "reverted"
    assert {*node.tree()} - {*before} == {confirm_store.UNDONE, "/var/lib/mlnode"} - {*before}
    assert done.text in call(node, "renew")
    assert lease.end_when_due(node, OURS, {}) is None


def test_a_renewal_at_the_last_moment_counts(node: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end waits for the lock of a change that renews the lease."""
    assert call(node, "begin", seconds=3600) == ""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        assert call(node, "renew" if len(slept) < 3 else "end", seconds=3600) == ""

    monkeypatch.setattr(lease.time, "sleep", sleep)

    assert lease.end_when_due(node, OURS, {}) is None
    assert len(slept) == 3


def test_it_is_tried_again_and_kept_if_it_fails(node: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(node, "begin") == ""
    waits_no_longer(node)
    slept: list[float] = []
    monkeypatch.setattr(lease.time, "sleep", slept.append)

    done = lease.end_when_due(node, OURS, known(node, "the disk is full"))

    assert done is not None
    assert done.stuck == ("the disk is full",)
    assert len(slept) == 10
    assert all(node.exists(path) for path in (LEASE, LEASE_AGENT))
    assert f"undo {OURS}` does that" in confirm_store.notes(node)[0]
    assert lease.end(node, OURS, known(node)).stuck == ()
    assert not node.exists(LEASE)


def test_an_end_by_hand_comes_before_any_renewal(node: Machine) -> None:
    assert call(node, "begin", seconds=3600) == ""

    def revert(_host: Host, _options: Mapping[str, Any]) -> dict[str, Any]:
        assert "it is over" in call(node, "renew")
        return {"changed": True}

    assert lease.end(node, OURS, {"revert": revert}).stuck == ()


def test_its_end_leaves_the_lease_of_a_later_run(node: Machine) -> None:
    assert call(node, "begin") == ""
    waits_no_longer(node)

    def revert(_host: Host, _options: Mapping[str, Any]) -> dict[str, Any]:
        assert call(node, "back") == call(node, "end") == call(node, "begin", lease_id=OTHERS) == ""
        return {"changed": True}

    lease.end(node, OURS, {"revert": revert})

    assert lease.holds(node, OTHERS)
    assert node.exists(LEASE_AGENT)


def test_a_boot_ends_it(node: Machine) -> None:
    assert call(node, "begin", seconds=3600) == ""
    node.put(BOOT, "6a3b0f1e-0000-4000-8000-000000000002\n")
    node.forget()

    for check in (True, False):
        assert "it is over" in call(node, "renew", check=check)
    assert "as the node was booted" in lease.end(node, OURS, known(node)).text


# -- a record that cannot be used -----------------------------------------------------------------

#: A record → its content, or the errno of its read
FAULTS: dict[str, Any] = {
    "closed": errno.EACCES,
    "bad disk": errno.EIO,
    "empty": b"",
    "cut off": b'{"format": 1, "id": "0123',
    "too long": b" " * (1 << 25),
    "not UTF-8": b'{"format": 1, "id": "\xff"}',
    "another form": b'{"format": 1}',
    "another call": None,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_with_a_record_that_cannot_be_used_nothing_is_changed(node: Machine, fault: str) -> None:
    assert call(node, "begin") == ""
    content = FAULTS[fault]
    if content is None:
        document = json.loads(node.read(LEASE))
        content = json.dumps({**document, "calls": [["install", {}]]}).encode()
    if isinstance(content, int):
        node.unreadable[LEASE] = content
    else:
        node.put(LEASE, content, 0o600)

    for step in ("begin", "renew", "back", "end"):
        assert "lease: " in call(node, step)
    for change in (confirm.refuse_while_pending, lambda host: lease.end(host, OURS, {})):
        with pytest.raises((StoreError, HostError)):
            change(node)
    assert any("a lease: " in line for line in confirm_store.notes(node))


def test_a_lease_without_a_way_back_is_refused(node: Machine) -> None:
    given = options("begin")
    given["lease"]["calls"] = []
    before = node.tree()

    assert "the state to put back is not known" in lease.under(node, given, dict)["msg"]
    assert node.tree() == before

    given["lease"]["calls"] = [["install", {}]]
    with pytest.raises(ValueError, match="expected a call that puts a node back"):
        lease.under(node, given, dict)
    with pytest.raises(MlnodeError, match="no lease waits"):
        lease.end(node, OURS, {})
