# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interrupts of NICs on two NUMA nodes, as knobs/irq/node.py has them: eth2 with four queues on node 0, eth3
with six on node 1."""

from __future__ import annotations

import errno
import os
import pathlib
from collections.abc import Iterator
from dataclasses import replace

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures.hardware import Root
from ansible_collections.mlnode.tuning.tests.fixtures.parts import gpu
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.irq.node import (
    HARDWARE,
    IRQS,
    IrqNode,
    apply,
    with_cpus,
)
from mlnode.checks.audit import interrupts
from mlnode.checks.audit.model import checks
from mlnode.checks.model import Check, Verdict
from mlnode.topology import hardware

BUSY = interrupts._BUSY
UPTIME = 1000


@pytest.fixture
def folder() -> Iterator[pathlib.Path]:
    yield from in_memory()


@pytest.fixture
def node(folder: pathlib.Path) -> IrqNode:
    made = IrqNode.made(str(folder / "node"))
    made.enable_agent()
    made.put("/proc/uptime", f"{UPTIME}.00 9.00\n")
    for name in ("eth2", "eth3", "eth4"):
        counted(made, name, 0)
    return made


def counted(node: IrqNode, name: str, per_second: int) -> None:
    """Packets of an interface since the boot, a half each way."""
    device = os.path.realpath(f"{node.root}/sys/class/net/{name}")[len(os.path.realpath(node.root)) :]
    for way in ("rx", "tx"):
        node.put(f"{device}/statistics/{way}_packets", f"{per_second * UPTIME // 2}\n")


def placed(node: IrqNode, name: str, *cpus: str) -> None:
    """The interrupts of a NIC in turn on these CPUs."""
    for place, number in enumerate(IRQS[name]):
        node.place(number, cpus[place % len(cpus)])


def rank(node: IrqNode, pid: int, cpus: str) -> None:
    node.put(f"/proc/{pid}/comm", "python3\n")
    node.put(f"/proc/{pid}/status", f"Name:\tpython3\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0-1\n")
    node.link(f"/proc/{pid}/fd/7", "/dev/nvidia0")


def look(node: IrqNode) -> dict[str, Check]:
    node.forget()
    return {check.target: check for check in checks(interrupts.LOOKS, node, hardware.topology(node))}


def test_all_queues_of_a_busy_nic_on_one_cpu(node: IrqNode) -> None:
    placed(node, "eth2", "0")
    counted(node, "eth2", BUSY)
    check = look(node)["eth2"]
    assert (check.verdict, check.found) == (
        Verdict.WARN,
        "4 queues on CPU 0; all on one core, CPUs 0,8; 10000 packets/s",
    )
    assert check.advice == "set irq_affinity with strategy spread: queues on CPUs 0..3"
    # That is what the knob would do.
    apply(node, {"name": "nics", "nics": {"names": ["eth2"]}, "strategy": "spread"})
    assert node.affinity("eth2") == ["0", "1", "2", "3"]
    assert look(node)["eth2"].verdict is Verdict.PASS


@cases.table
def test_most_queues_on_one_core(node: IrqNode, cpus: str, bad: str) -> None:
    placed(node, "eth2", *cpus.split())
    counted(node, "eth2", BUSY)
    check = look(node)["eth2"]
    assert check.verdict is (Verdict.WARN if bad else Verdict.PASS)
    assert bad in check.found
    assert (check.advice == "set irq_affinity with strategy spread: queues on CPUs 0..3") == bool(bad)


def test_an_idle_nic_is_reported_with_the_plan(node: IrqNode) -> None:
    placed(node, "eth2", "0")
    counted(node, "eth2", BUSY - 1)
    check = look(node)["eth2"]
    assert check.verdict is Verdict.SKIP
    assert check.found.endswith(
        "9999 packets/s, so not busy; set irq_affinity with strategy spread: queues on CPUs 0..3"
    )


def test_whether_it_is_busy_may_be_unknown(node: IrqNode) -> None:
    placed(node, "eth2", "0")
    counted(node, "eth2", BUSY)
    node.unreadable["/sys/class/net/eth2/statistics/rx_packets"] = errno.EIO
    check = look(node)["eth2"]
    assert check.verdict is Verdict.UNKNOWN, "the others may be idle, and this one not"
    assert check.found.endswith("no counter shows whether it is busy")


def test_packets_of_rdma_count(node: IrqNode) -> None:
    placed(node, "eth2", "0")
    path = os.path.realpath(f"{node.root}/sys/class/infiniband/mlx5_0")[len(os.path.realpath(node.root)) :]
    node.put(f"{path}/ports/1/counters/port_xmit_packets", f"{BUSY * UPTIME}\n")
    assert look(node)["eth2"].verdict is Verdict.WARN
    # A driver with a name of its own, whose folder counters/ counts nothing
    node.put(f"{path}/ports/1/counters/port_xmit_packets", "0\n")
    assert look(node)["eth2"].verdict is Verdict.SKIP
    node.put(f"{path}/ports/1/hw_counters/tx_rdma_ucast_pkts", f"{BUSY * UPTIME}\n")
    assert look(node)["eth2"].verdict is Verdict.WARN


def test_queues_on_the_wrong_node(node: IrqNode) -> None:
    placed(node, "eth3", "0", "1", "4", "5", "6", "7")
    counted(node, "eth3", BUSY)
    check = look(node)["eth3"]
    assert check.verdict is Verdict.WARN
    assert check.found.startswith("6 queues on CPUs 0-1,4-7; 2 off its NUMA node 1, CPUs 4-7,12-15; ")
    assert check.advice.startswith("set irq_affinity with strategy spread: ")
    placed(node, "eth3", "4", "5", "6", "7", "12", "13")
    assert look(node)["eth3"].verdict is Verdict.PASS


def test_where_it_arrives_counts_and_not_where_it_may(node: IrqNode) -> None:
    placed(node, "eth2", "0-15")
    counted(node, "eth2", BUSY)
    for number in IRQS["eth2"]:
        node.put(f"/proc/irq/{number}/effective_affinity_list", "5\n")
    assert "all on one core, CPUs 5,13; 4 off its NUMA node 0" in look(node)["eth2"].found
    for number in IRQS["eth2"]:
        node.remove(f"/proc/irq/{number}/effective_affinity_list")
    check = look(node)["eth2"]
    assert check.verdict is Verdict.UNKNOWN
    assert "smp_affinity_list has several CPUs: 0-15" in check.found
    for number in IRQS["eth2"]:
        node.put(f"/proc/irq/{number}/smp_affinity_list", "5\n")
    assert look(node)["eth2"].verdict is Verdict.WARN, "one CPU, on a kernel that does not show it"


@pytest.mark.parametrize("file", ["smp_affinity_list", "effective_affinity_list"])
def test_an_interrupt_that_cannot_be_read(node: IrqNode, file: str) -> None:
    node.unreadable[f"/proc/irq/29/{file}"] = errno.EIO
    check = look(node)["eth2"]
    assert check.verdict is Verdict.UNKNOWN
    assert "EIO" in check.found
    assert look(node)["eth3"].verdict is Verdict.PASS


def test_interrupts_that_the_kernel_keeps(node: IrqNode) -> None:
    placed(node, "eth2", "0")
    counted(node, "eth2", BUSY)
    os.chmod(f"{node.root}/proc/irq/28/smp_affinity_list", 0o444)
    assert (
        "3 queues on CPU 0; 1 more that the kernel keeps, and does not let move; " in look(node)["eth2"].found
    )
    for number in IRQS["eth2"]:
        os.chmod(f"{node.root}/proc/irq/{number}/smp_affinity_list", 0o444)
    check = look(node)["eth2"]
    assert (check.verdict, check.found) == (
        Verdict.SKIP,
        "the kernel keeps all 4 interrupts of its queues, and does not let them move",
    )


def test_interrupts_on_cpus_of_ranks(node: IrqNode) -> None:
    rank(node, 70, "0-1,8-9")
    placed(node, "eth2", "0", "1", "2", "3")
    counted(node, "eth2", BUSY)
    check = look(node)["eth2"]
    assert check.verdict is Verdict.WARN
    assert "; 2 on CPUs that ranks are bound to: 0-1; " in check.found
    assert check.advice == "set irq_affinity with strategy list and cpus 2-3: queues on CPUs 2..3 x2"
    placed(node, "eth2", "2", "3")
    assert look(node)["eth2"].verdict is Verdict.PASS


def test_ranks_that_cannot_be_seen_are_unknown(folder: pathlib.Path) -> None:
    gpu_root = Root("pci0000:c0", 1, (gpu("0000:c1:00.0", "10de:2330", "nvidia"),))
    made = IrqNode.made(str(folder / "gpu"), replace(HARDWARE, roots=(*HARDWARE.roots, gpu_root)))
    rank(made, 70, "0-1,8-9")
    assert "node" not in look(made)
    made.unreadable["/proc/70/fd"] = errno.EACCES
    found = look(made)
    assert found["node"].verdict is Verdict.UNKNOWN
    assert found["node"].found.startswith("CPUs of ranks are not known: 1 process that cannot be looked into")
    assert found["eth2"].verdict is Verdict.PASS, "its place is known"


def test_a_nic_on_another_bus(node: IrqNode) -> None:
    """As hv_netvsc on VMBus."""
    node.put("/sys/devices/LNXSYSTM:00/vmbus/net/eth9/type", "1\n")
    node.put("/sys/devices/LNXSYSTM:00/vmbus/net/eth9/address", "02:00:00:00:00:19\n")
    node.link("/sys/devices/LNXSYSTM:00/vmbus/net/eth9/device", "../..")
    node.link("/sys/class/net/eth9", "../../devices/LNXSYSTM:00/vmbus/net/eth9")
    check = look(node)["eth9"]
    assert (check.verdict, check.found) == (
        Verdict.SKIP,
        "it is not on PCI, and its interrupts are not known",
    )


@pytest.mark.parametrize("cpus", ["0-3,8-11", "0-15"])
def test_ranks_that_leave_no_core_have_no_better_place(node: IrqNode, cpus: str) -> None:
    """Bound to a whole node, or not bound."""
    rank(node, 70, cpus)
    placed(node, "eth2", "0", "1", "2", "3")
    counted(node, "eth2", BUSY)
    assert look(node)["eth2"].verdict is Verdict.PASS


def test_a_declared_rule_is_the_plan(node: IrqNode) -> None:
    counted(node, "eth2", BUSY)
    rule = {"name": "mine", "nics": {"names": ["eth2"]}, "strategy": "list", "cpus": "4,5"}
    apply(node, rule, name="site")
    check = look(node)["eth2"]
    assert (check.verdict, check.found) == (Verdict.PASS, "4 queues on CPUs 4-5; as site declares")
    placed(node, "eth2", "4")
    check = look(node)["eth2"]
    assert check.verdict is Verdict.WARN
    assert check.advice == "run mlnode apply, as site declares: queues on CPUs 4..5 x2"


def test_a_node_with_one_core_has_one_cpu(folder: pathlib.Path) -> None:
    made = IrqNode.made(str(folder / "one"), with_cpus(cores=1, threads=1))
    made.put("/proc/uptime", f"{UPTIME}.00 9.00\n")
    placed(made, "eth2", "0")
    counted(made, "eth2", BUSY)
    assert look(made)["eth2"].verdict is Verdict.PASS


def test_cpus_that_are_kept_free(folder: pathlib.Path) -> None:
    made = IrqNode.made(str(folder / "quiet"), with_cpus(isolated=tuple(range(16))))
    made.put("/proc/uptime", f"{UPTIME}.00 9.00\n")
    placed(made, "eth2", "5")
    counted(made, "eth2", BUSY)
    check = look(made)["eth2"]
    assert check.verdict is Verdict.WARN
    assert "isolated_cpus" in check.advice


def test_nics_that_are_not_known_are_unknown(node: IrqNode) -> None:
    node.unreadable["/sys/devices/system/node/online"] = errno.EIO
    [check] = look(node).values()
    assert (check.verdict, check.target) == (Verdict.UNKNOWN, "node")
    del node.unreadable["/sys/devices/system/node/online"]
    assert {*look(node)} == {"eth2", "eth3", "eth4"}
