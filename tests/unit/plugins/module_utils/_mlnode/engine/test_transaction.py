# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os
import pathlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.machine import THP, Machine
from mlnode.engine import confirm, engine, handlers, origin, restore, transaction, units
from mlnode.engine.answers import Answers
from mlnode.engine.kind import AGENT_PENDING
from mlnode.engine.origin import Entry, Origin
from mlnode.engine.steps import (
    FileWrite,
    KernelWrite,
    LinkWrite,
    LoadModule,
    Step,
    by_unit,
    kernel_writes,
    single,
)
from mlnode.host import places
from mlnode.host.host import Host
from mlnode.host.system import Finished
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.model.errors import HostError, MlnodeError, RefusedError, TransactionError
from mlnode.model.setting import KnobFile, Unit, Write

SWAPPINESS = "/proc/sys/vm/swappiness"
UNIT = "/etc/systemd/system/mlnode-apply.service"
RATIO = "/proc/sys/vm/dirty_ratio"


@pytest.fixture
def machine(machine: Machine) -> Machine:
    """With a file that others have written."""
    machine.put("/etc/nccl.conf", "NCCL_DEBUG=WARN\n")
    return machine


def kernel(path: str, value: str, before: str, **more: Any) -> KernelWrite:
    file = KnobFile(0, path, before, value, (Write(path, before),), **more)
    return KernelWrite(path.rpartition("/")[2], file)


FIRST = kernel(SWAPPINESS, "10", "60")


@dataclass(frozen=True)
class Interrupted:
    """A step in which the operator presses Ctrl-C."""

    key: str = "interrupted"
    path: str = "/etc/mlnode/interrupted"

    def entries(self, host: Host) -> list[Entry]:
        return [origin.file_entry(host, self.path)]

    def perform(self, host: Host) -> None:
        host.write_file(self.path, b"half")
        raise KeyboardInterrupt


def run(machine: Machine, steps: Sequence[Any]) -> None:
    transaction.run(machine, Origin.load(machine), steps)


def test_all_steps_are_done_in_order(machine: Machine) -> None:
    steps: list[Step] = [
        LoadModule("tcp", "tcp_bbr"),
        FIRST,
        FileWrite("/etc/mlnode/f", "/etc/mlnode/f", b"content", mode=0o640),
        LinkWrite("/etc/mlnode/l", "/etc/mlnode/l", "f"),
        FileWrite("/etc/nccl.conf", "/etc/nccl.conf", None),
    ]
    run(machine, steps)
    tree = machine.tree()
    assert machine.exists("/sys/module/tcp_bbr")
    assert machine.now(SWAPPINESS) == "10"
    assert tree["/etc/mlnode/f"] == ("content", 0o640)
    assert tree["/etc/mlnode/l"] == ("-> f", 0)
    assert "/etc/nccl.conf" not in tree
    ids = [entry["id"] for entry in Origin.load(machine).entries()]
    assert ids[0] == "module:tcp_bbr"
    assert set(ids[1:]) == {
        f"kernel:{SWAPPINESS}", "file:/etc/mlnode/f", "file:/etc/mlnode/l", "file:/etc/nccl.conf",
    }  # fmt: skip


def test_the_origin_of_all_that_is_foreseen_is_kept_before_the_first_stage(machine: Machine) -> None:
    with transaction.Transaction(machine, Origin.load(machine)) as work:
        work.foresee([FIRST, kernel(RATIO, "5", "20")])
        assert [entry["value"] for entry in Origin.load(machine).entries()] == ["60", "20"]
        assert machine.writes == []


def test_what_was_looked_at_before_the_steps_is_forgotten(machine: Machine) -> None:
    looks: list[str] = []

    def look(of_files: bool) -> str:
        return machine.once(f"{of_files}", lambda: looks.append(machine.now(SWAPPINESS)) or "", of_files)

    look(False)
    look(True)
    run(machine, [])
    look(False)
    run(machine, [FIRST])
    look(False)
    look(True)
    assert looks == ["60", "60", "10"]  # of files: once
    run(machine, [FileWrite("key", UNIT, b"")])
    look(True)
    assert looks == ["60", "60", "10", "10"]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EROFS, errno.EINVAL, errno.ENOSPC, errno.EIO])
def test_the_steps_before_a_failed_one_are_put_back(machine: Machine, number: int) -> None:
    before = machine.tree()
    machine.fails[RATIO] = number
    steps = [
        FIRST,
        FileWrite("/etc/nccl.conf", "/etc/nccl.conf", b"new"),
        LinkWrite("/etc/mlnode/l", "/etc/mlnode/l", "f"),
        kernel(RATIO, "5", "20"),
        kernel(f"{THP}/khugepaged/defrag", "0", "1"),
    ]
    with pytest.raises(TransactionError) as caught:
        run(machine, steps)
    assert machine.tree() == before
    assert str(caught.value).startswith(
        f"dirty_ratio: cannot write '5' to {RATIO}: {errno.errorcode[number]}"
    )
    assert caught.value.rolled_back == [
        "/etc/mlnode/l = absent",
        "/etc/nccl.conf = present",
        "swappiness = 60",
    ]
    assert caught.value.stuck == []
    assert (f"{THP}/khugepaged/defrag", "0") not in machine.writes, "what comes after was never begun"


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
    other = FileWrite("/etc/nccl.conf", "/etc/nccl.conf", b"new")
    before = machine.tree()
    with pytest.raises(TransactionError) as caught:
        run(stubborn, [other, FIRST, last])
    assert caught.value.stuck == [f"swappiness ({reason})" if str(reason) else f"swappiness ({words})"]
    assert words in str(caught.value)
    assert "/etc/nccl.conf = present" in caught.value.rolled_back
    assert Origin.load(machine).value_of(SWAPPINESS) == "60", "kept, so that a revert can try again"
    for entry in reversed(Origin.load(machine).entries()):
        restore.restore(machine, entry)
    machine.remove(origin.PATH)
    os.rmdir(machine.root + os.path.dirname(origin.PATH))
    assert machine.tree() == before


def test_a_record_that_cannot_be_cleared_does_not_hide_the_error(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.fails[RATIO] = errno.EPERM

    def full(self: Origin, entries: list[Entry]) -> None:
        raise HostError("write", origin.PATH, errno.ENOSPC)

    monkeypatch.setattr(Origin, "take_back", full)
    with pytest.raises(TransactionError) as caught:
        run(machine, [FIRST, kernel(RATIO, "5", "20")])
    text = str(caught.value)
    assert text.startswith(f"dirty_ratio: cannot write '5' to {RATIO}: EPERM")
    assert "put back: swappiness = 60" in text
    assert f"write {origin.PATH}: ENOSPC" in text


def test_an_origin_of_an_earlier_run_survives_a_failed_one(machine: Machine) -> None:
    door.apply(machine, engine.Request("default", sysctl, {"settings": {"vm.swappiness": 30}}))
    before = machine.tree()
    machine.fails[RATIO] = errno.EPERM
    with pytest.raises(TransactionError):
        run(machine, [kernel(SWAPPINESS, "10", "30"), kernel(RATIO, "5", "20")])
    assert machine.tree() == before
    assert Origin.load(machine).value_of(SWAPPINESS) == "60"


# -- several files at once ---------------------------------------------------------------------


def joined(path: str, value: str, before: str, unit: Unit | None = None) -> KernelWrite:
    folder = path.rpartition("/")[0]
    return kernel(path, value, before, joined=folder, unit=unit, owner=path)


class Ring(Machine):
    """Two values that one write sets together, as a NIC's rings."""

    def write_kernel(self, path: str, value: str) -> None:
        folder, _slash, names = path.rpartition("/")
        if "," not in names:
            super().write_kernel(path, value)
            return
        if path in self.fails:
            raise HostError(f"write {value!r} to", path, self.fails[path])
        self.writes.append((path, value))
        for name, text in zip(names.split(","), value.split()):
            self.put(f"{folder}/{name}", f"{text}\n")


RX, TX = "/proc/sys/vm/rx", "/proc/sys/vm/tx"


@pytest.fixture
def ring(machine: Machine) -> Ring:
    found = Ring(machine.root)
    for path in (RX, TX):
        found.put(path, "512\n")
    return found


class Health:
    """A unit that tells when it was looked at."""

    def __init__(self, name: str, seen: list[str], ill: str = "") -> None:
        self.unit = Unit(name, self._look)
        self.name, self.seen, self.ill = name, seen, ill

    def _look(self, host: Machine) -> Callable[[], None]:
        self.seen.append(f"before {self.name}: {len(host.writes)}")
        return lambda: self._after(host)

    def _after(self, host: Machine) -> None:
        self.seen.append(f"after {self.name}: {len(host.writes)}")
        if self.ill:
            raise HostError("go on after", self.name, None, self.ill)


def test_files_of_a_folder_are_one_write_and_one_undo_each(ring: Ring) -> None:
    unit = Health("eth0", []).unit
    steps = by_unit([joined(RX, "1024", "512", unit), joined(TX, "2048", "512", unit)])
    run(ring, steps)
    assert ring.writes == [("/proc/sys/vm/rx,tx", "1024 2048")]
    assert Origin.load(ring).values() == {RX: "512", TX: "512"}
    assert [write.file.path for write in kernel_writes(steps)] == [RX, TX]


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL, errno.EBUSY, errno.EIO, 524])
def test_one_of_them_that_can_never_be_does_not_keep_the_others(ring: Ring, number: int) -> None:
    ring.fails = {"/proc/sys/vm/rx,tx": number, TX: number}
    unit = Health("eth0", []).unit
    run(ring, by_unit([joined(RX, "1024", "512", unit), joined(TX, "2048", "512", unit)]))
    assert (ring.now(RX), ring.now(TX)) == ("1024", "512")
    answers = Answers(ring)
    assert answers.refused(TX, TX, (number,))
    assert not answers.refused(RX, RX, (number,))


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EMFILE])
def test_an_error_that_is_no_answer_of_the_device_fails_all(ring: Ring, number: int) -> None:
    ring.fails = {"/proc/sys/vm/rx,tx": number}
    unit = Health("eth0", []).unit
    before = ring.tree()
    with pytest.raises(TransactionError, match=errno.errorcode[number]):
        run(ring, by_unit([joined(RX, "1024", "512", unit), joined(TX, "2048", "512", unit)]))
    assert ring.tree() == before


def test_what_only_lets_the_others_take_effect_is_left_out_where_it_cannot_be(ring: Ring) -> None:
    """As the negotiation of pause frames with the driver ice."""
    autoneg = "/proc/sys/vm/autoneg"
    ring.put(autoneg, "1\n")
    ring.fails = {"/proc/sys/vm/rx,tx,autoneg": errno.EOPNOTSUPP, autoneg: errno.EOPNOTSUPP}
    unit = Health("eth0", []).unit
    means = joined(autoneg, "0", "1", unit)
    means = means._replace(file=means.file._replace(means=True))
    run(ring, by_unit([joined(RX, "1", "512", unit), joined(TX, "2", "512", unit), means]))
    assert ring.writes == [("/proc/sys/vm/rx,tx", "1 2")]


def test_the_state_decides_and_not_the_error_of_the_write(ring: Ring) -> None:
    class Lying(Ring):
        def write_kernel(self, path: str, value: str) -> None:
            super().write_kernel(path, value)
            raise HostError(f"write {value!r} to", path, errno.EIO)

    lying = Lying(ring.root)
    run(lying, [kernel(TX, "2048", "512", owner=TX)])
    assert lying.now(TX) == "2048"
    assert not lying.exists(places.ANSWERS)


def test_a_third_value_goes_back_to_what_was_there(ring: Ring) -> None:
    class Stubborn(Ring):
        def write_kernel(self, path: str, value: str) -> None:
            super().write_kernel(path, "7" if value == "2048" else value)

    stubborn = Stubborn(ring.root)
    part = kernel(TX, "2048", "512", owner=TX)
    run(stubborn, [part])
    assert stubborn.now(TX) == "512"
    answer = Answers(stubborn).answer_to(part.file)
    assert answer is not None
    assert (answer.got, answer.made, answer.kernel) == ("512", False, "")
    rounded = part._replace(file=part.file._replace(rounds=True))
    run(stubborn, [rounded])
    assert stubborn.now(TX) == "512"  # less than there was: that is not rounding


def test_notes_about_devices_go_with_a_run_that_is_rolled_back(ring: Ring) -> None:
    before = ring.tree()
    ring.fails = {TX: errno.EOPNOTSUPP, RATIO: errno.EPERM}
    with pytest.raises(TransactionError):
        run(ring, [kernel(TX, "2048", "512", owner=TX), kernel(RATIO, "5", "20")])
    assert ring.tree() == before


def test_a_device_is_looked_at_before_the_next_one_is_touched(ring: Ring) -> None:
    seen: list[str] = []
    one, two = Health("eth0", seen).unit, Health("eth1", seen).unit
    writes = [
        joined(RX, "1024", "512", one),
        joined(SWAPPINESS, "10", "60", two),
        joined(TX, "9", "512", one),
    ]
    run(ring, by_unit(writes))
    assert seen == ["before eth0: 0", "after eth0: 1", "before eth1: 1", "after eth1: 2"]


def test_a_device_that_is_not_well_stops_everything_and_is_put_back(ring: Ring) -> None:
    seen: list[str] = []
    one, two = Health("eth0", seen, "no carrier").unit, Health("eth1", seen).unit
    steps = by_unit([joined(RX, "1024", "512", one), joined(SWAPPINESS, "10", "60", two)])
    with pytest.raises(TransactionError, match="eth0: rx: cannot go on after eth0: no carrier"):
        run(ring, steps)
    assert (ring.now(RX), ring.now(SWAPPINESS)) == ("512", "60")
    assert not any("eth1" in line for line in seen)


def test_each_change_of_a_device_can_stand_alone(ring: Ring) -> None:
    unit = Health("eth0", []).unit
    steps = by_unit([joined(RX, "1024", "512", unit), kernel(SWAPPINESS, "10", "60", unit=unit)])
    assert [step.key for step in steps] == ["eth0: rx, swappiness"]
    each = [*single([*steps, FIRST])]
    assert [step.key for step in each] == ["eth0: rx", "eth0: swappiness", "swappiness"]
    run(ring, each)
    assert (ring.now(RX), ring.now(SWAPPINESS)) == ("1024", "10")


def test_who_arms_is_told_how_all_is_put_back_before_the_first_risk(ring: Ring) -> None:
    told: list[tuple[list[str], list[str], int]] = []

    def arm(entries: Sequence[Entry], fresh: Sequence[Entry]) -> None:
        ids = [str(entry["id"]) for entry in entries], [str(entry["id"]) for entry in fresh]
        told.append((*ids, len(ring.writes)))

    one, two = Health("eth0", []).unit, Health("eth1", []).unit
    safe = kernel(RX, "1", "512", unit=two)
    risky = kernel(TX, "1", "512", unit=one, risk="eth0: it carries the default route")
    steps = by_unit([risky, safe])
    transaction.run(ring, Origin.load(ring), steps, arm=arm)
    both = [f"kernel:{RX}", f"kernel:{TX}"]
    assert told == [(both, both, 1)], "after the one that is at no risk"
    transaction.run(ring, Origin.load(ring), [], arm=arm)
    assert len(told) == 1, "nothing is done, so nothing has to be put back"


def test_nothing_is_written_if_it_cannot_be_armed(ring: Ring) -> None:
    def arm(_entries: Sequence[Entry], _fresh: Sequence[Entry]) -> None:
        raise HostError("start", "the restore", None, "no timer")

    write = kernel(RX, "1", "512", unit=Health("eth0", []).unit, risk="eth0: it is the only one")
    with pytest.raises(TransactionError, match="no timer"):
        transaction.run(ring, Origin.load(ring), by_unit([write]), arm=arm)
    assert (ring.writes, Origin.load(ring).entries()) == ([], [])


def test_what_depends_on_another_one_is_put_back_after_it(ring: Ring) -> None:
    """As the MTU of a VLAN, which may not be larger than that of its NIC."""
    ring.put(TX, "9000\n")
    ring.put(RX, "9000\n")

    def accepted(path: str, value: str, old: str) -> str:
        if path == TX and int(value) > int(ring.now(RX)):
            raise HostError(f"write {value!r} to", path, errno.ERANGE)
        return value

    ring._accepted = accepted
    parent, vlan = kernel(RX, "1500", "9000"), kernel(TX, "1500", "9000")
    with pytest.raises(TransactionError) as caught:
        run(ring, [vlan, parent, kernel("/proc/sys/vm/none", "1", "0")])
    assert caught.value.stuck == []
    assert (ring.now(RX), ring.now(TX)) == ("9000", "9000")


def test_a_check_that_fails_undoes_all_before_anybody_is_told(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        assert machine.exists(UNIT)
        raise MlnodeError("does not start")

    told: list[str] = []
    monkeypatch.setattr(handlers, "run", lambda host, name: told.append(name))
    before = machine.tree()
    with pytest.raises(TransactionError, match="does not start") as caught:
        transaction.run(
            machine, Origin.load(machine), [FileWrite(UNIT, UNIT, b"x", notify="units")], check=fails
        )
    assert told == []
    assert caught.value.rolled_back == [f"{UNIT} = absent"]
    assert machine.tree() == before


def _failed(machine: Machine, steps: Sequence[Step], stuck: bool) -> None:
    """An armed run whose first step is settled, and whose last one is denied; so is its way back if stuck."""
    with transaction.Transaction(machine, Origin.load(machine), lambda *_told: True) as work:
        work.perform(steps, settled=True)
        work.perform([FIRST])
        if stuck:
            machine.fails[SWAPPINESS] = errno.EBUSY
        raise MlnodeError("a later step")


@pytest.mark.parametrize("stuck", [True, False])
def test_what_tries_once_more_stays_where_something_is_stuck(machine: Machine, stuck: bool) -> None:
    """The program that an armed undo runs, which this run has put there."""
    program = "/usr/local/bin/mlnode"
    with pytest.raises(TransactionError):
        _failed(machine, [FileWrite(program, program, b"the agent")], stuck)

    assert machine.exists(program) is stuck
    assert machine.now(SWAPPINESS) == ("10" if stuck else "60")


def test_without_the_module_confirm_a_change_that_waits_is_left_to_the_agent(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [b"", b"a change of eth0 waits for 30 s"]
    agent = SimpleNamespace(read=lambda _host, path: said.pop(0) if path == AGENT_PENDING else b"")
    host = Host(machine.root, {places.AGENT: lambda: agent})
    monkeypatch.setitem(sys.modules, confirm.__name__, None)
    engine._refuse_while_pending(host)

    with pytest.raises(RefusedError, match="eth0 waits for 30 s"):
        engine._refuse_while_pending(host)


class Watched(Machine):
    """Notes what systemd is told while the agent's program is there, and after."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.told: list[tuple[str, str, bool]] = []

    def _systemctl(self, verb: str, unit: str) -> Finished:
        self.told.append((verb, unit, self.exists(places.AGENT_COMMAND)))
        return super()._systemctl(verb, unit)


@pytest.mark.parametrize("before", [None, b"old"])
def test_what_starts_the_agent_is_stopped_before_its_program_goes(
    tmp_path: pathlib.Path, before: bytes | None
) -> None:
    """A NIC whose queues go back would start a program that is not there: Failed at step EXEC."""
    machine = Watched.debian(str(tmp_path / "node"))
    assert isinstance(machine, Watched)
    machine.put("/run/systemd/system/.keep", "")
    if before is not None:
        earlier = [
            FileWrite("program", places.AGENT_COMMAND, before, None, 0o755),
            FileWrite("path", units.NIC_PATH_FILE, b"[Path]\n", None, 0o644),
        ]
        transaction.run(machine, Origin.load(machine), earlier)
    steps = [
        FileWrite("program", places.AGENT_COMMAND, b"new", before, 0o755),
        FileWrite("path", units.NIC_PATH_FILE, b"[Path]\nPathExists=/x\n", None, 0o644, "units"),
    ]

    def failing() -> None:
        with transaction.Transaction(machine, Origin.load(machine)) as work:
            work.perform(steps)
            assert units.NIC_PATH_UNIT in machine.active
            raise HostError("set", "nic.fabric.channels", errno.EBUSY)

    with pytest.raises(TransactionError):
        failing()
    stops = [there for verb, unit, there in machine.told if (verb, unit) == ("stop", units.NIC_PATH_UNIT)]
    assert stops == ([True] if before is None else [])
    assert (units.NIC_PATH_UNIT in machine.active) is (before is not None)
    assert machine.content(places.AGENT_COMMAND) == before
