# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os
import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.nodes import CASES, made
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mlnode.agent import registry
from mlnode.engine import engine, revert
from mlnode.engine.kind import Row
from mlnode.host import places
from mlnode.knobs.sysfs import paths
from mlnode.model.errors import DeclarationError, MlnodeError
from mlnode.model.setting import Status

TTL = "/sys/kernel/mm/lru_gen/min_ttl_ms"
ZSWAP = "/sys/module/zswap/parameters/enabled"
PCI = "/sys/devices/pci0000:00/0000:00:02.0"


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Machine:
    """A kernel with an LRU of generations and zswap, and a NIC with all that must never be written."""
    machine = Machine.debian(str(tmp_path / "node"))
    machine.enable_agent()
    machine.put(TTL, "0\n")
    machine.put(ZSWAP, "Y\n")
    for name in ("remove", "reset", "numa_node", "max_link"):
        machine.put(f"{PCI}/{name}", "0\n")
    machine.put(f"{PCI}/net/rail0/mtu", "1500\n")
    machine.link("/sys/class/net/rail0", "../../devices/pci0000:00/0000:00:02.0/net/rail0")
    machine.link("/sys/class/net/rail0/device", "../..")
    machine.link("/sys/bus/pci/devices/0000:00:02.0", "../../../devices/pci0000:00/0000:00:02.0")
    return machine


def row(machine: Machine, path: str, value: Any) -> Row:
    machine.forget()
    request = door.request("site", "sysfs", {"settings": {path: value}})
    (only,) = engine.evaluate(machine, request).rows
    return only


def apply(machine: Machine, given_settings: dict[str, Any]) -> None:
    machine.forget()
    door.apply(machine, door.request("site", "sysfs", {"settings": given_settings}))


# -- what is never set ---------------------------------------------------------------------


@cases.table
def test_a_path_that_leads_to_an_action_or_out_of_sysfs(node: Machine, path: str, words: str) -> None:
    node.link("/sys/kernel/out", "/etc")
    node.link("/sys/kernel/up", "../../etc")
    node.put("/etc/x", "0\n")
    node.link("/sys/kernel/circle", "circle")
    before = node.tree()
    with pytest.raises(MlnodeError, match=words):
        apply(node, {path: 1})
    assert node.tree() == before


@cases.table
def test_a_file_of_the_kernel_that_acts_is_refused(path: str) -> None:
    assert places.sysfs_fault(path)
    assert not places.may_set(path, "sysfs.x") or path.startswith("/sys/devices/system/cpu/")


@cases.table
def test_a_file_of_the_kernel_that_holds_a_setting_is_not_refused(path: str) -> None:
    assert places.may_set(path, "sysfs.x")
    assert not places.sysfs_fault(path)


def files_of(kind: str, folder: pathlib.Path) -> set[str]:
    machine = made(CASES[kind], folder)
    rows = engine.evaluate(machine, CASES[kind].request).rows
    return {part.path for row in rows for part in row.reading.parts if part.path.startswith("/sys/")}


@pytest.mark.parametrize("kind", sorted({*registry.MODULES} - {"sysfs"}))
def test_a_file_of_another_area_is_refused(tmp_path: pathlib.Path, kind: str) -> None:
    for path in files_of(kind, tmp_path):
        assert paths.area(path) or places.sysfs_fault(path), path


NAMES = st.sampled_from((
    "kernel", "bus", "class", "devices", "module", "power", "firmware", "fs", "net", "rail0", "device",
    "driver", "remove", "bind", "unbind", "reset", "delete", "online", "debug", "state", "config", "rom",
    "mm", "resource0", "lru_gen", "min_ttl_ms", "up", "out", "..", ".", "*", "?", "[a-z]", "queue", "x",
))  # fmt: skip


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(NAMES, min_size=1, max_size=7), value=st.sampled_from(["1", "0", "mem"]))
@example(names=["class", "net", "rail0", "device", "r*"], value="1")
@example(names=["bus", "pci", "devices", "*", "*"], value="1")
@example(names=["kernel", "up", "x"], value="1")
def test_no_path_escapes(node: Machine, names: list[str], value: str) -> None:
    """Whatever is declared: only files that hold a setting change, and only below /sys."""
    if not node.exists("/sys/kernel/up"):
        node.link("/sys/kernel/up", "../../etc")
        node.put("/etc/x", "0\n")
        for path in ("power/state", "kernel/debug/x", "firmware/x", "module/x/device/rom"):
            node.put(f"/sys/{path}", "9\n")
    try:
        reading = row(node, "/sys/" + "/".join(names), value).reading
    except DeclarationError:
        return
    harmless = {TTL, f"{PCI}/numa_node", f"{PCI}/max_link"}
    assert reading.invalid or {part.path for part in reading.parts} <= harmless


# -- what a file says ----------------------------------------------------------------------


@cases.table
def test_a_value_is_compared_as_the_file_shows_it(
    node: Machine, text: str, value: Any, differs: bool, want: str
) -> None:
    node.put(TTL, text)
    [part] = row(node, TTL, value).reading.parts
    assert (part.differs, part.want) == (differs, want)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_a_file_that_cannot_be_read_is_unknown(node: Machine, number: int) -> None:
    node.unreadable[TTL] = number
    assert row(node, TTL, 1000).status is Status.UNKNOWN


@pytest.mark.parametrize("text", ["a\nb\n", "1\0\0\1", "9" * 5000])
def test_a_file_without_one_value_is_never_written(node: Machine, text: str) -> None:
    node.put(TTL, text)
    apply(node, {TTL: 1})
    assert node.text(TTL) == text
    assert row(node, TTL, 1).status is Status.UNKNOWN


def test_a_file_that_is_absent_is_unsupported(node: Machine) -> None:
    only = row(node, "/sys/kernel/mm/none", 1)
    assert (only.status, only.reason) == (
        Status.UNSUPPORTED,
        "/sys/kernel/mm/none does not exist: this kernel or its hardware does not have it",
    )
    assert row(node, "/sys/kernel/mm/n*", 1).reason == "no file matches /sys/kernel/mm/n*"


def test_a_write_only_file_is_an_action(node: Machine) -> None:
    os.chmod(node.root + TTL, 0o200)
    with pytest.raises(DeclarationError, match="cannot be read back"):
        apply(node, {TTL: 1})


# -- apply, and undo -----------------------------------------------------------------------


def test_values_are_set_and_reverted(node: Machine) -> None:
    apply(node, {TTL: 1000, ZSWAP: 0})
    assert (node.now(TTL), node.now(ZSWAP)) == ("1000", "N")
    assert row(node, ZSWAP, 0).status is Status.OK
    node.forget()
    revert.revert(node)
    assert (node.now(TTL), node.now(ZSWAP)) == ("0", "Y")


def test_two_patterns_may_not_disagree_about_a_file(node: Machine) -> None:
    with pytest.raises(DeclarationError, match="both rule"):
        apply(node, {TTL: 1, "/sys/kernel/mm/lru_*/min_ttl_ms": 2})


def test_lines_of_tmpfiles_are_its_sources(node: Machine) -> None:
    node.put("/etc/tmpfiles.d/lru.conf", f"w {TTL} - - - - 500\nw /sys/kernel/mm/lru*/* - - - - 3\nd /x\n")
    assert registry.KINDS["sysfs"].boot_sources("sysfs.kernel/mm/lru_gen/min_ttl_ms", node) == [
        f"/etc/tmpfiles.d/lru.conf:1: w {TTL} - - - - 500",
        "/etc/tmpfiles.d/lru.conf:2: w /sys/kernel/mm/lru*/* - - - - 3",
    ]
