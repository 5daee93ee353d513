# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode import engine, origin, transaction
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.command import Finished
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.errors import (
    HostError,
    TransactionError,
)
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.host import Host
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs import sysctl
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.origin import Entry, Origin
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.setting import Write
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.transaction import (
    FileWrite,
    KernelWrite,
    LinkWrite,
    LoadModule,
    Step,
)
from ansible_collections.mlnode.tuning.tests.unit.machine import THP, Machine

SWAPPINESS = "/proc/sys/vm/swappiness"
RATIO = "/proc/sys/vm/dirty_ratio"


def kernel(path: str, value: str, before: str, partial: bool = False) -> KernelWrite:
    return KernelWrite(path.rpartition("/")[2], path, value, before, (Write(path, before),), partial=partial)


FIRST = kernel(SWAPPINESS, "10", "60")


@dataclass(frozen=True)
class Interrupted:
    """A step in which the operator presses Ctrl-C."""

    key: str = "interrupted"
    path: str = "/etc/interrupted"

    def entry(self, host: Host) -> Entry:
        return origin.file_entry(host, self.path)

    def perform(self, host: Host) -> None:
        host.write_file(self.path, b"half")
        raise KeyboardInterrupt


def run(machine: Machine, steps: Sequence[Any]) -> None:
    transaction.run(machine, Origin.load(machine), steps)


def test_all_steps_are_done_in_order(machine: Machine) -> None:
    steps: list[Step] = [
        LoadModule("tcp", "tcp_bbr"),
        FIRST,
        FileWrite("/etc/x/f", "/etc/x/f", b"content", mode=0o640),
        LinkWrite("/etc/x/l", "/etc/x/l", "f"),
        FileWrite("/etc/sysctl.conf", "/etc/sysctl.conf", None),
    ]
    run(machine, steps)
    tree = machine.tree()
    assert machine.exists("/sys/module/tcp_bbr")
    assert machine.now(SWAPPINESS) == "10"
    assert tree["/etc/x/f"] == ("content", 0o640)
    assert tree["/etc/x/l"] == ("-> f", 0)
    assert "/etc/sysctl.conf" not in tree
    ids = [entry["id"] for entry in Origin.load(machine).entries()]
    assert ids[0] == "module:tcp_bbr"
    assert set(ids[1:]) == {
        f"kernel:{SWAPPINESS}", "file:/etc/x/f", "file:/etc/x/l", "file:/etc/sysctl.conf",
    }  # fmt: skip


def test_no_step_is_no_trace(machine: Machine) -> None:
    before = machine.tree()
    run(machine, [])
    assert machine.tree() == before


@pytest.mark.parametrize("number", [errno.EPERM, errno.EROFS, errno.EINVAL, errno.ENOSPC, errno.EIO])
def test_the_steps_before_a_failed_one_are_put_back(machine: Machine, number: int) -> None:
    before = machine.tree()
    machine.fails[RATIO] = number
    steps = [
        FIRST,
        FileWrite("/etc/sysctl.conf", "/etc/sysctl.conf", b"new"),
        LinkWrite("/etc/x/l", "/etc/x/l", "f"),
        kernel(RATIO, "5", "20"),
        kernel(f"{THP}/khugepaged/defrag", "0", "1"),
    ]
    with pytest.raises(TransactionError) as caught:
        run(machine, steps)
    assert machine.tree() == before
    assert str(caught.value).startswith(
        f"dirty_ratio: cannot write '5' to {RATIO}: {errno.errorcode[number]}"
    )
    assert caught.value.rolled_back == ["/etc/x/l = absent", "/etc/sysctl.conf = present", "swappiness = 60"]
    assert caught.value.stuck == []
    assert (f"{THP}/khugepaged/defrag", "0") not in machine.writes, "what comes after was never begun"


def test_the_first_step_has_nothing_before_it(machine: Machine) -> None:
    machine.fails[SWAPPINESS] = errno.EPERM
    with pytest.raises(TransactionError, match="nothing else had been changed"):
        run(machine, [FIRST, kernel(RATIO, "5", "20")])


def test_a_write_that_is_ignored_is_an_error_and_rolled_back(machine: Machine) -> None:
    before = machine.tree()
    machine.ignores.add(RATIO)
    with pytest.raises(TransactionError) as caught:
        run(machine, [FIRST, kernel(RATIO, "5", "20")])
    assert "the write was accepted, but the kernel now shows '20'" in str(caught.value)
    assert "put back: swappiness = 60" in str(caught.value)
    assert machine.tree() == before


def test_less_than_asked_is_an_error_unless_the_knob_is_known_for_it(machine: Machine) -> None:
    pages = "/proc/sys/vm/nr_hugepages"
    machine.gives[pages] = 100
    with pytest.raises(TransactionError, match="now shows '100'"):
        run(machine, [kernel(pages, "512", "0")])
    assert machine.now(pages) == "0"
    run(machine, [kernel(pages, "512", "0", partial=True)])
    assert machine.now(pages) == "100"


def test_a_value_that_cannot_be_read_back_is_no_success(machine: Machine) -> None:
    class Blind(Machine):
        def write_kernel(self, path: str, value: str) -> None:
            self.unreadable = {}
            super().write_kernel(path, value)
            if value == "10":
                self.unreadable = {path: errno.EIO}

    blind = Blind(machine.root)
    with pytest.raises(TransactionError, match=f"cannot read back {SWAPPINESS}: .*EIO"):
        run(blind, [FIRST])
    assert machine.now(SWAPPINESS) == "60"


def test_a_module_that_cannot_be_loaded_names_itself_and_the_reason(machine: Machine) -> None:
    before = machine.tree()
    with pytest.raises(TransactionError, match=r"tcp: cannot load the module tcp_xyz for tcp: .*not found"):
        run(machine, [FIRST, LoadModule("tcp", "tcp_xyz")])
    assert machine.tree() == before


def test_a_module_that_fails_without_words_gives_its_status(machine: Machine) -> None:
    class Mute(Machine):
        def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
            return Finished(7, "", " \n")

    with pytest.raises(TransactionError, match="modprobe ended with 7"):
        run(Mute(machine.root), [LoadModule("tcp", "tcp_bbr")])


def test_a_missing_modprobe_is_named(machine: Machine) -> None:
    class Bare(Machine):
        def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
            raise HostError("run", command[0], errno.ENOENT)

    with pytest.raises(TransactionError, match="tcp: cannot run modprobe: ENOENT"):
        run(Bare(machine.root), [LoadModule("tcp", "tcp_bbr")])


def test_a_loaded_module_is_unloaded_after_the_value_that_needs_it(machine: Machine) -> None:
    before = machine.tree()
    path = "/proc/sys/net/ipv4/tcp_congestion_control"
    machine.fails[RATIO] = errno.EIO
    with pytest.raises(TransactionError) as caught:
        run(machine, [LoadModule("tcp", "tcp_bbr"), kernel(path, "bbr", "cubic"), kernel(RATIO, "5", "20")])
    assert caught.value.rolled_back == ["tcp_congestion_control = cubic", "module tcp_bbr = not loaded"]
    assert machine.tree() == before


def test_an_interrupted_run_is_put_back_and_stays_interrupted(machine: Machine) -> None:
    before = machine.tree()
    with pytest.raises(KeyboardInterrupt):
        run(machine, [FIRST, Interrupted()])
    assert machine.tree() == before


class Stubborn(Machine):
    """Will not take 60 for swappiness again."""

    reason: BaseException = HostError("write '60' to", SWAPPINESS, errno.EIO)

    def write_kernel(self, path: str, value: str) -> None:
        if (path, value) == (SWAPPINESS, "60"):
            raise self.reason
        super().write_kernel(path, value)


@pytest.mark.parametrize(
    ("reason", "words"),
    [(HostError("write '60' to", SWAPPINESS, errno.EIO), "EIO"), (KeyboardInterrupt(), "KeyboardInterrupt")],
)
@pytest.mark.parametrize("last", [Interrupted(), kernel(RATIO, "no number", "20")])
def test_what_cannot_be_put_back_is_named_and_the_rest_is_put_back(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, reason: BaseException, words: str, last: object
) -> None:
    stubborn = Stubborn(machine.root)
    stubborn.reason = reason
    other = FileWrite("/etc/sysctl.conf", "/etc/sysctl.conf", b"new")
    before = machine.tree()
    with pytest.raises(TransactionError) as caught:
        run(stubborn, [other, FIRST, last])
    assert caught.value.stuck == [f"swappiness ({reason})" if str(reason) else f"swappiness ({words})"]
    assert words in str(caught.value)
    assert "/etc/sysctl.conf = present" in caught.value.rolled_back
    assert Origin.load(machine).value_of(SWAPPINESS) == "60", "kept, so that a revert can try again"
    for entry in reversed(Origin.load(machine).entries()):
        origin.restore(machine, entry)
    machine.remove(origin.PATH)
    os.rmdir(machine.root + os.path.dirname(origin.PATH))
    assert machine.tree() == before


def test_a_record_that_cannot_be_cleared_does_not_hide_the_error(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.fails[RATIO] = errno.EPERM

    def full(self: Origin, entries: list[Entry]) -> None:
        raise HostError("write", origin.PATH, errno.ENOSPC)

    monkeypatch.setattr(Origin, "forget", full)
    with pytest.raises(TransactionError) as caught:
        run(machine, [FIRST, kernel(RATIO, "5", "20")])
    text = str(caught.value)
    assert text.startswith(f"dirty_ratio: cannot write '5' to {RATIO}: EPERM")
    assert "put back: swappiness = 60" in text
    assert f"write {origin.PATH}: ENOSPC" in text


def test_an_origin_of_an_earlier_run_survives_a_failed_one(machine: Machine) -> None:
    engine.apply(machine, engine.Request("default", sysctl, {"settings": {"vm.swappiness": 30}}))
    before = machine.tree()
    machine.fails[RATIO] = errno.EPERM
    with pytest.raises(TransactionError):
        run(machine, [kernel(SWAPPINESS, "10", "30"), kernel(RATIO, "5", "20")])
    assert machine.tree() == before
    assert Origin.load(machine).value_of(SWAPPINESS) == "60"
