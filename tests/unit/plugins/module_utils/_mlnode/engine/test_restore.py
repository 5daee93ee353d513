# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.machine import THP, Machine
from mlnode.engine import engine, origin, restore, revert
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.knobs.thp.kind import kind as thp
from mlnode.model.errors import HostError
from mlnode.model.setting import KnobFile, Write

SWAPPINESS = "/proc/sys/vm/swappiness"


def request(value: int, name: str = "default") -> engine.Request:
    return engine.Request(name, sysctl, {"settings": {"vm.swappiness": value}})


def test_a_value_that_is_back_already_is_not_written(machine: Machine) -> None:
    entry = origin.kernel_entry(
        machine, "vm.swappiness", KnobFile(0, SWAPPINESS, "60", "", (Write(SWAPPINESS, "60"),))
    )
    assert restore.is_back(machine, entry)
    assert not restore.restore(machine, entry)
    assert machine.writes == []
    machine.put(SWAPPINESS, "10\n")
    assert not restore.is_back(machine, entry)
    assert restore.restore(machine, entry)
    assert machine.writes == [(SWAPPINESS, "60")]


def test_a_knob_that_went_with_its_device_is_put_back_by_being_gone(machine: Machine) -> None:
    path = "/proc/sys/net/ipv4/conf/eth0.100/rp_filter"
    file = KnobFile(0, path, "1", "", (Write(path, "1"),))
    entry = origin.kernel_entry(machine, "x", file)
    machine.remove(path)
    restore.restore(machine, entry)
    assert machine.content(path) is None


def test_what_a_file_is_known_to_show_is_kept_with_its_origin(machine: Machine) -> None:
    pages, encoding = "/proc/sys/vm/nr_hugepages", "/proc/sys/vm/encoding"
    machine.put(pages, "0\n")
    machine.gives[pages] = 100
    pool = origin.kernel_entry(
        machine, "pool", KnobFile(0, pages, "512", "", (Write(pages, "512"),), partial=True)
    )
    assert restore.restore(machine, pool)
    assert not restore.is_back(machine, pool)
    whole = origin.kernel_entry(machine, "pool", KnobFile(0, pages, "512", "", (Write(pages, "512"),)))
    with pytest.raises(HostError, match=r"wrote '512', the kernel shows 100"):
        restore.restore(machine, whole)

    machine.put(encoding, "auto rs baser\n")
    port = KnobFile(0, encoding, "rs", "", (Write(encoding, "rs"),), among=True)
    assert restore.is_back(machine, origin.kernel_entry(machine, "fec", port))
    assert not restore.is_back(machine, origin.kernel_entry(machine, "fec", port._replace(among=False)))


def test_a_kernel_that_ignores_the_old_value_is_an_error(machine: Machine) -> None:
    entry = origin.kernel_entry(
        machine, "vm.swappiness", KnobFile(0, SWAPPINESS, "10", "", (Write(SWAPPINESS, "10"),))
    )
    machine.ignores.add(SWAPPINESS)
    with pytest.raises(HostError, match=r"wrote '10', the kernel shows 60"):
        restore.restore(machine, entry)


def test_what_moves_along_is_put_back_after_the_value_that_moves_it(machine: Machine) -> None:
    door.apply(machine, engine.Request("default", thp, {"enabled": "never"}))
    revert.revert(machine)
    # The write of `always` made the kernel recompute it in between.
    assert machine.now("/proc/sys/vm/min_free_kbytes") == "67584"
    assert machine.now(f"{THP}/enabled").startswith("[always]")


def test_a_module_in_use_stays(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = origin.module_entry("tcp_bbr")
    assert not restore.restore(machine, entry)
    machine.run(["modprobe", "--", "tcp_bbr"])
    monkeypatch.setattr(machine, "_unload", lambda name: None)
    assert not restore.restore(machine, entry)
    monkeypatch.undo()
    assert restore.restore(machine, entry)
    assert not machine.exists("/sys/module/tcp_bbr")


def test_a_file_is_put_back_where_its_folder_has_vanished(machine: Machine) -> None:
    machine.put("/etc/a/b/file", "old\n", 0o640)
    entry = origin.file_entry(machine, "/etc/a/b/file")
    assert (entry["folders"], entry["value"]) == ([], "present")
    machine.remove("/etc/a/b/file")
    os.rmdir(f"{machine.root}/etc/a/b")
    before = restore.is_back(machine, entry)
    assert not before
    assert restore.restore(machine, entry)
    assert machine.tree()["/etc/a/b/file"] == ("old\n", 0o640)


def test_an_absent_file_takes_its_folders_with_it_outermost_last(machine: Machine) -> None:
    entry = origin.file_entry(machine, "/etc/a/b/c/file")
    assert entry["folders"] == ["/etc/a", "/etc/a/b", "/etc/a/b/c"]
    before = machine.tree()
    machine.write_file("/etc/a/b/c/file", b"x")
    assert restore.restore(machine, entry)
    assert machine.tree() == before
    assert not restore.restore(machine, entry)


def test_a_folder_that_somebody_uses_stays(machine: Machine) -> None:
    entry = origin.file_entry(machine, "/etc/a/b/file")
    machine.write_file("/etc/a/b/file", b"x")
    machine.put("/etc/a/theirs", "x")
    restore.restore(machine, entry)
    assert machine.names("/etc/a") == ["theirs"]


@pytest.mark.parametrize("gone", ["a", "b"])
def test_a_field_that_is_gone_does_not_excuse_one_that_refuses(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    def write(path: str, text: str) -> None:
        raise HostError("write", path, errno.ENODEV if path.endswith(f"/{gone}") else errno.EINVAL)

    for name in ("a", "b", "a,b"):
        machine.put(f"/proc/sys/vm/{name}", "1 1\n" if "," in name else "1\n")
    entry = origin.kernel_entry(
        machine, "fields", KnobFile(0, "/proc/sys/vm/a,b", "2 2", "", (Write("/proc/sys/vm/a,b", "2 2"),))
    )
    monkeypatch.setattr(machine, "write_kernel", write)
    with pytest.raises(HostError) as raised:
        restore.restore(machine, entry)
    assert raised.value.errno == errno.EINVAL
