# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit import rdma_bench as bench
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.rdma_bench import CLASS, CONF, look, of_device
from mlnode.checks.model import Verdict

ROUTE = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"


def test_device_files(roce: Machine) -> None:
    found = of_device(roce, "uverbs")
    assert (found.verdict, found.found) == (Verdict.PASS, "/dev/infiniband/uverbs0")
    roce.remove("/dev/infiniband/uverbs0")
    found = of_device(roce, "uverbs")
    assert (found.verdict, found.found) == (Verdict.FAIL, "/dev/infiniband/uverbs0 does not exist")
    roce.remove("/sys/class/infiniband_verbs/uverbs0")
    found = of_device(roce, "uverbs")
    assert found.verdict is Verdict.FAIL
    assert "modprobe ib_uverbs" in found.advice


def test_device_files_that_nobody_may_look_at(roce: Machine) -> None:
    roce.unreadable["/dev/infiniband"] = errno.EACCES
    assert of_device(roce, "uverbs").verdict is Verdict.UNKNOWN


def test_rdma_cm_of_user_space(roce: Machine) -> None:
    assert look(roce)["rdma_ucm", "node"].verdict is Verdict.PASS
    roce.remove("/dev/infiniband/rdma_cm")
    assert look(roce)["rdma_ucm", "node"].verdict is Verdict.FAIL
    roce.put(f"{CLASS}/mlx5_0/node_type", "7: unspecified\n")
    assert look(roce)["rdma_ucm", "node"].verdict is Verdict.SKIP


@cases.table
def test_network_namespaces(roce: Machine, text: str, declared: str | None, verdict: str, found: str) -> None:
    path = "/sys/module/ib_core/parameters/netns_mode"
    roce.put(path, f"{text}\n")
    check = look(roce, {"all": {"netns": declared}})["netns", "node"]
    assert (str(check.verdict), check.found) == (verdict, found)
    roce.remove(path)
    missing = look(roce, {"all": {"netns": declared}})["netns", "node"].verdict
    assert missing is (Verdict.UNKNOWN if declared else Verdict.SKIP)


# -- several rails -----------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path: pathlib.Path) -> Machine:
    machine = bench.two_rails(tmp_path)
    routes(machine, "0000000A", "0001000A")
    return machine


def routes(machine: Machine, *subnets: str) -> None:
    rows = [
        f"rail{number}\t{subnet}\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
        for number, subnet in enumerate(subnets)
    ]
    rows.append("rail0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n")
    machine.put("/proc/net/route", ROUTE + "".join(rows) + "nonsense\n")


def rails(machine: Machine) -> dict[str, str]:
    declared = {"devices": {"mlx5_0": {}, "mlx5_1": {}}}
    return {
        target: str(check.verdict)
        for (name, target), check in look(machine, declared).items()
        if name == "multi_rail"
    }


def test_arp_of_rails(two: Machine) -> None:
    assert rails(two) == {"rail0": "pass", "rail1": "pass"}


@pytest.mark.parametrize(("key", "value"), [("arp_ignore", "0"), ("arp_announce", "1"), ("rp_filter", "1")])
def test_in_one_subnet_it_fails_and_else_it_warns(two: Machine, key: str, value: str) -> None:
    two.put(f"{CONF}/rail1/{key}", f"{value}\n")
    assert rails(two) == {"rail0": "pass", "rail1": "warn"}
    routes(two, "0000000A", "0000000A")
    assert rails(two) == {"rail0": "pass", "rail1": "fail"}


def test_the_greater_of_all_and_its_own_counts(two: Machine) -> None:
    two.put(f"{CONF}/rail1/arp_ignore", "0\n")
    two.put(f"{CONF}/all/arp_ignore", "1\n")
    assert rails(two)["rail1"] == "pass"
    two.put(f"{CONF}/rail1/rp_filter", "0\n")
    two.put(f"{CONF}/all/rp_filter", "1\n")
    assert rails(two)["rail1"] == "warn"


@pytest.mark.parametrize("name", ["all", "rail1"])
def test_what_cannot_be_read_is_no_pass(two: Machine, name: str) -> None:
    path = f"{CONF}/{name}/arp_announce"
    two.unreadable[path] = errno.EACCES
    assert rails(two)["rail1"] == "unknown"
    two.unreadable.clear()
    two.put(path, "x\n")
    assert rails(two)["rail1"] == "unknown"
    two.remove(path)
    assert rails(two)["rail1"] == "skip"


def test_one_rail_needs_nothing(roce: Machine) -> None:
    assert look(roce)["multi_rail", "node"].verdict is Verdict.SKIP


# -- GPUs ------------------------------------------------------------------------------------


def test_gpus_are_counted_for_the_comparison_of_nodes(roce: Machine) -> None:
    check = look(roce)["gpus", "node"]
    assert (check.verdict, check.found) == (Verdict.SKIP, "0")
    assert check.advice == "declare gpus in all to have it judged"
    assert look(roce, {"all": {"gpus": 0}})["gpus", "node"].verdict is Verdict.PASS
    check = look(roce, {"all": {"gpus": 8}})["gpus", "node"]
    assert (check.verdict, check.expected, check.found) == (Verdict.FAIL, "8", "0")
