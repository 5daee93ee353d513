# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.linux import irqs
from mlnode.model.errors import HostError

TABLE = """\
            CPU0       CPU2
  8:          0          1  IR-IO-APIC    8-edge      rtc0
 29:         10         20  IR-PCI-MSI 524288-edge      mlx5_comp0@pci:0000:c1:00.0
 30:          7          8
NMI:          1          2  Non-maskable interrupts
ERR:          0
"""
EFFECTIVE = irqs.effective_path(29)


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Machine:
    return Machine(str(tmp_path / "node"))


def test_arrivals_of_each_interrupt(node: Machine) -> None:
    node.put(irqs.COUNTS, TABLE)
    assert [*irqs.counted(node)] == [
        (8, {0: 0, 2: 1}, "rtc0"),
        (29, {0: 10, 2: 20}, "mlx5_comp0@pci:0000:c1:00.0"),
        (30, {0: 7, 2: 8}, ""),
    ]
    assert [row.irq for row in irqs.counted(node, only={29, 99})] == [29]


@pytest.mark.parametrize("line", ["31:          7", "31:          7          x  IR-PCI-MSI", "31:"])
def test_a_line_without_a_number_for_each_cpu_is_told(node: Machine, line: str) -> None:
    node.put(irqs.COUNTS, f"{TABLE} {line}\n")
    with pytest.raises(HostError, match="interrupt 31 has no number for each CPU"):
        [*irqs.counted(node)]
    assert [row.irq for row in irqs.counted(node, only={29})] == [29]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_unreadable_files_are_told(node: Machine, number: int) -> None:
    node.unreadable = {irqs.COUNTS: number, EFFECTIVE: number}
    with pytest.raises(HostError):
        [*irqs.counted(node)]
    with pytest.raises(HostError):
        irqs.effective(node, 29)


@pytest.mark.parametrize("content", ["", "CPU\n", b"\xff\xfe\n", "x" * 100_000])
def test_a_table_without_columns_is_told(node: Machine, content: str | bytes) -> None:
    node.put(irqs.COUNTS, content)
    with pytest.raises(HostError, match="no columns of CPUs"):
        [*irqs.counted(node)]


@pytest.mark.parametrize(("content", "cpus"), [("3-4,8\n", (3, 4, 8)), ("\n", ()), ("", ()), (None, None)])
def test_where_an_interrupt_arrives(node: Machine, content: str | None, cpus: tuple[int, ...] | None) -> None:
    if content is not None:
        node.put(EFFECTIVE, content)
    assert irqs.effective(node, 29) == cpus


@pytest.mark.parametrize("content", ["3-", "none", b"\xff", "9" * 5000])
def test_a_list_that_is_not_understood_is_told(node: Machine, content: str | bytes) -> None:
    node.put(EFFECTIVE, content)
    with pytest.raises(HostError, match="understand"):
        irqs.effective(node, 29)
