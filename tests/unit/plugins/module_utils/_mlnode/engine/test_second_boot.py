# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of an image with a declaration: systemd-sysctl sets its values before the agent reads them. They
are not the values of the owner."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import install
from mlnode.agent import node as whole_node
from mlnode.agent.archive import INTERPRETER
from mlnode.engine import lasting, origin, revert
from mlnode.engine.origin import Origin
from mlnode.model.setting import Layer, Status

DROP_IN = "/etc/sysctl.d/zz-mlnode-node.conf"
SWAPPINESS, RMEM = "/proc/sys/vm/swappiness", "/proc/sys/net/core/rmem_max"
THP = "/sys/kernel/mm/transparent_hugepage/enabled"
KINDS: dict[str, Any] = {
    "sysctl": {"settings": {"vm.swappiness": 1, "net.core.rmem_max": 67108864}},
    "thp": {"enabled": "madvise"},
}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    machine = Machine.debian(str(tmp_path_factory.mktemp("image")))
    machine.put("/run/systemd/system/.keep", "")
    install.install(machine, INTERPRETER, notify=False)
    for area, spec in KINDS.items():
        door.apply(machine, door.request("node", area, spec, layers=(Layer.BOOT,)))
    return pathlib.Path(machine.root)


def booted(image: pathlib.Path, folder: pathlib.Path) -> Machine:
    """A new kernel, and systemd-sysctl, which sets the values of files."""
    shutil.copytree(image, folder, symlinks=True)
    machine = Machine(str(folder))
    for line in machine.read(DROP_IN).splitlines():
        if line[:1] != "#":
            key, _equals, value = line.partition(" = ")
            machine.put(f"/proc/sys/{key.replace('.', '/')}", f"{value}\n")
    return machine


def statuses(machine: Machine) -> dict[str, Status]:
    machine.forget()
    return {item.row.setting.key: item.row.status for item in whole_node.survey(machine).rows}


@pytest.fixture
def node(image: pathlib.Path, tmp_path: pathlib.Path) -> Machine:
    machine = booted(image, tmp_path / "node")
    whole_node.apply_all(machine)
    return machine


def test_a_value_that_the_image_has_set_is_not_the_origin(node: Machine) -> None:
    assert node.now(SWAPPINESS) == "1"
    origin = Origin.load(node)
    assert [origin.value_of(path) for path in (SWAPPINESS, RMEM)] == [None, None]
    assert origin.value_of(THP) == "always", "which the agent has found before it"
    rows = {item.row.setting.key: item.row for item in whole_node.survey(node).rows}
    assert rows["vm.swappiness"].origin is None
    assert {*statuses(node).values()} == {Status.OK}


def test_a_floor_of_the_image_stays_in_its_file(node: Machine) -> None:
    """Taken for the origin, it would need no file."""
    before = node.read(DROP_IN)
    assert "net.core.rmem_max" in before
    assert not whole_node.apply_all(node).changed
    assert node.read(DROP_IN) == before


def test_a_second_boot_without_a_disk_is_as_the_first(
    image: pathlib.Path, node: Machine, tmp_path: pathlib.Path
) -> None:
    again = booted(image, tmp_path / "again")
    whole_node.apply_all(again)
    assert (again.tree(), statuses(again)) == (node.tree(), statuses(node))
    first, second = (Origin.load(machine).values() for machine in (node, again))
    assert dict(first) == dict(second)


def test_a_revert_says_what_stays_until_a_boot(node: Machine) -> None:
    pending = revert.pending(node)
    changes = revert.revert(node)
    assert [change.note for change in changes] == [change.note for change in pending]
    (note,) = (change.note for change in changes if change.key == "kernel")
    assert "vm.swappiness = 1" in note
    assert "until the next boot" in note
    assert not os.path.exists(node.root + DROP_IN)
    assert node.now(THP).startswith("[always]")


def test_a_later_value_of_the_owner_is_the_origin(node: Machine) -> None:
    node.put(SWAPPINESS, "30\n")
    whole_node.apply_all(node)
    assert (node.now(SWAPPINESS), Origin.load(node).value_of(SWAPPINESS)) == ("1", "30")


def test_the_files_of_the_origin_are_an_overlay(image: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """As docs/guide/image.md packs them: unpacked over a plain image, they are all it needs."""
    plain = Machine.debian(str(tmp_path / "plain"))
    plain.put("/run/systemd/system/.keep", "")
    entries = json.loads((image / origin.PATH[1:]).read_text())["entries"]
    for path in [*(entry["file"] for entry in entries), origin.PATH, origin.COPY]:
        target = pathlib.Path(plain.root + path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(f"{image}{path}", target, follow_symlinks=False)
    node = booted(pathlib.Path(plain.root), tmp_path / "node")
    node.put("/proc/1/mountinfo", "20 1 0:20 / / rw - tmpfs rootfs rw\n")
    whole_node.apply_all(node)
    assert {*statuses(node).values()} == {Status.DRIFTED}
    path = "/etc/mlnode/declared.d/node.json"
    node.put(lasting.IMAGE, f"{hashlib.sha256(node.read_bytes(path)).hexdigest()}  {path}\n")
    assert {*statuses(node).values()} == {Status.OK}
