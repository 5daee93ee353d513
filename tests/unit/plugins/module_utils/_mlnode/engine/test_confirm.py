# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import json
import os
import pathlib
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.engine import confirm, confirm_store, transaction
from mlnode.engine.confirm_store import PENDING, UNDONE, Pending
from mlnode.engine.lock import locked
from mlnode.engine.origin import COPY, Entry, Origin, file_entry, kernel_entry
from mlnode.engine.origin import PATH as ORIGIN
from mlnode.engine.steps import FileWrite, KernelWrite, Step, UnitWrite
from mlnode.host import detached
from mlnode.host.system import Finished
from mlnode.model.errors import HostError, MlnodeError, RefusedError, StoreError
from mlnode.model.setting import KnobFile, Unit, Write

BOOT = "/proc/sys/kernel/random/boot_id"
NIC = "/sys/class/net/eth0/device"
MTU = "/sys/class/net/eth0/mtu"
MAPS = "/proc/sys/vm/max_map_count"
DECLARED = "/etc/mlnode/declared.d/default.json"
RULES = "/etc/udev/rules.d/90-mlnode.rules"
AGENT = "/usr/local/bin/mlnode"
WORDS = "mtu of eth0: 1500 to 9000"


class Node(Machine):
    """A node with a NIC that runs commands of systemd and the agent, or refuses them."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.commands: list[list[str]] = []
        self.refuses: dict[str, Finished] = {}

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        self.commands.append(list(command))
        if command[0] in self.refuses:
            return self.refuses[command[0]]
        if command[0] == AGENT:
            return Finished(0, "usage: mlnode undo [-h] [--when-due] ID\n", "")
        if command[0] == "systemd-run":
            assert self.exists(PENDING), "it would find nothing to undo"
            return Finished(0, "", "")
        return super().run(command, seconds)


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Node:
    """With systemd and the agent, so that a timer is the restore."""
    found = Node.debian(
        str(tmp_path / "node"),
        {BOOT: "6a3b0f1e-0000-4000-8000-000000000001", MTU: "1500", f"{NIC}/uevent": ""},
    )
    assert isinstance(found, Node)
    found.put("/run/systemd/system/.keep", "")
    found.put(AGENT, "", 0o755)
    Origin(found, []).remember([file_entry(found, AGENT)])
    found.put(DECLARED, "old\n", 0o640)
    found.put("/etc/udev/rules.d/.keep", "")
    return found


def at_risk() -> KernelWrite:
    file = KnobFile(
        0, MTU, "1500", "9000", (Write(MTU, "1500"),), device="/sys/class/net/eth0",
        unit=Unit("eth0", lambda _node: lambda: None), risk="eth0: it carries the default route",
    )  # fmt: skip
    return KernelWrite("nic.mtu", file)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused once is refused for ever here, so that nobody has to wait."""
    monkeypatch.setattr(confirm, "STUBBORN", 0.0)


def steps(told: str = "") -> list[Step]:
    return [
        UnitWrite(Unit("eth0", lambda _node: lambda: None), (at_risk(),)),
        KernelWrite("vm.max_map_count", KnobFile(0, MAPS, "65530", "1", (Write(MAPS, "65530"),))),
        FileWrite(DECLARED, DECLARED, b"new\n", b"old\n"),
        FileWrite(RULES, RULES, b"rule\n", notify=told),
    ]


def change(node: Machine, seconds: int = 60, told: str = "") -> Pending:
    """As the engine does it."""
    armed: list[Pending] = []

    def arm(entries: Sequence[Entry], fresh: Sequence[Entry]) -> None:
        armed.append(confirm.arm(node, "training", seconds, entries, fresh, WORDS))

    with locked(node):
        transaction.run(node, Origin.load(node), steps(told), arm=arm)
    return armed[0]


def waits_no_longer(node: Machine, now: Pending) -> None:
    """Its time is over, and its restore has not come."""
    document = json.loads(node.read(PENDING))
    document["due"] = time.monotonic() - 1
    node.put(PENDING, json.dumps(document), 0o600)


def reboot(node: Machine) -> None:
    node.put(BOOT, "6a3b0f1e-0000-4000-8000-000000000002\n")


def state(node: Machine) -> tuple[str, str, str, bool]:
    return node.now(MTU), node.now(MAPS), node.now(DECLARED), node.exists(RULES)


OLD = ("1500", "65530", "old", False)
NEW = ("9000", "1", "new", True)


# -- arm ------------------------------------------------------------------------------------------


def test_all_that_undoes_a_change_is_on_disk_and_a_timer_runs_before_it_is_made(node: Node) -> None:
    before = state(node)
    seen = []

    def arm(entries: Sequence[Entry], fresh: Sequence[Entry]) -> None:
        seen.append(confirm.arm(node, "training", 60, entries, fresh, WORDS))
        assert state(node) == before
        assert (os.stat(node.root + PENDING).st_mode & 0o777) == 0o600

    transaction.run(node, Origin.load(node), steps(), arm=arm)

    [armed] = seen
    assert state(node) == NEW
    assert confirm_store.load_pending(node) == armed
    assert armed.left in (59, 60)
    assert node.commands == [
        [AGENT, "undo", "--help"],
        ["systemd-run", "--collect", f"--unit=mlnode-undo-{armed.id}", "--on-active=60",
         "--timer-property=AccuracySec=1s", AGENT, "undo", "--when-due", armed.id],
    ]  # fmt: skip


def agent_missing(node: Node) -> None:
    node.remove(AGENT)


def agent_old(node: Node) -> None:
    node.refuses[AGENT] = Finished(2, "", "mlnode: error: argument COMMAND: invalid choice: 'undo'\n")


def agent_undoes_at_once(node: Node) -> None:
    node.refuses[AGENT] = Finished(0, "usage: mlnode undo [-h] ID\n", "")


def timer_refused(node: Node) -> None:
    node.refuses["systemd-run"] = Finished(1, "", "Failed to connect to bus\n")


def no_systemd(node: Node) -> None:
    os.rename(f"{node.root}/run/systemd", f"{node.root}/run/other")


def test_without_systemd_a_process_waits(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    no_systemd(node)
    started: list[object] = []
    monkeypatch.setattr(detached, "start", started.append)

    armed = change(node)

    assert len(started) == 1
    assert confirm_store.load_pending(node) == armed


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (agent_missing, "install the agent first"),
        (agent_old, "install the agent again"),
        (agent_undoes_at_once, "install the agent again"),
        (timer_refused, "Failed to connect to bus"),
    ],
)
def test_under_systemd_nothing_but_its_timer_will_do(
    node: Node, monkeypatch: pytest.MonkeyPatch, trouble: Callable[[Node], None], words: str
) -> None:
    """A process would end with the session that started it."""
    trouble(node)
    monkeypatch.setattr(detached, "start", lambda _work: pytest.fail("a process was started"))
    before = node.tree()

    with pytest.raises(MlnodeError, match=words):
        change(node)

    assert node.tree() == before


def test_without_any_restore_nothing_is_changed_and_nothing_is_left(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_systemd(node)

    def start(work: object) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(detached, "start", start)
    before = node.tree()

    with pytest.raises(MlnodeError) as caught:
        change(node)

    assert "nothing was changed, as it could not be undone" in str(caught.value)
    assert "Resource temporarily unavailable" in str(caught.value)
    assert node.tree() == before


def test_a_second_change_has_to_wait_for_the_first(node: Node) -> None:
    first = change(node)
    before = node.tree()

    with pytest.raises(MlnodeError) as caught:
        change(node)

    assert f"a change of training ({WORDS}) waits to be confirmed until " in str(caught.value)
    assert f"mlnode confirm {first.id}" in str(caught.value)
    assert node.tree() == before
    with pytest.raises(RefusedError):
        confirm.refuse_while_pending(node)


def test_a_change_that_was_rolled_back_waits_for_nothing(node: Node) -> None:
    armed = change(node)
    node.commands.clear()

    confirm.cancel(node)

    assert not node.exists(PENDING)
    assert node.commands == [["systemctl", "stop", f"mlnode-undo-{armed.id}.timer"]]
    confirm.refuse_while_pending(node)
    confirm.cancel(node)


# -- confirm --------------------------------------------------------------------------------------


def test_what_is_confirmed_stays_and_its_timer_stops(node: Node) -> None:
    armed = change(node)
    node.commands.clear()

    assert confirm.confirm(node, armed.id)

    assert state(node) == NEW
    assert confirm_store.load_pending(node) is None
    assert node.commands == [["systemctl", "stop", f"mlnode-undo-{armed.id}.timer"]]
    assert confirm_store.report(node) == ""
    assert node.exists(ORIGIN)


def test_confirming_again_after_a_lost_answer_is_no_error(node: Node) -> None:
    armed = change(node)
    confirm.confirm(node, armed.id)
    before = node.tree()

    assert not confirm.confirm(node, armed.id)
    assert node.tree() == before
    with pytest.raises(MlnodeError, match=f"{armed.id} has been confirmed: there is nothing to undo"):
        confirm.undo(node, armed.id)


@pytest.mark.parametrize("other", ["", "00000000", "../../etc/passwd", "x" * 5000, "\0", "\udcff"])
def test_another_id_confirms_and_undoes_nothing_and_the_right_one_is_named(node: Node, other: str) -> None:
    armed = change(node)
    before = node.tree()

    with pytest.raises(MlnodeError, match=f"{armed.id} does"):
        confirm.confirm(node, other)
    if other:
        with pytest.raises(MlnodeError, match=f"{armed.id} does"):
            confirm.undo(node, other)

    assert node.tree() == before


def test_what_was_undone_cannot_be_confirmed_and_the_words_say_when_and_why(node: Node) -> None:
    armed = change(node)
    waits_no_longer(node, armed)
    confirm.undo(node, armed.id)

    with pytest.raises(MlnodeError) as caught:
        confirm.confirm(node, armed.id)

    assert f"the change of training ({WORDS}) was undone at " in str(caught.value)
    assert "as it was not confirmed over a new connection within 60 s: the old values are back" in str(
        caught.value
    )
    assert state(node) == OLD


def test_nothing_waits(node: Node) -> None:
    for call in (confirm.confirm, confirm.undo):
        with pytest.raises(MlnodeError, match=r"no change waits to be confirmed as 'abcdef01'$"):
            call(node, "abcdef01")
    with pytest.raises(MlnodeError, match=r"no change waits to be confirmed$"):
        confirm.undo(node)


def connected(node: Machine, port: int, pid: int | None = None) -> None:
    """As after a login and sudo: our own environment says nothing, that of our parent's parent does."""
    own = os.getpid()
    node.put(f"/proc/{own}/environ", "HOME=/root\0XSSH_CONNECTION=1\0")
    node.put(f"/proc/{own}/status", "Name:\tpython3\nPPid:\t7001\n")
    node.put("/proc/7001/status", "Name:\tsudo\nPPid:\t7000\n")
    node.put("/proc/7000/environ", f"A=1\0SSH_CONNECTION=10.0.0.9 {port} 10.0.0.1 22\0B=2\0")
    node.put("/proc/7000/status", "PPid:\t1\n")


def test_the_connection_that_made_the_change_proves_nothing(node: Node) -> None:
    connected(node, 50000)
    armed = change(node)

    with pytest.raises(RefusedError, match="this is the connection over which"):
        confirm.confirm(node, armed.id)
    assert confirm_store.load_pending(node) == armed

    connected(node, 50001)
    assert confirm.confirm(node, armed.id)


@pytest.mark.parametrize("status", ["", "PPid:\tx\n", "PPid:\t0\n", "PPid:\t-1\n"])
def test_a_process_without_a_readable_past_has_no_connection(node: Node, status: str) -> None:
    node.put(f"/proc/{os.getpid()}/status", status)

    assert change(node).connection == ""


def test_processes_that_are_each_others_parents_are_not_followed_for_ever(node: Node) -> None:
    node.put(f"/proc/{os.getpid()}/status", "PPid:\t7000\n")
    node.put("/proc/7000/status", f"PPid:\t{os.getpid()}\n")

    assert change(node).connection == ""


def test_an_unreadable_environment_is_no_connection(node: Node) -> None:
    connected(node, 50000)
    node.unreadable["/proc/7000/environ"] = errno.EACCES

    assert change(node).connection == ""


@pytest.mark.parametrize("call", [confirm.confirm, confirm.undo, confirm.undo_when_due])
def test_without_root_nothing_is_decided(node: Node, call: object) -> None:
    armed = change(node)
    before = node.tree()
    node.superuser = False

    assert callable(call)
    with pytest.raises(HostError, match="root is needed"):
        call(node, armed.id)

    assert node.tree() == before


# -- undo -----------------------------------------------------------------------------------------


def test_an_undo_brings_back_everything_and_the_origin_forgets_it(node: Node) -> None:
    before = node.tree()
    armed = change(node)

    done = confirm.undo(node, armed.id)

    assert done.stuck == ()
    assert f"was undone at {done.time}, as that was requested before its time was over" in done.text
    assert node.commands[-1] == ["systemctl", "stop", f"mlnode-undo-{armed.id}.timer"]
    assert confirm_store.report(node) == done.text
    confirm_store.acknowledge(node)
    assert confirm_store.report(node) == ""
    assert node.tree() == before


def test_what_was_known_before_the_change_stays_known(node: Node) -> None:
    transaction.run(
        node,
        Origin.load(node),
        [KernelWrite("vm.max_map_count", KnobFile(0, MAPS, "65530", "77777", (Write(MAPS, "65530"),)))],
    )
    stepped = KernelWrite("vm.max_map_count", KnobFile(0, MAPS, "77777", "1", (Write(MAPS, "77777"),)))

    def arm(entries: Sequence[Entry], fresh: Sequence[Entry]) -> None:
        confirm.arm(node, "training", 60, entries, fresh, WORDS)

    transaction.run(node, Origin.load(node), [stepped, *steps()[2:]], arm=arm)

    confirm.undo(node)

    assert (node.now(MAPS), node.now(DECLARED)) == ("77777", "old")
    assert [entry["key"] for entry in Origin.load(node).entries()] == [AGENT, "vm.max_map_count"]
    assert Origin.load(node).value_of(MAPS) == "65530"


def test_an_undo_without_an_id_is_for_whatever_waits_and_a_second_one_changes_nothing(node: Node) -> None:
    armed = change(node)
    done = confirm.undo(node)
    before = node.tree()

    assert confirm.undo(node, armed.id) == done
    assert node.tree() == before


def test_who_reads_a_file_is_told_that_it_is_the_old_one_again(node: Node) -> None:
    change(node, told="units")
    node.reloads = 0

    confirm.undo(node)

    assert node.reloads == 1


def test_what_cannot_be_put_back_is_named_and_its_origin_stays(node: Node) -> None:
    armed = change(node)
    node.fails[MTU] = errno.EBUSY

    done = confirm.undo(node, armed.id)

    assert len(done.stuck) == 1
    words = f"COULD NOT be put back: nic.mtu of eth0 (cannot write '1500' to {MTU}: EBUSY"
    assert words in confirm_store.report(node)
    assert state(node) == ("9000", *OLD[1:])
    assert {entry["key"] for entry in Origin.load(node).entries()} >= {"nic.mtu of eth0"}
    # Whoever comes next tries again, and goes no further before it is back.
    waits_no_longer(node, armed)
    with pytest.raises(RefusedError, match="not all of it is undone yet"):
        confirm.refuse_while_pending(node)
    del node.fails[MTU]
    confirm.refuse_while_pending(node)
    assert state(node) == OLD


def test_a_file_that_cannot_be_put_back_is_tried_again_by_whoever_comes_next(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    armed = change(node)
    real = Machine.write_file

    def full(self: Machine, path: str, content: bytes, *given: Any, **named: Any) -> None:
        if path == DECLARED:
            raise HostError("write", path, errno.ENOSPC)
        real(self, path, content, *given, **named)

    monkeypatch.setattr(Machine, "write_file", full)
    waits_no_longer(node, armed)
    done = confirm.undo(node, armed.id)

    assert "ENOSPC" in done.text
    assert state(node) == ("1500", "65530", "new", False)
    with pytest.raises(RefusedError, match="not all of it is undone yet"):
        confirm.refuse_while_pending(node)
    with pytest.raises(MlnodeError, match="was undone at"):  # half of a change is not to be confirmed
        confirm.confirm(node, armed.id)

    monkeypatch.setattr(Machine, "write_file", real)
    confirm.refuse_while_pending(node)
    assert state(node) == OLD


def test_a_damaged_origin_is_told_and_everything_else_goes_back(node: Node) -> None:
    change(node)
    node.put(ORIGIN, "{")
    node.put(COPY, "{")

    done = confirm.undo(node)

    assert len(done.stuck) == 1
    assert f"{ORIGIN} is damaged" in done.stuck[0]
    assert state(node) == OLD


def test_a_signal_does_not_end_an_undo_half_way(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    change(node)
    real = Machine.write_kernel
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    heard: list[int] = []

    def hear(number: int, _frame: object) -> None:
        heard.append(number)

    def hung_up(self: Machine, path: str, value: str) -> None:
        for number in numbers:
            os.kill(os.getpid(), number)
        real(self, path, value)

    monkeypatch.setattr(Machine, "write_kernel", hung_up)
    before = [signal.signal(number, hear) for number in numbers]
    try:
        assert confirm.undo(node).stuck == ()
        assert [signal.getsignal(number) for number in numbers] == [hear] * 3
    finally:
        for number, handler in zip(numbers, before):
            signal.signal(number, handler)

    assert heard == []
    assert state(node) == OLD


def test_a_device_that_is_gone_does_not_keep_the_rest(node: Node) -> None:
    change(node)
    os.rename(f"{node.root}/sys/class/net/eth0", f"{node.root}/gone")

    assert confirm.undo(node).stuck == ()

    assert (node.now(MAPS), node.now(DECLARED)) == ("65530", "old")


# -- nobody was there when it was due ---------------------------------------------------------------


def test_after_a_power_cut_only_files_go_back(node: Node) -> None:
    change(node)
    reboot(node)
    node.put(MAPS, "70000\n")
    node.put(MTU, "4200\n")

    words = confirm.resume(node)

    assert "as the node was booted before it was confirmed" in words
    assert state(node) == ("4200", "70000", "old", False)
    assert confirm_store.report(node) == words
    assert [entry["key"] for entry in Origin.load(node).entries()] == [AGENT]


def test_after_a_boot_it_is_too_late_to_confirm(node: Node) -> None:
    armed = change(node)
    reboot(node)

    with pytest.raises(RefusedError, match="was booted"):
        confirm.confirm(node, armed.id)


def test_what_still_has_time_is_left_alone(node: Node) -> None:
    change(node)
    before = node.tree()

    assert confirm.resume(node) == ""
    assert node.tree() == before


def test_a_restore_that_was_killed_is_made_up_for_by_the_next_run(node: Node) -> None:
    armed = change(node)
    waits_no_longer(node, armed)

    confirm.refuse_while_pending(node)

    assert state(node) == OLD
    assert "was not confirmed" in confirm_store.report(node)


def test_a_module_without_the_drivers_leaves_it_to_the_agent(node: Node) -> None:
    """What it cannot reach must not count as gone."""
    rings = "/ethtool/eth0/ring/rx"
    entry = kernel_entry(node, "nic.rings", KnobFile(0, rings, "512", "", (Write(rings, "512"),)))
    with locked(node):
        armed = confirm.arm(node, "training", 60, [entry], [], WORDS)
    waits_no_longer(node, armed)
    node.mounts = {}

    with pytest.raises(RefusedError, match=f"`mlnode undo {armed.id}` undoes it now"):
        confirm.refuse_while_pending(node)

    assert node.exists(PENDING)


def test_it_may_be_confirmed_as_long_as_nobody_has_undone_it(node: Node) -> None:
    armed = change(node)
    waits_no_longer(node, armed)

    assert confirm.confirm(node, armed.id)
    assert state(node) == NEW


# -- what is told -----------------------------------------------------------------------------------


def test_whoever_looks_sees_what_waits_and_what_was_undone(node: Node) -> None:
    assert confirm_store.notes(node) == []
    first = change(node)
    confirm.undo(node)
    second = change(node)

    waits, undone = confirm_store.notes(node)

    assert f"mlnode undo {second.id}" in waits
    assert undone == confirm_store.report(node)
    assert first.id != second.id


def test_somebody_else_is_told_that_something_waits(node: Node) -> None:
    change(node)
    node.superuser = False
    node.unreadable[PENDING] = errno.EACCES

    [line] = confirm_store.notes(node)

    assert line.startswith(f"a change waits to be confirmed: cannot read {PENDING}: EACCES")


def test_what_was_undone_and_cannot_be_read_is_told_too(node: Node) -> None:
    node.put(UNDONE, "{")
    assert "a change was undone, but" in confirm_store.report(node)
    node.unreadable[UNDONE] = errno.EIO
    assert f"cannot read {UNDONE}: EIO" in confirm_store.report(node)
    assert confirm_store.notes(node) == [confirm_store.report(node)]


# -- damaged files ----------------------------------------------------------------------------------


@cases.table
def test_a_record_that_makes_no_sense_stops_every_run_and_stays(
    node: Node, field: str, value: object
) -> None:
    change(node)
    document = json.loads(node.read(PENDING))
    document[field] = value
    node.put(PENDING, json.dumps(document))
    before = node.tree()

    for call in (
        confirm_store.load_pending,
        confirm.refuse_while_pending,
        confirm.resume,
        confirm.cancel,
        confirm.undo,
    ):
        with pytest.raises(StoreError, match=PENDING):
            call(node)
    assert PENDING in confirm_store.notes(node)[0]
    assert node.tree() == before


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "5", '"x"', "[" * 100000, "{}", "\0"])
@pytest.mark.parametrize("path", [PENDING, UNDONE])
def test_a_damaged_file_is_never_a_traceback_nor_nothing(node: Node, path: str, text: str) -> None:
    node.put(path, text)
    with pytest.raises(StoreError):
        confirm_store.load_pending(node) if path == PENDING else confirm_store.load_undone(node)
    pathlib.Path(node.root + path).write_bytes(b"\xff\xfe")
    with pytest.raises(StoreError):
        confirm_store.load_pending(node) if path == PENDING else confirm_store.load_undone(node)


@cases.table
def test_a_damaged_record_of_an_undo_is_told(node: Node, field: str, value: object) -> None:
    change(node)
    confirm.undo(node)
    document = json.loads(node.read(UNDONE))
    document[field] = value
    node.put(UNDONE, json.dumps(document))

    assert UNDONE in confirm_store.report(node)
    confirm_store.acknowledge(node)
    assert confirm_store.report(node) == ""


def test_any_bytes_in_a_value_survive(node: Node) -> None:
    node.put("/sys/class/net/eth0/ifalias", "")
    pathlib.Path(node.root + "/sys/class/net/eth0/ifalias").write_bytes(b"a\xffb\n")
    alias = "/sys/class/net/eth0/ifalias"
    old = node.value(alias).text or ""

    def arm(entries: Sequence[Entry], fresh: Sequence[Entry]) -> None:
        confirm.arm(node, "training", 60, entries, fresh, old)

    transaction.run(
        node,
        Origin.load(node),
        [KernelWrite("nic.alias", KnobFile(0, alias, old, "x", (Write(alias, old),)))],
        arm=arm,
    )
    confirm.undo(node)

    assert node.value(alias).text == old
    assert node.read_bytes(alias) == b"a\xffb\n"


# -- small troubles ----------------------------------------------------------------------------------


def test_a_timer_that_cannot_be_stopped_keeps_nobody_from_confirming(node: Node) -> None:
    armed = change(node)
    node.refuses["systemctl"] = Finished(5, "", "Unit not loaded.\n")
    assert confirm.confirm(node, armed.id)
    armed = change(node)

    def run(command: Sequence[str], seconds: float = 60) -> Finished:
        raise HostError("run", command[0], errno.ENOENT)

    node.run = run
    assert confirm.confirm(node, armed.id)


def test_a_file_that_cannot_be_looked_at_counts_as_not_back(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(node)
    node.unreadable[DECLARED] = errno.EIO

    done = confirm.undo(node)

    assert "EIO" in done.text
    assert node.exists(PENDING)
    node.unreadable.clear()
    assert confirm.undo(node).stuck == ()
    assert state(node) == OLD


def test_what_cannot_be_disarmed_is_still_the_first_error_that_is_told(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_systemd(node)

    def start(work: object) -> None:
        node.remove_file = remove
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    def remove(path: str) -> None:
        raise HostError("remove", path, errno.EIO)

    monkeypatch.setattr(detached, "start", start)

    with pytest.raises(MlnodeError, match="no restore could be started"):
        change(node)
