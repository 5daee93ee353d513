# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Huge page pools, guards without hardware, and defaults that are high enough: what crosses several rules."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.engine import engine
from mlnode.engine.kind import Row
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.model.errors import DeclarationError, RefusedError
from mlnode.model.setting import Layer, Status

NODE = "/sys/devices/system/node/node0"
DROP_IN = "/etc/sysctl.d/zz-mlnode-t.conf"


@pytest.fixture
def numa(machine: Machine) -> Machine:
    for size in (2048, 1048576):
        machine.put(f"{NODE}/hugepages/hugepages-{size}kB/nr_hugepages", "0\n")
    machine.put(f"{NODE}/meminfo", "Node 0 MemFree:  40000000 kB\n")
    return machine


def declared(settings: dict[str, Any], layers: tuple[Layer, ...] = tuple(Layer)) -> engine.Request:
    return engine.Request("t", sysctl, {"settings": settings}, layers)


def rows(machine: Machine, settings: dict[str, Any]) -> dict[str, Row]:
    return {row.setting.key: row for row in engine.evaluate(machine, declared(settings)).rows}


@cases.table
def test_two_names_of_one_pool_are_refused(numa: Machine, keys: tuple[str, str]) -> None:
    with pytest.raises(DeclarationError, match="same pool here") as caught:
        engine.evaluate(numa, declared(dict.fromkeys(keys, 8)))
    assert all(key in str(caught.value) for key in keys)


def test_pools_of_another_size_stand_beside_the_total(numa: Machine) -> None:
    found = rows(numa, {"vm.nr_hugepages": 0, "vm.nr_hugepages@node0/1048576kB": 2})
    assert found["vm.nr_hugepages"].reading.want == "0"
    assert found["vm.nr_hugepages@node0/1048576kB"].reading.want == "2"


@pytest.mark.parametrize("value", [4, {"for_bytes": 1 << 30}])
def test_a_kernel_without_huge_pages_is_unsupported_and_the_rest_is_applied(
    machine: Machine, value: Any
) -> None:
    machine.put("/proc/meminfo", "MemTotal: 65536000 kB\nMemAvailable: 40000000 kB\n")
    settings = {"vm.nr_hugepages@node0": value, "vm.swappiness": 1}

    outcome = door.apply(machine, declared(settings))

    found = {row.setting.key: row for row in outcome.rows}
    assert found["vm.nr_hugepages@node0"].status is Status.UNSUPPORTED
    assert "no such NUMA node or page size" in found["vm.nr_hugepages@node0"].reason
    assert machine.now("/proc/sys/vm/swappiness") == "1"


@pytest.mark.parametrize(("key", "value"), [("vm.overcommit_memory", 2), ("kernel.modules_disabled", 1)])
def test_an_image_build_does_not_get_past_the_guards(machine: Machine, key: str, value: int) -> None:
    with pytest.raises(RefusedError, match="allow:"):
        door.apply(machine, declared({key: value}, (Layer.BOOT,)))
    assert not machine.exists(DROP_IN)


def test_an_image_build_leaves_what_needs_the_hardware_to_the_agent(machine: Machine) -> None:
    settings = {"vm.nr_hugepages": 99999999, "vm.min_free_kbytes": 99999999, "vm.swappiness": 1}

    door.apply(machine, declared(settings, (Layer.BOOT,)))

    text = machine.now(DROP_IN)
    assert "vm.swappiness = 1" in text
    assert "hugepages" not in text
    assert "min_free" not in text


def test_a_floor_that_the_kernel_reaches_by_itself_needs_nobody_at_boot(machine: Machine) -> None:
    found = rows(machine, {"vm.max_map_count": {"at_least": 65530}})["vm.max_map_count"]
    assert found.status is Status.OK
    assert found.reading.boot.source == "no file sets it"


def test_a_floor_that_we_had_to_raise_to_is_a_line_and_needs_no_agent(machine: Machine) -> None:
    settings = {"vm.max_map_count": {"at_least": 100000}}
    door.apply(machine, declared(settings))
    found = rows(machine, settings)["vm.max_map_count"]
    assert found.reading.runtime.text == "100000"
    assert (found.status, found.reading.boot.source) == (Status.OK, f"{DROP_IN}:3")
    assert not engine.evaluate(machine, declared(settings)).steps


def test_a_pool_in_use_is_not_taken_away(machine: Machine) -> None:
    machine.put("/proc/sys/vm/nr_hugepages", "64\n")
    machine.put("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "14\n")
    machine.put("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "0\n")
    with pytest.raises(RefusedError, match=r"50 pages of the pool are in use .*allow: \[hugepages\]"):
        door.apply(machine, declared({"vm.nr_hugepages": 0}))
    assert machine.now("/proc/sys/vm/nr_hugepages") == "64"
    door.apply(machine, declared({"vm.nr_hugepages": 50}))
    assert machine.now("/proc/sys/vm/nr_hugepages") == "50"
