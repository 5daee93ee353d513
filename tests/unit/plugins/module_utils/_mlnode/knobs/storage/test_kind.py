# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.nodes import disk, nfs
from mlnode.agent import registry
from mlnode.agent.node import apply_all
from mlnode.engine import declared, engine, revert
from mlnode.engine.declared import Declaration
from mlnode.engine.engine import Request
from mlnode.engine.kind import AGENT_UNIT, Row
from mlnode.knobs.storage.kind import kind as storage
from mlnode.model.setting import Status, Value

AHEAD = {"name": "ahead", "read_ahead_kb": 4096}


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Machine:
    """Two NVMe drives, one of them below a RAID, a disk that turns, and all that is never meant."""
    machine = Machine.debian(str(tmp_path / "node"))
    machine.enable_agent()
    disk(machine, "nvme0n1", "nvme")
    disk(machine, "nvme1n1", "nvme", scheduler="none [mq-deadline]")
    disk(machine, "md127", "md", read_ahead_kb="1024", scheduler="none")
    machine.put("/sys/block/nvme1n1/holders/md127/dev", "9:127\n")
    disk(machine, "sda", "scsi", rotational="1", scheduler="none [mq-deadline]")
    for name in ("loop0", "zram0"):
        disk(machine, name, "")
    disk(machine, "sr0", "scsi", rotational="1")
    machine.put("/sys/block/sr0/removable", "1\n")
    return machine


def request(*rules: dict[str, Any], name: str = "site") -> Request:
    return door.request(name, "storage", {"rules": [*rules]})


def rows(machine: Machine, *rules: dict[str, Any]) -> dict[str, Row]:
    machine.forget()
    return {row.setting.key: row for row in engine.evaluate(machine, request(*rules)).rows}


def row(machine: Machine, rule: dict[str, Any]) -> Row:
    (found,) = rows(machine, rule).values()
    return found


def ahead(machine: Machine, name: str) -> str:
    return machine.now(f"/sys/block/{name}/queue/read_ahead_kb")


# -- the declaration -----------------------------------------------------------------------


def test_no_device_for_nfs_is_a_rule_for_devices() -> None:
    [setting] = door.parse("storage", {"rules": [{**AHEAD, "nfs": False}]})
    assert setting.claim == "4096 (all disks)"


# -- which devices -------------------------------------------------------------------------


@cases.table
def test_a_rule_means_its_devices(node: Machine, devices: dict[str, Any], meant: str) -> None:
    assert row(node, {**AHEAD, "devices": devices}).reading.runtime.text == meant


def test_partitions_loops_memory_and_removable_disks_are_left_alone(node: Machine) -> None:
    node.put("/sys/block/sda/sda1/partition", "1\n")
    assert [part.path for part in row(node, AHEAD).reading.parts] == [
        "/sys/block/nvme0n1/queue/read_ahead_kb",
        "/sys/block/sda/queue/read_ahead_kb",
    ]


def test_a_disk_with_a_partition_in_a_raid_is_a_part_of_it(node: Machine) -> None:
    node.put("/sys/block/nvme0n1/nvme0n1p1/partition", "1\n")
    node.put("/sys/block/nvme0n1/nvme0n1p2/holders/md127/dev", "9:127\n")
    node.put("/sys/block/nvme0n1/nvme0n1p3/holders/dm-0/dev", "253:0\n")
    node.put("/sys/block/nvme0n1/nvme0n1p4/holders/dm-0/dev", "253:0\n")
    found = rows(node, {**AHEAD, "scheduler": "none"})["storage.ahead.read_ahead_kb"]
    assert [part.path for part in found.reading.parts] == ["/sys/block/sda/queue/read_ahead_kb"]
    assert "nvme0n1: left alone, as it is a part of md127, dm-0" in found.reading.note


def test_a_part_of_a_raid_keeps_its_read_ahead_and_gets_the_scheduler(node: Machine) -> None:
    found = rows(node, {**AHEAD, "devices": {"types": ["nvme", "md"]}, "scheduler": "none"})
    ahead_of, scheduler = found["storage.ahead.read_ahead_kb"], found["storage.ahead.scheduler"]
    assert "nvme1n1: left alone, as it is a part of md127" in ahead_of.reason + ahead_of.reading.note
    assert [part.path for part in scheduler.reading.parts if part.differs] == [
        "/sys/block/nvme1n1/queue/scheduler"
    ]
    assert "md127: none [fixed]" in (scheduler.reading.runtime.text or "")


def test_a_hidden_way_of_a_multipath_namespace_has_only_a_scheduler(node: Machine) -> None:
    disk(node, "nvme2c0n1", "nvme")
    node.put("/sys/block/nvme2c0n1/hidden", "1\n")
    disk(node, "nvme2n1", "nvme-subsystem", scheduler="none")
    found = rows(
        node, {"name": "a", "devices": {"types": ["nvme"]}, "read_ahead_kb": 64, "scheduler": "none"}
    )
    paths = [part.path for one in found.values() for part in one.reading.parts if "nvme2" in part.path]
    assert paths == ["/sys/block/nvme2n1/queue/read_ahead_kb", "/sys/block/nvme2c0n1/queue/scheduler"]


def test_a_kind_of_device_that_is_not_here_is_unsupported_and_a_name_is_missing(node: Machine) -> None:
    found = row(node, {**AHEAD, "devices": {"types": ["virtio"]}})
    assert found.status is Status.UNSUPPORTED
    assert "here are: md127 (md), nvme0n1 (nvme)" in found.reason
    found = row(node, {**AHEAD, "devices": {"names": ["nvme9n1"]}})
    assert found.status is Status.DRIFTED
    found = row(node, {**AHEAD, "devices": {"names": ["nvme0n1", "nvme9n1"]}})
    assert "no nvme9n1 in /sys/block" in found.reading.note


# -- read-ahead ----------------------------------------------------------------------------


def test_a_floor_raises_what_is_lower_and_leaves_what_is_higher(node: Machine) -> None:
    node.put("/sys/block/sda/queue/read_ahead_kb", "8192\n")
    done = engine.apply(node, request({**AHEAD, "read_ahead_kb": {"at_least": 4096}}))
    assert [one.status for one in done.rows] == [Status.CHANGED]
    assert (ahead(node, "nvme0n1"), ahead(node, "sda"), ahead(node, "loop0")) == ("4096", "8192", "128")


def test_an_exact_number_lowers_too_and_a_revert_brings_each_back(node: Machine) -> None:
    node.put("/sys/block/sda/queue/read_ahead_kb", "8192\n")
    before = node.tree()
    assert "lowers sda: 8192, as it is declared exactly" in row(node, AHEAD).reason
    engine.apply(node, request(AHEAD))
    assert (ahead(node, "nvme0n1"), ahead(node, "sda")) == ("4096", "4096")
    node.forget()
    revert.revert(node)
    left = {path for path, found in node.tree().items() if before.get(path) != found and found[0] != "/"}
    assert {path for path in left if path.startswith("/sys")} == set()


def test_what_the_kernel_answers_is_reported(node: Machine) -> None:
    node.put("/sys/block/sda/queue/read_ahead_kb", "")
    found = row(node, {**AHEAD, "devices": {"names": ["sda"]}})
    assert found.status is Status.UNKNOWN
    assert "/sys/block/sda/queue/read_ahead_kb says ''" in found.reason


def test_the_agent_brings_it_at_boot_and_the_rules_of_udev_are_named(node: Machine) -> None:
    engine.apply(node, request(AHEAD))
    found = row(node, AHEAD)
    assert (found.status, found.reading.boot.source) == (Status.OK, AGENT_UNIT)
    line = 'SUBSYSTEM=="block", KERNEL=="sd*", ATTR{queue/read_ahead_kb}="256"'
    node.put("/etc/udev/rules.d/60-disk.rules", f"# ATTR{{queue/read_ahead_kb}}\n{line}\n")
    node.put("/usr/lib/udev/rules.d/99-nfs.rules", 'SUBSYSTEM=="bdi", ATTR{read_ahead_kb}="%c"\n')
    assert storage.boot_sources("storage.ahead.read_ahead_kb", node) == [
        f"/etc/udev/rules.d/60-disk.rules:2: {line}",
        '/usr/lib/udev/rules.d/99-nfs.rules:1: SUBSYSTEM=="bdi", ATTR{read_ahead_kb}="%c"',
    ]
    assert storage.boot_sources("storage.ahead.scheduler", node) == []


def test_a_drift_names_the_rule_of_udev_that_has_set_it(node: Machine) -> None:
    engine.apply(node, request(AHEAD))
    path = "/usr/local/lib/udev/rules.d/60-disk.rules"
    node.put(path, 'KERNEL=="nvme*", ATTR{queue/read_ahead_kb}="256"\n')
    assert row(node, AHEAD).status is Status.OK
    node.put("/sys/block/nvme0n1/queue/read_ahead_kb", "256\n")
    found = row(node, AHEAD)
    assert found.status is Status.DRIFTED
    assert f'as {path}:1 sets ATTR{{queue/read_ahead_kb}}="256"' in found.reason
    node.put("/sys/block/nvme0n1/queue/read_ahead_kb", "512\n")
    assert path not in row(node, AHEAD).reason


def test_a_container_sees_the_devices_of_its_host_and_leaves_them(node: Machine) -> None:
    node.put("/run/systemd/container", "docker\n")
    [found] = engine.apply(node, request(AHEAD)).rows
    assert (found.status, node.writes) == (Status.UNSUPPORTED, [])
    assert "container's host" in found.reason


# -- NFS -----------------------------------------------------------------------------------


def test_all_nfs_mounts_or_those_that_are_named(node: Machine) -> None:
    nfs(node, "0:53", "/data")
    nfs(node, "0:54", r"/with\040blank")
    nfs(node, "0:53", "/data/again")
    rule: dict[str, Any] = {"name": "a", "nfs": True, "read_ahead_kb": 15360}
    found = row(node, rule).reading
    assert [part.path for part in found.parts] == [
        "/sys/class/bdi/0:53/read_ahead_kb",
        "/sys/class/bdi/0:54/read_ahead_kb",
    ]
    assert found.runtime.text == "/data, /data/again, /with blank: 128"
    one = row(node, {**rule, "nfs": ["/with blank/", "/gone"]}).reading
    assert [part.path for part in one.parts] == ["/sys/class/bdi/0:54/read_ahead_kb"]
    assert one.note == "no NFS is mounted on /gone"


def test_a_mount_that_comes_with_the_network_has_its_turn_after_it(node: Machine) -> None:
    spec = {"rules": [{"name": "a", "nfs": True, "read_ahead_kb": 15360}]}
    node.put(declared.path_of("site"), declared.render(Declaration("site", {"storage": spec})))
    apply_all(node)
    nfs(node, "0:53", "/data")
    node.forget()
    apply_all(node, registry.ON_ARRIVAL)
    assert node.now("/sys/class/bdi/0:53/read_ahead_kb") == "15360"


def test_a_mount_that_is_named_has_to_be_there(node: Machine) -> None:
    rule: dict[str, Any] = {"name": "a", "nfs": True, "read_ahead_kb": 15360}
    assert row(node, rule).status is Status.UNSUPPORTED
    named = row(node, {**rule, "nfs": ["/data"]})
    assert (named.status, named.reason) == (Status.DRIFTED, "no NFS is mounted on /data")


def test_mounts_of_a_tree_without_process_1_are_those_of_the_reader(node: Machine) -> None:
    nfs(node, "0:53", "/home")
    node.put("/proc/self/mountinfo", node.text("/proc/1/mountinfo") + "damaged - nfs\n\n1 - nfs4 x\n")
    node.unreadable["/proc/1/mountinfo"] = 1
    assert row(node, {"name": "a", "nfs": True, "read_ahead_kb": 15360}).reading.parts
    node.unreadable.clear()
    node.remove("/proc/1/mountinfo")
    assert row(node, {"name": "a", "nfs": True, "read_ahead_kb": 15360}).reading.runtime == Value(
        text="/home: 128"
    )


# -- schedulers ----------------------------------------------------------------------------


def test_the_scheduler_is_set_by_its_word_in_brackets(node: Machine) -> None:
    rule = {"name": "nvme", "devices": {"types": ["nvme"]}, "scheduler": "none"}
    assert row(node, rule).reading.runtime.text == "nvme0n1: none; nvme1n1: mq-deadline"
    engine.apply(node, request(rule))
    assert node.now("/sys/block/nvme1n1/queue/scheduler") == "[none] mq-deadline"
    assert node.writes == [("/sys/block/nvme1n1/queue/scheduler", "none")]


def test_a_scheduler_that_is_not_offered_is_refused_before_anything_is_written(node: Machine) -> None:
    found = row(node, {"name": "a", "devices": {"names": ["sda"]}, "scheduler": "bfq"})
    assert found.status is Status.REFUSED
    assert "does not offer 'bfq', but none, mq-deadline; if it is a module, load it first" in found.reason
    found = row(node, {"name": "a", "devices": {"names": ["md127"]}, "scheduler": "kyber"})
    assert "hands its requests on to others" in found.reason
