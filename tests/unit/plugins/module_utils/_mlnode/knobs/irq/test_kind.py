# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os
import pathlib
from dataclasses import replace

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.engine import answers
from mlnode.knobs.irq import files as irq_files
from mlnode.model.errors import HostError, RefusedError
from mlnode.model.setting import Status

from .node import ETH2, HARDWARE, IRQS, IrqNode, apply, igb, plan, reading, row, wants, with_cpus

SPREAD = {"name": "all", "strategy": "spread"}
ETH2_SPREAD = {"name": "two", "nics": {"names": ["eth2"]}, "strategy": "spread"}


def with_nic(root: pathlib.Path, *names: str) -> IrqNode:
    """A machine whose one NIC on node 0 has interrupts of these names."""
    roots = (HARDWARE.roots[0], replace(HARDWARE.roots[1], functions=(igb("eth2", ETH2, *names),)))
    return IrqNode.made(str(root), replace(HARDWARE, roots=roots))


# -- interrupts ----------------------------------------------------------------------------


def test_every_queue_gets_a_core_beside_its_nic_and_other_interrupts_none(node: IrqNode) -> None:
    found = reading(node, SPREAD)
    assert wants(found) == {
        25: "0", 26: "0",
        28: "0", 29: "1", 30: "2", 31: "3",
        33: "4", 34: "5", 35: "6", 36: "7", 37: "4", 38: "5",
    }  # fmt: skip
    assert found.want == "eth4: 0 x2; eth2: 0..3; eth3: 4..7 4..5"
    assert found.note == "eth4: the firmware names no NUMA node for it, so the CPUs of all nodes serve it"


def test_a_part_is_tied_to_its_device_and_can_be_put_back(node: IrqNode) -> None:
    node.place(28, "0-15")
    part = reading(node, ETH2_SPREAD).parts[0]
    assert part.path == "/proc/irq/28/smp_affinity_list"
    assert (part.runtime, part.want) == ("0-15", "0")
    assert [(write.path, write.value) for write in part.undo] == [(part.path, "0-15")]
    assert part.device == f"/sys/bus/pci/devices/{ETH2}/msi_irqs/28"
    assert node.exists(part.device)
    assert part.taker == part.device


def test_new_queues_get_their_cores(node: IrqNode) -> None:
    """What `ethtool -L` leaves: interrupts of other numbers, of which one takes an old number."""
    apply(node, ETH2_SPREAD)
    folder = f"/sys/bus/pci/devices/{ETH2}/msi_irqs"
    for number in (29, 30, 31):
        node.remove(f"{folder}/{number}")
    for queue, number in enumerate((60, 29), start=1):
        node.put(f"{folder}/{number}", "msix\n")
        os.makedirs(f"{node.root}/proc/irq/{number}/mlx5_comp{queue}@pci:{ETH2}", exist_ok=True)
        node.place(number, "0-15")
    os.rmdir(f"{node.root}/proc/irq/29/mlx5_comp1@pci:{ETH2}")

    assert wants(reading(node, ETH2_SPREAD)) == {28: "0", 29: "2", 60: "1"}
    apply(node, ETH2_SPREAD)

    assert [node.now(f"/proc/irq/{number}/smp_affinity_list") for number in (28, 60, 29)] == ["0", "1", "2"]


def test_names_that_say_no_queue_are_taken_in_their_order_and_that_is_said(folder: pathlib.Path) -> None:
    node = with_nic(folder, "strange-a", "strange-b")
    found = reading(node, ETH2_SPREAD)
    assert [*wants(found).values()] == ["0", "1"]
    assert found.note == "eth2: no interrupt is named after a queue, so all of them are taken for queues"


def test_an_interrupt_that_is_gone_since_it_was_listed_is_left_out(node: IrqNode) -> None:
    node.remove("/proc/irq/30/smp_affinity_list")
    assert [*wants(reading(node, ETH2_SPREAD))] == [28, 29, 31]


def test_a_nic_without_an_interrupt_in_use_is_told(folder: pathlib.Path) -> None:
    node = with_nic(folder)
    found = reading(node, ETH2_SPREAD)
    assert (found.runtime.absent or "").startswith("eth2: no MSI interrupt is in use (the interface is down")
    both = reading(node, SPREAD)
    assert both.runtime.text == "eth4: 0-15 x2"


def test_a_nic_that_is_down_keeps_its_control_interrupt_and_is_named_beside_others(
    folder: pathlib.Path,
) -> None:
    node = with_nic(folder, f"mlx5_async0@pci:{ETH2}")
    node.enable_agent()
    apply(node, SPREAD)
    found = row(node, SPREAD)
    assert found.status is Status.OK
    assert found.reason.endswith(
        "; eth2: no MSI interrupt is in use (the interface is down, or its device has a line interrupt)"
    )
    assert len(found.reading.parts) == 2


@cases.table
def test_a_nic_that_is_named_and_not_there_is_told(
    node: IrqNode, nics: dict[str, object], words: str
) -> None:
    rule = {**ETH2_SPREAD, "nics": nics}
    apply(node, rule)
    assert (row(node, rule).status, row(node, rule).reason) == (Status.OK, words)


@cases.table
def test_where_cpus_and_nodes_cannot_be_read_nothing_is_guessed(node: IrqNode, path: str) -> None:
    """As none, they would put the interrupts on isolated CPUs, or on those of another node."""
    assert node.exists(path)
    node.unreadable[path] = errno.EACCES
    found = row(node, ETH2_SPREAD)
    assert found.status is Status.UNKNOWN
    assert found.reason.startswith(f"cannot read {path}: EACCES")
    apply(node, ETH2_SPREAD)
    assert node.writes == []


def test_where_nics_cannot_be_listed_nobody_says_that_there_are_none(node: IrqNode) -> None:
    node.unreadable["/sys/class/net"] = errno.EACCES
    found = row(node, ETH2_SPREAD)
    assert (found.status, found.reason[:26]) == (Status.UNKNOWN, "cannot list /sys/class/net")


def test_a_kernel_without_numa_is_no_reason_not_to_know(node: IrqNode) -> None:
    node.remove("/sys/devices/system/node/online")
    assert [*wants(reading(node, ETH2_SPREAD)).values()] == ["0", "1", "2", "3"]
    node.remove("/sys/devices/system/cpu/online")
    node.forget()
    assert [*wants(reading(node, ETH2_SPREAD)).values()] == ["0", "1", "2", "3"], "by the folders of the CPUs"


def test_a_file_that_cannot_be_read_makes_the_row_unknown(node: IrqNode) -> None:
    node.unreadable["/proc/irq/29/smp_affinity_list"] = errno.EACCES
    found = row(node, ETH2_SPREAD)
    assert found.status is Status.UNKNOWN
    assert found.reason.startswith("cannot read /proc/irq/29/smp_affinity_list: EACCES")
    assert not [step for step in plan(node, ETH2_SPREAD).steps if "irq" in str(getattr(step, "path", ""))]


def test_a_folder_that_cannot_be_read_makes_the_row_unknown(node: IrqNode) -> None:
    node.unreadable[f"/sys/bus/pci/devices/{ETH2}/msi_irqs"] = errno.EIO
    assert row(node, ETH2_SPREAD).status is Status.UNKNOWN


def test_what_may_not_be_written_is_unsupported(node: IrqNode) -> None:
    apply(node, ETH2_SPREAD)
    node.read_only["/proc/irq/28/smp_affinity_list"] = "a container"
    assert row(node, ETH2_SPREAD).status is Status.OK
    node.place(30, "9")
    found = row(node, ETH2_SPREAD)
    assert (found.status, found.reason) == (Status.UNSUPPORTED, "a container")


def test_a_full_cpu_is_explained_and_the_others_are_set(node: IrqNode) -> None:
    for number in IRQS["eth2"]:
        node.place(number, "8")
    node.fails["/proc/irq/30/smp_affinity_list"] = errno.ENOSPC

    with pytest.raises(RefusedError) as caught:
        apply(node, ETH2_SPREAD)

    words = str(caught.value)
    assert "irq.two: /proc/irq/30/smp_affinity_list: smp_affinity_list 2: ENOSPC" in words
    assert "these CPUs have no interrupt vector left: name more CPUs, or give the NIC fewer queues" in words
    assert node.affinity("eth2") == ["0", "1", "8", "3"]


def test_space_that_is_lacking_elsewhere_is_no_matter_of_interrupts() -> None:
    assert "vector" not in str(HostError("write", "/etc/x", errno.ENOSPC))


# -- CPUs ----------------------------------------------------------------------------------


def test_a_list_is_used_whatever_the_node(node: IrqNode) -> None:
    found = reading(node, {**ETH2_SPREAD, "strategy": "list", "cpus": "5,15"})
    assert [*wants(found).values()] == ["5", "15", "5", "15"]
    assert found.want == "eth2: 5 15 5 15"


def test_cpus_that_are_kept_free_are_refused_until_they_are_allowed(folder: pathlib.Path) -> None:
    node = IrqNode.made(str(folder), with_cpus(isolated=(0, 1, 2, 3, 8, 9, 10, 11)))
    found = row(node, ETH2_SPREAD)
    assert found.status is Status.REFUSED
    assert found.reason.startswith(
        "eth2: NUMA node 0 has no CPU but those that isolcpus or nohz_full keep free"
    )
    with pytest.raises(RefusedError, match=r"allow: \[isolated_cpus\]"):
        apply(node, ETH2_SPREAD)
    assert node.writes == []
    apply(node, ETH2_SPREAD, allow=["isolated_cpus"])
    assert node.affinity("eth2") == ["0", "1", "2", "3"]


def test_the_nic_of_the_other_node_is_no_matter_of_these_cpus(folder: pathlib.Path) -> None:
    node = IrqNode.made(str(folder), with_cpus(isolated=(0, 1, 2, 3, 8, 9, 10, 11), offline=(7,)))
    rule = {"name": "three", "nics": {"rdma": ["mlx5_1"]}, "strategy": "spread"}
    assert [*wants(reading(node, rule)).values()] == ["4", "5", "6", "15", "4", "5"]


def test_a_container_rules_the_nics_whose_interface_it_has_been_given(node: IrqNode) -> None:
    """Its host's RDMA devices, and their interrupts, are seen in every container."""
    node.put("/run/systemd/container", "podman\n")
    node.remove("/sys/class/net/eth3")
    assert reading(node, {**SPREAD, "nics": {"rails": True}}).want == "eth2: 0..3"
    found = row(node, {**SPREAD, "nics": {"rdma": ["mlx5_1"]}})
    assert found.status is Status.UNSUPPORTED
    assert found.reason.endswith(
        "NICs without an interface in the container belong to its host: declare them there"
    )


# -- interrupts that the kernel keeps ------------------------------------------------------


def test_a_managed_interrupt_is_left_out_and_said(node: IrqNode) -> None:
    """Since Linux 6.12 its file has no bit for writing."""
    os.chmod(f"{node.root}/proc/irq/29/smp_affinity_list", 0o444)
    found = reading(node, ETH2_SPREAD)
    assert [*wants(found)] == [28, 30, 31]
    assert found.note == "eth2: interrupts that the kernel keeps to itself: 1"
    assert found.managed == ""


def test_where_all_are_managed_so_is_the_rule(node: IrqNode) -> None:
    for number in IRQS["eth2"]:
        os.chmod(f"{node.root}/proc/irq/{number}/smp_affinity_list", 0o444)
    found = row(node, ETH2_SPREAD)
    assert found.status is Status.MANAGED
    assert found.reason == "the kernel keeps all interrupts of eth2 to itself (4)"


@pytest.mark.parametrize("number", [errno.EIO, errno.EPERM])
def test_a_refused_write_is_remembered_until_the_next_boot(node: IrqNode, number: int) -> None:
    """Before Linux 6.12 only a write tells: EIO, and EPERM in 6.12 itself."""
    node.place(29, "0-15")
    node.place(30, "0-15")
    node.fails["/proc/irq/29/smp_affinity_list"] = number

    done = apply(node, ETH2_SPREAD)

    assert node.affinity("eth2") == ["0", "0-15", "2", "3"]
    assert done.rows[0].status is Status.CHANGED
    assert node.names(answers.FOLDER) == ["proc!irq!29!smp_affinity_list"]
    assert not apply(node, ETH2_SPREAD).changed
    assert row(node, ETH2_SPREAD).reason == "eth2: interrupts that the kernel keeps to itself: 1"


# -- where they really arrive --------------------------------------------------------------


def interrupts(node: Machine, counts: dict[int, list[int]]) -> str:
    """As /proc/interrupts: a column for each online CPU."""
    header = "           " + "".join(f"CPU{cpu:<8}" for cpu in range(16))
    lines = [f"{number:>4}: " + " ".join(map(str, row)) + "  MSI x" for number, row in counts.items()]
    return "\n".join([header, *lines, " NMI: " + " ".join("0" * 16) + "  Non-maskable", "ERR: 0", ""])


@pytest.fixture
def late(node: IrqNode) -> IrqNode:
    """eth2 is set right, and its second interrupt still arrives on CPU 9, the third on CPU 10."""
    apply(node, ETH2_SPREAD)
    node.put("/proc/irq/29/effective_affinity_list", "9\n")
    node.put("/proc/irq/30/effective_affinity_list", "10\n")
    return node


def look_after(node: IrqNode, monkeypatch: pytest.MonkeyPatch, now: dict[int, list[int]]) -> list[float]:
    """Between the two looks at /proc/interrupts the counts become these."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        node.put("/proc/interrupts", interrupts(node, now))

    monkeypatch.setattr(irq_files.time, "sleep", sleep)
    return slept


COUNTS = {29: [0] * 9 + [500] + [0] * 6, 30: [7] * 16}


def test_an_idle_interrupt_that_has_not_moved_yet_is_no_drift(
    late: IrqNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    late.put("/proc/interrupts", interrupts(late, COUNTS))
    slept = look_after(late, monkeypatch, COUNTS)
    found = row(late, ETH2_SPREAD)
    assert found.status is Status.OK
    assert found.reason == "eth2: interrupts that move when the next of them arrives: 2"
    assert len(slept) == 1
    assert slept[0] <= 0.1


def test_all_nics_of_a_rule_are_counted_in_one_look(node: IrqNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """/proc/interrupts is the longest file of a large node."""
    apply(node, SPREAD)
    for number in (29, 34):
        node.put(f"/proc/irq/{number}/effective_affinity_list", "9\n")
    counts = {29: [0] * 9 + [500] + [0] * 6, 34: [0] * 9 + [500] + [0] * 6}
    node.put("/proc/interrupts", interrupts(node, counts))
    slept = look_after(node, monkeypatch, {**counts, 34: [0] * 9 + [530] + [0] * 6})
    found = row(node, SPREAD)
    assert len(slept) == 1
    assert found.reason == (
        "runtime is eth4: 0 x2; eth2: 0..3; eth3: 4 9 6..7 4..5; "
        "eth4: the firmware names no NUMA node for it, so the CPUs of all nodes serve it; "
        "eth2: interrupts that move when the next of them arrives: 1"
    )
    assert "eth2: interrupts that move when the next of them arrives: 1" in found.reading.note


def test_an_interrupt_that_keeps_arriving_elsewhere_is_drift(
    late: IrqNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    late.put("/proc/interrupts", interrupts(late, COUNTS))
    look_after(late, monkeypatch, {**COUNTS, 29: [0] * 9 + [530] + [0] * 6, 30: [7, 9, *[7] * 14]})
    found = row(late, ETH2_SPREAD)
    assert found.status is Status.DRIFTED
    assert found.reason == (
        "runtime is eth2: 0 9 2..3; eth2: interrupts that move when the next of them arrives: 1"
    )
    assert found.reading.note.endswith("arrives: 1")


def test_the_interrupt_that_was_counted_may_have_moved_it(
    late: IrqNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one arrives where the last did, and only then the kernel moves them: that is no drift."""
    late.put("/proc/interrupts", interrupts(late, COUNTS))

    def sleep(_seconds: float) -> None:
        late.put("/proc/interrupts", interrupts(late, {**COUNTS, 29: [0] * 9 + [501] + [0] * 6}))
        late.put("/proc/irq/29/effective_affinity_list", "1\n")

    monkeypatch.setattr(irq_files.time, "sleep", sleep)
    found = row(late, ETH2_SPREAD)
    assert found.status is Status.OK
    assert found.reason == "eth2: interrupts that move when the next of them arrives: 1"


def test_where_the_counts_cannot_be_had_nothing_is_claimed(
    late: IrqNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(irq_files.time, "sleep", lambda seconds: None)
    late.remove("/proc/interrupts")
    assert row(late, ETH2_SPREAD).status is Status.OK
    late.put("/proc/interrupts", "            CPU0\n  29: many MSI x\n  30:\n")
    assert row(late, ETH2_SPREAD).status is Status.OK


@pytest.mark.parametrize("text", ["", "no list"])
def test_a_kernel_that_does_not_tell_where_they_arrive_is_believed(node: IrqNode, text: str) -> None:
    apply(node, ETH2_SPREAD)
    node.put("/proc/irq/29/effective_affinity_list", text + "\n")
    node.remove("/proc/irq/30/effective_affinity_list")
    assert row(node, ETH2_SPREAD).status is Status.OK


def test_an_interrupt_that_does_not_move_is_told_after_the_write(
    node: IrqNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.place(29, "9")
    node.stays.add(29)
    counts = iter(range(100, 1000, 100))
    monkeypatch.setattr(
        irq_files.time,
        "sleep",
        lambda seconds: node.put("/proc/interrupts", interrupts(node, {29: [next(counts)] * 16})),
    )
    node.put("/proc/interrupts", interrupts(node, {29: [1] * 16}))
    done = apply(node, ETH2_SPREAD)
    assert done.rows[0].status is Status.DRIFTED
    assert "runtime is eth2: 0 9 2..3" in done.rows[0].reason
