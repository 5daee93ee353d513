# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia_peermem, only where a NIC has no other way into a GPU's memory."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import RELEASE, Machine
from mlnode.engine import engine
from mlnode.engine.engine import Request
from mlnode.engine.kind import Row
from mlnode.knobs.modules.kind import kind as modules
from mlnode.model.setting import BOTH_LAYERS, Layer, Status

PEERMEM: dict[str, Any] = {"where_needed": ["nvidia_peermem"]}
FILE = "/etc/modules-load.d/mlnode-modules.default.conf"
DEPENDENCIES = f"/lib/modules/{RELEASE}/modules.dep"
STUB = "updates/dkms/nvidia-peermem.ko.zst:\n"
BUILT = "updates/dkms/nvidia_peermem.ko.zst: updates/dkms/ib_core.ko.zst updates/dkms/nvidia.ko.zst\n"
DRIVER = "/proc/driver/nvidia/version"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan 23 22:50:36 UTC 2025\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n"


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    """A node that needs it."""
    found = Machine.debian(str(tmp_path / "node"))
    found.enable_agent()
    found.put(DEPENDENCIES, BUILT)
    found.put("/sys/class/infiniband/mlx5_0/device/vendor", "0x15b3\n")
    found.put("/sys/kernel/mm/memory_peers/.keep", "")
    found.put(DRIVER, CLOSED)
    return found


def applied(machine: Machine, spec: dict[str, Any], layers: tuple[Layer, ...] = BOTH_LAYERS) -> Row:
    machine.forget()
    [found] = door.apply(machine, Request("default", modules, spec, layers)).rows
    machine.forget()
    return found


def test_it_is_loaded_where_it_is_needed(machine: Machine) -> None:
    found = applied(machine, PEERMEM)
    assert (found.status, found.setting.claim) == (Status.CHANGED, "loaded where needed")
    assert machine.exists("/sys/module/nvidia_peermem")
    assert machine.text(FILE).splitlines()[-1] == "nvidia_peermem"
    assert applied(machine, PEERMEM).status is Status.OK


@cases.table
def test_elsewhere_it_is_not_and_that_is_no_drift(
    machine: Machine, path: str, text: str | None, words: str, needless: bool
) -> None:
    if text is None:
        machine.remove(path)
        (pathlib.Path(machine.root) / path[1:]).parent.rmdir()
    else:
        machine.put(path, text)
    found = applied(machine, PEERMEM)
    assert (found.status, words in found.reason) == (Status.UNSUPPORTED, True)
    assert not found.status.is_drift
    assert found.reading.elsewhere is needless  # only what is needed and cannot be had is a failure
    assert not machine.exists("/sys/module/nvidia_peermem")
    assert not machine.exists(FILE)


@pytest.mark.parametrize("ending", ["ko", "ko.xz", "ko.gz", "ko.zst"])
def test_a_module_that_uses_the_rdma_core_is_none_that_refuses_to_load(machine: Machine, ending: str) -> None:
    machine.put(
        DEPENDENCIES, f"extra/nvidia_peermem.{ending}: extra/nvidia.{ending} extra/ib_core.{ending}\n"
    )
    assert applied(machine, PEERMEM).status is Status.CHANGED


def test_of_an_rdma_core_in_the_kernel_itself_no_symbol_is_listed(machine: Machine) -> None:
    machine.put(DEPENDENCIES, STUB.replace("-", "_"))
    machine.put(f"/lib/modules/{RELEASE}/modules.builtin", "kernel/drivers/infiniband/core/ib_core.ko\n")
    assert applied(machine, PEERMEM).status is Status.CHANGED


def test_an_old_kernel_has_no_dma_buf_for_rdma(machine: Machine) -> None:
    machine.put(DRIVER, OPEN)
    machine.put("/proc/sys/kernel/osrelease", "5.10.0-rc\n")
    machine.put("/lib/modules/5.10.0-rc/modules.dep", "updates/nvidia_peermem.ko: updates/ib_core.ko\n")
    machine.forget()
    [found] = engine.evaluate(machine, Request("default", modules, PEERMEM)).rows
    assert (found.status, found.reading.load) == (Status.DRIFTED, ("nvidia_peermem",))


def test_what_cannot_be_read_is_unknown_and_lists_nothing(machine: Machine) -> None:
    machine.unreadable[DRIVER] = 5
    found = applied(machine, PEERMEM)
    assert (found.status, DRIVER in found.reason) == (Status.UNKNOWN, True)
    assert not machine.exists(FILE)


def test_an_image_leaves_it_to_the_agent(machine: Machine) -> None:
    assert applied(machine, PEERMEM, (Layer.BOOT,)).status is Status.CHANGED
    assert not machine.exists(FILE)


def test_named_among_the_modules_it_is_loaded_anyway(machine: Machine) -> None:
    [setting] = door.parse("modules", {**PEERMEM, "modules": ["nvidia-peermem"]})
    assert setting.claim == "loaded"
