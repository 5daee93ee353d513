# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module on a simulated machine with two NUMA nodes; what it copies is memory of this one, a few MiB."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.modules import memory_bandwidth
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner
from mlnode.host.system import Finished

#: mbw 1.2.2, and sysbench 1.0.20, shortened
MBW = "AVG\tMethod: MEMCPY\tElapsed: 0.01324\tMiB: 128.00000\tCopy: 9671.180 MiB/s\n"
SYSBENCH = "Total operations: 5 (    2.28 per second)\n\n640.00 MiB transferred (291.25 MiB/sec)\n"

NODES = "/sys/devices/system/node"


class MemoryMachine(Machine):
    """says: program → what it prints under numactl, or its exit status."""

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if command[0] != "numactl":
            return super().run(command, seconds)
        assert command[1:3] == ["--cpunodebind=0", "--membind=0"]
        said = self.says[command[3]]
        return Finished(said, "", "it went wrong") if isinstance(said, int) else Finished(0, said, "")

    def install(self, **says: str | int) -> None:
        self.says = says
        for program in ("numactl", *says):
            self.put(f"/usr/bin/{program}", "", 0o755)


@pytest.fixture
def node(tmp_path: pathlib.Path) -> MemoryMachine:
    """The CPUs of node 0 are those of this process, so that it may run there; node 1 has none."""
    machine = MemoryMachine.debian(str(tmp_path / "node"))
    assert isinstance(machine, MemoryMachine)
    mine = sorted(os.sched_getaffinity(0))
    machine.put(f"{NODES}/online", "0-1\n")
    for number, cpus in enumerate((mine, [])):
        machine.put(f"{NODES}/node{number}/cpulist", ",".join(map(str, cpus)) + "\n")
        machine.put(f"{NODES}/node{number}/meminfo", f"Node {number} MemFree: 4000000 kB\n")
    for cpu in mine:
        machine.put(f"/sys/devices/system/cpu/cpu{cpu}/cache/index3/size", "256K\n")
    machine.put("/sys/devices/system/cpu/online", f"{','.join(map(str, mine))}\n")
    machine.put("/sys/devices/system/cpu/present", f"{','.join(map(str, mine))}\n")
    machine.put("/proc/self/numa_maps", "7f00 default anon=900 N0=900 kernelpagesize_kB=4\n")
    return machine


@pytest.fixture
def run(running: Make, node: MemoryMachine, monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.setattr(check_module, "Host", lambda mounts: node)
    return running(memory_bandwidth)


def nodes(run: Runner) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = run.ok().result["nodes"]
    return found


def test_without_programs_python_copies_and_reads_are_unknown(run: Runner) -> None:
    first, second = nodes(run)

    assert first["copied"]["value"] > 0.01
    assert (first["copied"]["tool"], first["copied"]["reason"]) == ("mlnode", "")
    assert first["read"] == {"value": None, "tool": "", "reason": "needs numactl and sysbench"}
    assert (second["node"], second["copied"]["value"]) == (1, None)
    assert second["copied"]["reason"] == second["read"]["reason"] == "no CPU of it is known"


def test_installed_programs_measure_and_are_named(run: Runner, node: MemoryMachine) -> None:
    node.install(mbw=MBW, sysbench=SYSBENCH)

    first, _second = nodes(run)

    assert first["copied"] == {
        "value": pytest.approx(9671.180 * 2**20 / 1e9),
        "tool": "numactl, mbw",
        "reason": "",
    }
    # 8 bytes in each read
    assert first["read"]["value"] == pytest.approx(8e9 / (291.25 * 2**20))
    assert first["read"]["tool"] == "numactl, sysbench"


@pytest.mark.parametrize("said", [1, "", "Copy: fast\n", "0.00 MiB transferred (0.00 MiB/sec)\n"])
def test_a_program_without_a_rate_is_no_result(run: Runner, node: MemoryMachine, said: str | int) -> None:
    node.install(mbw=said, sysbench=said)

    first, _second = nodes(run)

    assert first["copied"]["value"] is first["read"]["value"] is None
    assert first["copied"]["reason"].startswith("mbw printed no average: ")
    assert first["read"]["reason"].startswith("sysbench printed no rate: ")


@cases.table
def test_memory_of_another_node_does_not_count(
    run: Runner, node: MemoryMachine, maps: str | None, reason: str
) -> None:
    node.remove("/proc/self/numa_maps")
    if maps is not None:
        node.put("/proc/self/numa_maps", maps)

    assert nodes(run)[0]["copied"] == {"value": None, "tool": "mlnode", "reason": reason}


@cases.table
def test_too_little_memory(run: Runner, node: MemoryMachine, meminfo: str, reason: str) -> None:
    node.put(f"{NODES}/node0/meminfo", meminfo)

    assert nodes(run)[0]["copied"]["reason"] == reason


def test_beside_a_job_it_is_refused(run: Runner, node: MemoryMachine) -> None:
    node.put("/proc/4711/comm", "python3\n")
    node.put("/proc/4711/cmdline", "python3\0train.py\0")
    node.link("/proc/4711/fd/3", "/dev/nvidia0")

    assert "allow: [busy]" in run.msg()
    assert "allow: [busy]" in run.msg(check=True)
    assert len(run.ok(allow=["busy"]).result["nodes"]) == 2


def test_check_mode_measures_nothing(run: Runner) -> None:
    assert run.ok(check=True).result["nodes"] == []
