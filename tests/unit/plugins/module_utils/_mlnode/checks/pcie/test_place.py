# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import shutil

import pytest
from ansible_collections.mlnode.tuning.tests.unit.fabric_tree import (
    GPU,
    NIC,
    bad,
    interrupt,
    named,
    run,
    virtual,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import (
    NET,
    Tree,
    rail,
)
from mlnode.knobs.irq import plan as irq_plan
from mlnode.topology import hardware

NODE = f"/sys/bus/pci/devices/{NIC}/numa_node"
GPU1 = "0000:93:00.0"


def test_found(fabric: Tree) -> None:
    found = run(fabric.host)
    assert named(found, "numa_locality")["mlx5_0"].found == "NUMA node 0, CPUs 0-3"
    assert named(found, "gpu_distance")[f"GPU0 ({GPU})"].found == "PIX to rail0"
    assert named(found, "irq_locality")["mlx5_0"].found == "0 of 2 elsewhere"


def test_on_another_node_than_its_switch(fabric: Tree) -> None:
    fabric.put(NODE, 1)
    found = run(fabric.host)
    assert bad(found)["numa_locality", "mlx5_0"] == "fail"
    check = named(found, "numa_locality")["mlx5_0"]
    assert check.expected == "NUMA node 0"
    assert f"GPU0 ({GPU}) on node 0" in check.found
    assert "mlx5_1" not in {target for _name, target in bad(found)}


def test_on_no_node(fabric: Tree) -> None:
    fabric.put(NODE, -1)
    found = named(run(fabric.host), "numa_locality")
    assert (found["mlx5_0"].verdict, found["mlx5_0"].found) == ("fail", "-1")
    virtual(fabric)
    assert named(run(fabric.host), "numa_locality")["mlx5_0"].verdict == "warn"


@pytest.mark.parametrize("text", ["", "zero", "99999999999999999999", "\xff"])
def test_no_node_at_all(fabric: Tree, text: str) -> None:
    fabric.put(NODE, text)
    assert named(run(fabric.host), "numa_locality")["mlx5_0"].verdict == "unknown"


def test_one_node_is_near_everything(fabric: Tree) -> None:
    fabric.nodes("0-7")
    found = run(fabric.host)
    assert {name for name, _target in bad(found)} == {"numa_locality", "irq_locality"}
    assert {*bad(found).values()} == {"skip"}


def test_a_gpu_without_its_nic(fabric: Tree) -> None:
    """A second pair on node 0, whose NIC sits on the other socket, and on a root port of its own."""
    rail(fabric, 0x30, 0, 2)
    os.unlink(str(fabric.root) + "/sys/class/infiniband/mlx5_2")
    card = fabric.pci("pci0000:b0/0000:b0:01.0/0000:b1:00.0", NET, "15b3:1021", 1, "mlx5_core")
    fabric.rdma("mlx5_2", card)
    found = named(run(fabric.host), "gpu_distance")
    lost = found["GPU1 (0000:33:00.0)"]
    assert (lost.verdict, lost.expected) == ("warn", "PIX, as other GPUs")
    assert lost.found == "NODE to rail0"
    assert "mlx5_2 (0000:b1:00.0)" in lost.advice
    assert [check.verdict for check in found.values()] == ["pass", "warn", "pass"]


def test_a_gpu_on_a_socket_without_nic(fabric: Tree) -> None:
    for path in ("infiniband/mlx5_1", "net/rail1"):
        os.unlink(str(fabric.root) + f"/sys/class/{path}")
    found = run(fabric.host)
    assert named(found, "gpu_distance")[f"GPU1 ({GPU1})"].verdict == "fail"
    virtual(fabric)
    assert named(run(fabric.host), "gpu_distance")[f"GPU1 ({GPU1})"].verdict == "warn"


def test_a_gpu_whose_nic_is_on_another_node_of_its_socket(fabric: Tree) -> None:
    """NPS4 and SNC are a setting of the firmware. Nothing gets nearer in another slot."""
    for path in ("infiniband/mlx5_1", "net/rail1"):
        os.unlink(str(fabric.root) + f"/sys/class/{path}")
    for cpu in range(8):
        fabric.put(f"/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", 0)
    check = named(run(fabric.host), "gpu_distance")[f"GPU1 ({GPU1})"]
    # Another GPU has one on its switch.
    assert (check.verdict, check.expected, check.found) == ("warn", "PIX, as other GPUs", "SYS to rail0")
    for path in ("infiniband/mlx5_0", "net/rail0"):
        os.unlink(str(fabric.root) + f"/sys/class/{path}")
    card = fabric.pci("pci0000:b0/0000:b0:01.0/0000:b1:00.0", NET, "15b3:1021", 0, "mlx5_core")
    fabric.rdma("mlx5_2", card)
    found = named(run(fabric.host), "gpu_distance")
    assert [(one.verdict, one.found) for one in found.values()] == [
        ("pass", "NODE to mlx5_2"),
        ("pass", "SYS to mlx5_2"),
    ]


def test_a_gpu_that_reaches_its_nic_over_its_own_link_to_the_cpu(fabric: Tree) -> None:
    """A GB200 without a NIC on its switch beside one that has some."""
    rail(fabric, 0x30, 0, 2)
    for path in ("infiniband/mlx5_2", "net/rail2"):
        os.unlink(str(fabric.root) + f"/sys/class/{path}")
    lost = "GPU1 (0000:33:00.0)"
    assert named(run(fabric.host), "gpu_distance")[lost].verdict == "warn"
    fabric.put("/sys/bus/pci/devices/0000:33:00.0/device", "0x2941")
    check = named(run(fabric.host), "gpu_distance")[lost]
    assert (check.verdict, check.found) == ("pass", "NODE to rail0")


def test_nobody_tells_where_a_gpu_is(fabric: Tree) -> None:
    for path in ("infiniband/mlx5_1", "net/rail1"):
        os.unlink(str(fabric.root) + f"/sys/class/{path}")
    fabric.put(f"/sys/bus/pci/devices/{GPU1}/numa_node", -1)
    assert named(run(fabric.host), "gpu_distance")[f"GPU1 ({GPU1})"].verdict == "unknown"


@pytest.mark.parametrize("cpus, verdict", [("4", "warn"), ("0-7", "warn"), ("3", "pass"), ("0-3", "pass")])
def test_interrupts(fabric: Tree, cpus: str, verdict: str) -> None:
    fabric.put("/proc/irq/118/effective_affinity_list", cpus)
    check = named(run(fabric.host), "irq_locality")["mlx5_0"]
    assert check.verdict == verdict
    if verdict == "warn":
        assert check.found == "1 of 2 elsewhere: IRQ 118"
        assert "irq_affinity" in check.advice


def test_a_nic_on_a_node_without_cpus_is_judged_as_it_is_planned(fabric: Tree) -> None:
    """By the nearest node that has some: what irq_affinity sets is what the check asks for."""
    fabric.nodes("0-3", "4-7", "")
    for number, row in enumerate(("10 32 32", "32 10 16", "32 16 10")):
        fabric.put(f"/sys/devices/system/node/node{number}/distance", row)
    fabric.put(NODE, 2)
    check = named(run(fabric.host), "irq_locality")["mlx5_0"]
    assert (check.verdict, check.expected) == ("warn", "on the CPUs of NUMA node 1 (4-7)")
    cpus, note = irq_plan.near(hardware.topology(fabric.host), 2)
    assert (cpus, note) == ((4, 5, 6, 7), "")
    for irq, cpu in zip((117, 118), cpus):
        fabric.put(f"/proc/irq/{irq}/effective_affinity_list", cpu)
    assert named(run(fabric.host), "irq_locality")["mlx5_0"].verdict == "pass"


@pytest.mark.parametrize("elsewhere, verdict", [(2, "pass"), (3, "warn")])
def test_more_queues_than_cpus(fabric: Tree, elsewhere: int, verdict: str) -> None:
    for number in range(200, 204):
        cpu = 4 if number - 200 < elsewhere else 0
        interrupt(fabric, NIC, number, f"mlx5_comp{number}", str(cpu))
    assert named(run(fabric.host), "irq_locality")["mlx5_0"].verdict == verdict


def test_no_interrupts(fabric: Tree) -> None:
    shutil.rmtree(fabric.host.real(f"/sys/bus/pci/devices/{NIC}/msi_irqs"))
    assert named(run(fabric.host), "irq_locality")["mlx5_0"].verdict == "skip"


def test_the_container_sees_the_hosts_hardware(fabric: Tree) -> None:
    fabric.put("/.dockerenv", "")
    shutil.rmtree(fabric.root / "sys/class/net")
    found = run(fabric.host)
    assert {name for name, _target in bad(found)} == {"memlock"}
