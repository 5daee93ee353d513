# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
from typing import Any

from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit import rdma_bench as bench
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.rdma_bench import CLASS, HARDWARE, look, of_device
from mlnode.checks.model import Verdict

BUS = f"/sys/bus/pci/devices/{HARDWARE}"


def told(machine: Machine, name: str, **declared: Any) -> tuple[str, str]:
    found = of_device(machine, name, **declared)
    return str(found.verdict), found.found


def inventory(machine: Machine, target: str, declared: dict[str, Any]) -> tuple[str, str]:
    found = look(machine, declared)["inventory", target]
    return str(found.verdict), found.advice


# -- what is there ---------------------------------------------------------------------------


def test_what_is_declared_and_there(roce: Machine) -> None:
    assert inventory(roce, "mlx5_0", {"devices": {"mlx5_0": {}}}) == ("pass", "")
    assert inventory(roce, "mlx5_0/1", {"devices": {"mlx5_0/1": {}}}) == ("pass", "")


@cases.table
def test_a_missing_device_is_named_with_what_is_in_its_slot(
    roce: Machine, slot: str | None, words: str
) -> None:
    verdict, advice = inventory(roce, "mlx5_7", {"devices": {"mlx5_7": {"slot": slot}}})
    assert verdict == "fail"
    assert words in advice


def test_a_function_without_a_driver_is_named(roce: Machine) -> None:
    roce.remove(f"{BUS}/driver")
    roce.remove(f"{CLASS}/mlx5_0")
    advice = inventory(roce, "mlx5_0", {"devices": {"mlx5_0": {"slot": HARDWARE}}})[1]
    assert f"the function in its slot {HARDWARE} has no driver" in advice


def test_a_missing_port_is_named(roce: Machine) -> None:
    found = look(roce, {"devices": {"mlx5_0/2": {}}})["inventory", "mlx5_0/2"]
    assert (found.verdict, found.found) == (Verdict.FAIL, "no such port; mlx5_0 has 1")


def test_no_device_at_all(machine: Machine) -> None:
    found = look(machine)
    assert found["inventory", "node"].found == "no RDMA device, and none is declared"
    assert {check.verdict for check in found.values()} <= {Verdict.SKIP, Verdict.UNKNOWN, Verdict.WARN}
    assert inventory(machine, "mlx5_0", {"devices": {"mlx5_0": {}}})[0] == "fail"


def test_devices_that_are_not_declared_are_told_or_refused(roce: Machine) -> None:
    declared: dict[str, Any] = {"devices": {"mlx5_9": {"used": False}}}
    assert inventory(roce, "mlx5_0", declared)[0] == "skip"
    assert inventory(roce, "mlx5_0", {**declared, "exact": True})[0] == "fail"
    assert inventory(roce, "mlx5_0", {"exact": True, "devices": {"mlx5_0": {"used": False}}})[0] == "skip"
    # By a key for all of them it is declared.
    assert ("inventory", "mlx5_0") not in look(roce, {"exact": True, "all": {"mtu": 4096}})


def test_rails_are_counted(roce: Machine) -> None:
    assert look(roce, {"rails": {"count": 1}})["rails", "node"].verdict is Verdict.PASS
    found = look(roce, {"rails": {"count": 8, 3: {"mtu": 4096}}})
    assert (found["rails", "node"].verdict, found["rails", "node"].found) == (Verdict.FAIL, "1: mlx5_0")
    assert found["rails", "rail 3"].verdict is Verdict.FAIL


def test_without_a_number_nobody_counts(roce: Machine) -> None:
    found = look(roce, {"all": {"mtu": 4096}})["inventory", "node"]
    assert found.verdict is Verdict.SKIP
    assert "nothing says how many" in found.found


# -- what it is ------------------------------------------------------------------------------


@cases.table
def test_a_device_of_roce(
    roce: Machine,
    name: str,
    files: dict[str, str | None],
    declared: dict[str, Any],
    verdict: str,
    found: str,
) -> None:
    for path, text in files.items():
        if text is None:
            roce.remove(path)
        else:
            roce.put(path, f"{text}\n")
    assert told(roce, name, **declared) == (verdict, found)


@cases.table
def test_names_that_stay(tmp_path: pathlib.Path, name: str, stable: bool) -> None:
    machine = bench.node(tmp_path, bench.roce(name=name))
    assert look(machine)["naming", name].verdict is (Verdict.PASS if stable else Verdict.SKIP)
    declared = {"devices": {name: {"slot": HARDWARE}}}
    assert look(machine, declared)["naming", name].verdict is Verdict.PASS


def test_iwarp_is_warned_of(tmp_path: pathlib.Path) -> None:
    machine = bench.node(tmp_path, bench.roce(node_type="4: RNIC"))
    found = look(machine, {"devices": {"mlx5_0": {}}})
    assert found["iwarp", "mlx5_0"].verdict is Verdict.WARN
    assert found["gid", "mlx5_0/1"].verdict is found["rdma_cm", "mlx5_0/1"].verdict is Verdict.SKIP
    machine.remove(f"{CLASS}/mlx5_0/node_type")
    assert told(machine, "iwarp")[0] == "skip"


# -- Soft-RoCE -------------------------------------------------------------------------------


def test_soft_roce_is_judged_by_what_it_has(tmp_path: pathlib.Path) -> None:
    found = look(bench.software(tmp_path), {"devices": {"rxe0": {"rate": 2.5, "width": "1X"}}})
    by_verdict = {
        str(verdict): sorted(
            name for (name, target), check in found.items() if "rxe0" in target and check.verdict is verdict
        )
        for verdict in Verdict
    }
    assert by_verdict["pass"] == [
        "gid",
        "inventory",
        "iwarp",
        "netdev",
        "phys_state",
        "rate",
        "state",
        "width",
    ]
    assert by_verdict["fail"] == ["uverbs"]
    assert by_verdict["unknown"] == ["netdev_speed"]
    for name in (
        "firmware",
        "nic_discards",
        "pfc",
        "aer",
        "degradation",
        "fatal_counters",
        "numa",
        "slot",
        "naming",
    ):
        check = next(check for (one, target), check in found.items() if one == name and "rxe0" in target)
        assert check.verdict is Verdict.SKIP
        assert check.found


def test_soft_roce_that_is_down_or_has_the_wrong_type_fails(tmp_path: pathlib.Path) -> None:
    machine = bench.software(tmp_path, "1: DOWN", "2: Polling")
    found = look(machine, {"devices": {"rxe0": {}}})
    assert found["state", "rxe0/1"].verdict is found["phys_state", "rxe0/1"].verdict is Verdict.FAIL
    for index in (0, 1):
        machine.put(f"{CLASS}/rxe0/ports/1/gid_attrs/types/{index}", "IB/RoCE v1\n")
    assert look(machine, {"devices": {"rxe0": {}}})["gid", "rxe0/1"].verdict is Verdict.FAIL


def test_a_slot_declared_for_a_device_in_software_fails(tmp_path: pathlib.Path) -> None:
    found = look(bench.software(tmp_path), {"devices": {"rxe0": {"slot": HARDWARE}}})["slot", "rxe0"]
    assert found.verdict is Verdict.FAIL
