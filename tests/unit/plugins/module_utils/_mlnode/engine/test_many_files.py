# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the engine does for a kind whose settings rule many files, need a boot, or have to be told of."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import node, registry
from mlnode.engine import answers, engine, handlers, origin, revert
from mlnode.engine import units as agent_files
from mlnode.engine.judge import waits_for_boot
from mlnode.engine.kind import Context, Info, Row
from mlnode.engine.origin_paths import present as owned_files
from mlnode.engine.steps import Notify
from mlnode.host import places
from mlnode.host.host import Host
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.model.errors import HostError, TransactionError
from mlnode.model.schema import Option
from mlnode.model.setting import (
    Boot,
    BootFile,
    KnobFile,
    Reading,
    Setting,
    Severity,
    Status,
    Value,
    Write,
)
from mlnode.model.values import grouped

BOOT_ID = "/proc/sys/kernel/random/boot_id"
CONFIG = "/etc/nccl.conf"
MADE = "/etc/thing.made"


OWNED = (errno.EIO, errno.EPERM)


def vector(number: int) -> str:
    return f"/proc/irq/{number}/smp_affinity_list"


class Vectors:
    """All interrupts of a machine on one list of CPUs. devices: whether they are of a device that may go."""

    KIND = "vectors"
    OPTIONS = {"cpus": Option("str")}

    def __init__(self, devices: bool = False, at_boot: bool = False) -> None:
        self.devices = devices
        self.at_boot = at_boot
        self.note = ""

    def parse(self, spec: Any, facts: Any) -> list[Setting]:
        del facts
        return [Setting(self.KIND, "vectors.all", "/proc/irq", spec["cpus"], spec["cpus"])]

    def read(self, settings: Sequence[Setting], context: Context) -> list[Reading]:
        return [self._one(setting, context) for setting in settings]

    def _one(self, setting: Setting, context: Context) -> Reading:
        host, want = context.host, setting.want or ""
        parts, before = [], {}
        for name in host.names("/proc/irq"):
            path, owner = vector(int(name)), f"/sys/bus/pci/devices/0/msi_irqs/{name}"
            now = host.value(path).text
            if now is None or answers.Answers(host).refused(path, owner, OWNED):
                continue
            device = owner if self.devices else ""
            parts.append(KnobFile(int(name), path, now, want, (Write(path, now),), device, owner))
            if path in context.origins:
                before[int(name)] = context.origins[path]
        boot = context.boot_by_agent(setting, want)
        if self.at_boot:
            made = host.value(MADE).text
            boot = Boot(Value(text=made) if made else Value(absent="nothing made"), MADE)
        return Reading(
            "/proc/irq",
            Value(text=grouped({part.number: part.runtime for part in parts})),
            boot,
            want,
            parts=tuple(parts),
            origin=grouped(before) if before else None,
            note=self.note,
            managed="" if parts else "the kernel keeps them",
            at_boot=self.at_boot,
        )

    def boot_files(self, name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
        del name
        if not self.at_boot:
            return []
        want = rows[0].reading.want or ""
        stale = context.host.value(MADE).text != want
        return [BootFile(CONFIG, f"{want}\n".encode(), "thing", stale)]

    def conflicts(self, key: str, other: str) -> bool:
        del key, other
        return False

    def boot_sources(self, key: str, host: Host) -> list[str]:
        del key, host
        return []

    def info_of(self, setting: Setting, runtime: Value) -> Info:
        del setting, runtime
        return Info(Severity.LOW, "a test", "none")


@pytest.fixture
def many(machine: Machine) -> Machine:
    machine.put(BOOT_ID, "first\n")
    for number in range(40, 44):
        machine.put(vector(number), "0-7\n")
        machine.put(f"/sys/bus/pci/devices/0/msi_irqs/{number}", "msix\n")
    machine.enable_agent()
    return machine


def request(kind: Vectors, cpus: str = "2-3") -> engine.Request:
    return engine.Request("default", kind, {"cpus": cpus})


def applied(machine: Machine, kind: Vectors, cpus: str = "2-3") -> Row:
    outcome = door.apply(machine, request(kind, cpus))
    return outcome.rows[0]


# -- many files ------------------------------------------------------------------------------


def test_only_the_files_that_differ_are_written_and_each_comes_back(many: Machine) -> None:
    many.put(vector(41), "2,3\n")
    plan = engine.evaluate(many, request(Vectors()))
    assert plan.rows[0].status is Status.DRIFTED
    assert plan.rows[0].reason.startswith("runtime is 0-7: 40,42-43; 2,3: 41")
    row = applied(many, Vectors())
    assert row.status is Status.CHANGED
    assert [path for path, _value in many.writes] == [vector(40), vector(42), vector(43)]
    assert row.origin == "0-7: 40,42-43; 2,3: 41"
    again = door.apply(many, request(Vectors()))
    assert (again.changed, again.rows[0].status) == (False, Status.OK)
    revert.revert(many)
    assert [many.now(vector(number)) for number in range(40, 44)] == ["0-7", "2,3", "0-7", "0-7"]


def test_one_failed_file_takes_all_of_the_rule_back(many: Machine) -> None:
    many.fails[vector(42)] = errno.EROFS
    with pytest.raises(TransactionError) as error:
        applied(many, Vectors())
    assert "EROFS" in str(error.value)
    assert str(error.value).count("vectors.all = 0-7") == 1, "told once, not once for each file"
    assert [many.now(vector(number)) for number in range(40, 44)] == ["0-7"] * 4


def test_a_note_stands_beside_ok(many: Machine) -> None:
    kind = Vectors()
    kind.note = "CPU 6 is offline"
    applied(many, kind)
    row = engine.evaluate(many, request(kind)).rows[0]
    assert (row.status, row.reason) == (Status.OK, "CPU 6 is offline")


@pytest.mark.parametrize("number", [errno.EIO, errno.EPERM])
def test_what_the_kernel_keeps_to_itself_stops_nothing(many: Machine, number: int) -> None:
    many.fails[vector(41)] = number
    assert applied(many, Vectors()).status is Status.CHANGED
    assert many.names(answers.FOLDER) == ["proc!irq!41!smp_affinity_list"]
    assert many.now(vector(41)) == "0-7"
    assert engine.evaluate(many, request(Vectors())).steps == ()


def test_where_the_kernel_keeps_all_of_them_the_status_is_managed(many: Machine) -> None:
    many.fails.update({vector(irq): errno.EIO for irq in range(40, 44)})
    row = applied(many, Vectors())
    assert (row.status, row.reason) == (Status.MANAGED, "the kernel keeps them")
    assert not row.status.is_drift


# -- what belongs to a device ------------------------------------------------------------------


def test_after_a_reboot_a_number_is_another_device_s(many: Machine) -> None:
    applied(many, Vectors(devices=True))
    many.put(BOOT_ID, "second\n")
    many.forget()
    many.put(vector(40), "1\n")
    assert origin.Origin.load(many).values() == {}
    assert [change.key for change in revert.pending(many) if not change.is_file] == []
    revert.revert(many)
    assert many.now(vector(40)) == "1"
    assert many.now(vector(41)) == "2-3"


def test_a_device_that_is_gone_has_no_origin(many: Machine) -> None:
    applied(many, Vectors(devices=True))
    many.remove("/sys/bus/pci/devices/0/msi_irqs/40")
    assert vector(40) not in origin.Origin.load(many).values()
    revert.revert(many)
    assert (many.now(vector(40)), many.now(vector(41))) == ("2-3", "0-7")


def test_a_new_boot_has_origins_of_its_own(many: Machine) -> None:
    applied(many, Vectors(devices=True))
    many.put(BOOT_ID, "second\n")
    many.forget()
    shutil.rmtree(f"{many.root}/proc/irq/43")
    for number in range(40, 43):
        many.put(vector(number), "4-5\n")
    applied(many, Vectors(devices=True))
    store = origin.Origin.load(many)
    assert store.values() == {vector(number): "4-5" for number in range(40, 43)}
    assert f"kernel:{vector(43)}" not in {entry["id"] for entry in store.entries()}, "swept"
    revert.revert(many)
    assert many.now(vector(40)) == "4-5"


# -- what needs a boot, and who has to be told ---------------------------------------------------


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Somebody who makes MADE of CONFIG."""
    calls: list[str] = []

    def tell(host: Host) -> None:
        text = host.value(CONFIG).text
        calls.append(text or "nothing")
        if text == "bad":
            raise HostError("make", MADE, None, "syntax error")
        assert isinstance(host, Machine)
        host.put(MADE, (text or "") + "\n")

    monkeypatch.setattr(handlers, "HANDLERS", {**handlers.HANDLERS, "thing": tell})
    monkeypatch.setattr(places, "READERS", (*places.READERS, "thing"))
    return calls


def test_a_value_for_the_next_boot_waits_for_it(many: Machine, told: list[str]) -> None:
    kind = Vectors(at_boot=True)
    plan = engine.evaluate(many, request(kind))
    assert (plan.rows[0].status, plan.rows[0].reason) == (
        Status.DRIFTED,
        "runtime is 0-7; boot: nothing made",
    )
    row = applied(many, kind)
    assert (row.status, row.reason) == (Status.PENDING_REBOOT, "runtime is 0-7; the next boot brings 2-3")
    assert told == ["2-3"]
    assert many.writes == [], "the running kernel cannot take it"
    again = door.apply(many, request(kind))
    assert (again.changed, again.rows[0].status) == (False, Status.PENDING_REBOOT)
    for number in range(40, 44):
        many.put(vector(number), "2-3\n")
    assert engine.evaluate(many, request(kind)).rows[0].status is Status.OK


def test_who_made_something_else_of_a_right_file_is_told_again(many: Machine, told: list[str]) -> None:
    kind = Vectors(at_boot=True)
    applied(many, kind)
    many.put(MADE, "by hand\n")
    plan = engine.evaluate(many, request(kind))
    assert [type(step) for step in plan.steps] == [Notify]
    assert door.apply(many, request(kind)).changed
    assert told == ["2-3", "2-3"]


def test_who_refuses_the_new_file_gets_the_old_one(many: Machine, told: list[str]) -> None:
    kind = Vectors(at_boot=True)
    applied(many, kind)
    before = many.tree()
    with pytest.raises(TransactionError, match="syntax error"):
        applied(many, kind, "bad")
    assert told == ["2-3", "bad", "2-3"]
    assert many.tree() == before


def test_who_refuses_even_the_old_file_is_named(many: Machine, told: list[str]) -> None:
    many.put(CONFIG, "bad\n")
    with pytest.raises(TransactionError, match=r"COULD NOT be put back: cannot make /etc/thing\.made"):
        applied(many, Vectors(at_boot=True), "bad")
    assert told == ["bad", "bad"]


def test_a_revert_tells_them_too(many: Machine, told: list[str]) -> None:
    many.put(CONFIG, "5\n")
    applied(many, Vectors(at_boot=True))
    assert origin.Origin.load(many).entries() != []
    revert.revert(many)
    assert told == ["2-3", "5"]
    for path in owned_files(many):  # what was put there for this test, and no run
        many.remove(path)
    assert revert.revert(many) == []
    assert told == ["2-3", "5"], "nothing had changed, so nobody is told"


def test_a_revert_says_what_only_a_boot_brings_back(
    many: Machine, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "AT_BOOT", {"thing"})
    many.put(CONFIG, "5\n")
    applied(many, Vectors(at_boot=True))
    assert [change.key for change in revert.pending(many) if change.at_boot] == [CONFIG]
    assert told == ["2-3"]


def test_a_revert_goes_on_where_they_cannot_be_told(many: Machine, told: list[str]) -> None:
    many.put(CONFIG, "bad\n")
    many.put(MADE, "5\n")
    applied(many, Vectors(at_boot=True))
    with pytest.raises(TransactionError, match="syntax error"):
        revert.revert(many)
    assert told == ["2-3", "bad"]
    assert many.now(CONFIG) == "bad", "all the same"
    with pytest.raises(TransactionError, match="syntax error"):
        revert.revert(many)
    assert told == ["2-3", "bad", "bad"], "it is tried until they have heard of it"
    many.put(CONFIG, "5\n")


# -- what waits for a boot -----------------------------------------------------------------------


def test_a_check_says_that_the_run_would_wait_for_a_boot(many: Machine, told: list[str]) -> None:
    kind = Vectors(at_boot=True)
    assert waits_for_boot(engine.evaluate(many, request(kind)).rows)
    assert waits_for_boot([applied(many, kind)])
    for number in range(40, 44):
        many.put(vector(number), "2-3\n")
    assert not waits_for_boot(engine.evaluate(many, request(kind)).rows)
    assert told == ["2-3"]


# -- for NICs only -------------------------------------------------------------------------------


def test_a_nic_that_arrives_gets_its_own_kinds_only(many: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = Vectors()
    monkeypatch.setattr(node, "KINDS", {**registry.KINDS, "vectors": kind})
    applied(many, kind)
    door.apply(many, engine.Request("other", sysctl, {"settings": {"vm.swappiness": 10}}))
    many.put(vector(40), "0-7\n")
    many.put("/proc/sys/vm/swappiness", "60\n")
    done = node.apply_all(many, ["vectors"])
    assert [item.row.setting.key for item in done.rows] == ["vectors.all"]
    assert (many.now(vector(40)), many.now("/proc/sys/vm/swappiness")) == ("2-3", "60")


def test_a_nic_that_arrives_where_nothing_is_declared_is_no_error(machine: Machine) -> None:
    done = node.apply_all(machine, registry.ON_ARRIVAL)
    assert (done.rows, done.errors) == ((), ())
    # A condition that does not hold would leave the flag up, and start the service without end.
    assert "Condition" not in agent_files.NIC_UNIT
