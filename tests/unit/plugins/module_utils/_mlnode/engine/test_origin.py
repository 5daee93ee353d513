# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import json
import os
import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.faults import Gate, Gated, failing, install
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.engine import declared, engine, origin, revert
from mlnode.engine.lock import LOCK_PATH
from mlnode.engine.origin import Origin
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.knobs.thp.kind import kind as thp
from mlnode.model.errors import HostError, StoreError, TransactionError

SWAPPINESS = "/proc/sys/vm/swappiness"


def request(value: int, name: str = "default") -> engine.Request:
    return engine.Request(name, sysctl, {"settings": {"vm.swappiness": value}})


def document(entry: Any) -> str:
    return json.dumps({"format": 1, "entries": [entry]})


KERNEL = {"id": "kernel:/proc/sys/x", "key": "x", "value": "1", "writes": [["/proc/sys/x", "1"]]}
FILE = {
    "id": "file:/etc/nccl.conf", "key": "/etc/nccl.conf", "value": "present", "file": "/etc/nccl.conf",
    "folders": [],
    "saved": {"content": "eA==", "mode": 420, "uid": 0, "gid": 0},
}  # fmt: skip
MODULE = {"id": "module:x", "key": "module x", "value": "not loaded", "module": "x"}

DAMAGED = {
    "empty": "",
    "half": '{"format": 1, "entr',
    "no text": "\udcff",
    "a list": "[]",
    "a number": "1",
    "null": "null",
    "no format": '{"entries": []}',
    "a later format": '{"format": 2, "entries": []}',
    "no entries": '{"format": 1}',
    "entries as a number": '{"format": 1, "entries": 3}',
    "an entry that is a text": document("x"),
    "an entry without an id": document({**KERNEL, "id": None}),
    "an entry without a value": document({key: KERNEL[key] for key in KERNEL if key != "value"}),
    "an entry of no kind": document({key: KERNEL[key] for key in ("id", "key", "value")}),
    "a write without a value": document({**KERNEL, "writes": [["/proc/sys/x"]]}),
    "a write that is a text": document({**KERNEL, "writes": ["ab"]}),
    "writes that are a text": document({**KERNEL, "writes": "ab"}),
    "a write of a number": document({**KERNEL, "writes": [["/proc/sys/x", 1]]}),
    "a device that is a number": document({**KERNEL, "device": 7, "boot": "x"}),
    "a boot that is a number": document({**KERNEL, "device": "/sys/x", "boot": 7}),
    "a reader that is a number": document({**FILE, "notify": 7}),
    "a form that is a text": document({**KERNEL, "among": "yes"}),
    "a form that is false": document({**KERNEL, "partial": False}),
    "a file without its content": document({**FILE, "saved": {"mode": 420, "uid": 0, "gid": 0}}),
    "a file whose content is cut off": document({**FILE, "saved": {**FILE["saved"], "content": "eA="}}),
    "a file without its mode": document({**FILE, "saved": {"content": "", "uid": 0, "gid": 0}}),
    "a file that is a list": document({**FILE, "saved": []}),
    "a link to a number": document({**FILE, "saved": {"link": 1}}),
    "folders that are a text": document({**FILE, "folders": "/etc"}),
    "a folder that is a number": document({**FILE, "folders": [1]}),
    "a module that is a number": document({**MODULE, "module": 1}),
}  # fmt: skip


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_store_is_named_and_nothing_is_changed(machine: Machine, text: str) -> None:
    machine.put(origin.PATH, "")
    with open(machine.root + origin.PATH, "wb") as stream:
        stream.write(text.encode("utf-8", "surrogateescape"))
    before = machine.tree()
    for ask in (
        lambda: engine.evaluate(machine, request(10)),
        lambda: door.apply(machine, request(10)),
        lambda: revert.pending(machine),
        lambda: revert.revert(machine),
    ):
        with pytest.raises(StoreError, match=origin.PATH):
            ask()
    assert machine.tree() == before


@pytest.mark.parametrize(
    "entry", [KERNEL, FILE, {**FILE, "saved": None}, {**FILE, "saved": {"link": "/y"}}, MODULE]
)
def test_what_is_whole_is_taken_as_it_is(machine: Machine, entry: dict[str, Any]) -> None:
    machine.put(origin.PATH, document(entry))
    assert Origin.load(machine).entries() == [entry]


def test_an_unreadable_store_is_no_missing_one(machine: Machine) -> None:
    door.apply(machine, request(10))
    machine.unreadable[origin.PATH] = errno.EIO
    before = machine.tree()
    with pytest.raises(HostError, match="EIO"):
        door.apply(machine, request(20))
    assert machine.tree() == before


def test_the_first_origin_wins(machine: Machine) -> None:
    for value in (10, 20, 30):
        door.apply(machine, request(value))
    found = Origin.load(machine)
    assert found.value_of(SWAPPINESS) == "60"
    assert found.value_of("/proc/sys/vm/other") is None
    assert [entry["id"] for entry in found.entries()].count(f"kernel:{SWAPPINESS}") == 1


def test_the_first_origin_wins_across_names(machine: Machine) -> None:
    door.apply(machine, request(10, "first"))
    door.apply(machine, request(10, "second"))
    assert Origin.load(machine).value_of(SWAPPINESS) == "60"


def test_the_origin_is_on_disk_before_the_first_kernel_write(tmp_path: pathlib.Path) -> None:
    seen = []

    class Watching(Machine):
        def write_kernel(self, path: str, value: str) -> None:
            seen.append(Origin.load(self).value_of(path))
            super().write_kernel(path, value)

    door.apply(Watching.debian(str(tmp_path)), request(10))
    assert seen == ["60"]


def test_the_store_is_for_root_alone(machine: Machine) -> None:
    door.apply(machine, request(10))
    real = machine.root + origin.PATH
    assert os.stat(real).st_mode & 0o7777 == 0o600
    os.chmod(real, 0o644)
    door.apply(machine, engine.Request("default", thp, {"enabled": "madvise"}))
    assert os.stat(real).st_mode & 0o7777 == 0o600


def test_nothing_remembered_is_no_file(machine: Machine) -> None:
    before = machine.tree()
    assert Origin.load(machine).remember([]) == []
    Origin.load(machine).forget([])
    assert machine.tree() == before


def test_the_last_entry_takes_the_file_with_it(machine: Machine) -> None:
    before = machine.tree()
    store = Origin.load(machine)
    fresh = store.remember([KERNEL, MODULE])
    assert fresh == [KERNEL, MODULE]
    assert store.remember([{**KERNEL, "value": "2"}]) == []
    store.forget([KERNEL])
    assert Origin.load(machine).entries() == [MODULE]
    store.forget([MODULE])
    assert machine.tree() == before


@pytest.mark.parametrize("earlier", [False, True], ids=["first", "later"])
def test_a_store_that_cannot_be_written_stops_everything(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, earlier: bool
) -> None:
    def fresh(name: str) -> Gated:
        machine = Gated.debian(str(tmp_path / name))
        assert isinstance(machine, Gated)
        if earlier:
            door.apply(machine, request(10))
        return machine

    work = engine.Request("default", thp, {"enabled": "madvise"})
    gate = Gate()
    probe = fresh("probe")
    install(monkeypatch, probe, gate)
    door.apply(probe, work)
    # The declaration is the first file after the store.
    positions = next(number for number, what in enumerate(gate.seen) if declared.FOLDER in what)
    assert positions >= 6
    monkeypatch.undo()
    # What is tidied up beforehand may fail: there is nothing to tidy. And the lock is another matter.
    others = ("unlink", f"open {probe.root}{LOCK_PATH}", f"fchmod {probe.root}{LOCK_PATH}")
    for position in [at for at in range(1, positions + 1) if not gate.seen[at - 1].startswith(others)]:
        machine = fresh(str(position))
        before = machine.tree()
        install(monkeypatch, machine, Gate(position, failing(errno.ENOSPC)))
        with pytest.raises(HostError, match=f"write ({origin.PATH}|{origin.COPY}): ENOSPC"):
            door.apply(machine, work)
        monkeypatch.undo()
        assert machine.tree() == before, gate.seen[position - 1]
        assert door.apply(machine, work).changed


def test_a_failed_apply_forgets_what_it_found(machine: Machine) -> None:
    machine.fails[SWAPPINESS] = errno.EPERM
    with pytest.raises(TransactionError):
        door.apply(machine, request(10))
    machine.fails.clear()
    machine.put(SWAPPINESS, "42\n")  # the operator's own new value is the one to come back to
    door.apply(machine, request(10))
    assert Origin.load(machine).value_of(SWAPPINESS) == "42"


def test_an_entry_of_a_file_says_whether_it_was_there(machine: Machine) -> None:
    machine.put("/etc/nccl.conf", "NCCL_DEBUG=WARN\n")

    found = [origin.file_entry(machine, path)["value"] for path in ("/etc/nccl.conf", "/etc/other.conf")]

    assert found == ["present", "absent"]


def test_a_module_stays_where_that_is_asked_for() -> None:
    assert origin.module_entry("x", stays=True)["stays"]
    assert "stays" not in origin.module_entry("x")


def test_what_a_killed_run_has_left_of_the_store_goes(machine: Machine) -> None:
    folder, name = os.path.split(origin.PATH)
    left = f"{folder}/.{name}.mlnode-tmp"
    machine.put(left, '{"format": 1, "entr')

    origin.complete(machine)

    assert not machine.exists(left)


def test_a_store_is_checked_once_for_each_content(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = []
    check = origin.checked

    def counted(entry: origin.Entry) -> origin.Entry:
        checks.append(entry["id"])
        return check(entry)

    monkeypatch.setattr(origin, "checked", counted)
    machine.put(origin.PATH, document({**KERNEL, "value": "seen once"}))
    first = Origin.load(machine)
    first.forget(first.entries())
    machine.put(origin.PATH, document({**KERNEL, "value": "seen once"}))
    assert [entry["value"] for entry in Origin.load(machine).entries()] == ["seen once"]
    assert len(checks) == 1
    machine.put(origin.PATH, document({**KERNEL, "value": "another"}))
    assert [entry["value"] for entry in Origin.load(machine).entries()] == ["another"]
    assert len(checks) == 2
