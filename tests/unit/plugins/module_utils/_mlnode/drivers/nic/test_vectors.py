# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.drivers.nic import vectors as irq_vectors
from mlnode.drivers.nic.vectors import Vector, Vectors
from mlnode.model.errors import HostError

ADDRESS = "0000:41:00.0"


@cases.table
def test_a_name_that_says_a_queue(name: str, queue: int) -> None:
    assert irq_vectors.queue_of(name) == queue


@cases.table
def test_a_name_that_says_none(name: str) -> None:
    assert irq_vectors.queue_of(name) is None


@pytest.fixture
def host(tmp_path: Any) -> Machine:
    return Machine(str(tmp_path))


def add(host: Machine, irq: int, *names: str) -> None:
    host.put(f"{irq_vectors.msi_folder(ADDRESS)}/{irq}", "msix\n")
    for file in ("smp_affinity_list", "effective_affinity_list", "spurious", "node"):
        host.put(f"/proc/irq/{irq}/{file}", "0\n")
    for name in names:
        os.makedirs(f"{host.root}/proc/irq/{irq}/{name}")


def test_queues_are_those_that_their_names_say_in_the_order_of_the_interrupts(host: Machine) -> None:
    add(host, 120, "eth0")
    add(host, 99, "eth0-TxRx-1")
    add(host, 100, "eth0-TxRx-0")
    assert irq_vectors.queue_vectors(host, ADDRESS) == Vectors(
        (Vector(99, "eth0-TxRx-1", 1), Vector(100, "eth0-TxRx-0", 0))
    )


def test_an_interrupt_that_nobody_handles_is_none(host: Machine) -> None:
    add(host, 30)
    host.put(f"{irq_vectors.msi_folder(ADDRESS)}/31", "msix\n")  # not even a folder in /proc/irq
    assert irq_vectors.queue_vectors(host, ADDRESS) == Vectors()


def test_where_no_name_says_a_queue_all_that_are_in_use_are_taken(host: Machine) -> None:
    add(host, 30, "strange")
    add(host, 31, "stranger")
    add(host, 32)
    found = irq_vectors.queue_vectors(host, ADDRESS)
    assert found == Vectors((Vector(30, "strange", 0), Vector(31, "stranger", 1)), unnamed=True)


@cases.table
def test_the_interrupts_of_a_nic_that_is_down_are_no_queues(host: Machine, name: str) -> None:
    """Drivers ask for those of the queues when the interface comes up (mlx5 since Linux 6.4, ice, ena)."""
    add(host, 30, name)
    assert irq_vectors.queue_vectors(host, ADDRESS) == Vectors()


def test_a_device_without_msi_has_none(host: Machine) -> None:
    assert irq_vectors.queue_vectors(host, ADDRESS) == Vectors()


def test_what_is_no_number_is_no_interrupt(host: Machine) -> None:
    add(host, 30, "eth0-TxRx-0")
    host.put(f"{irq_vectors.msi_folder(ADDRESS)}/power", "")
    assert [vector.irq for vector in irq_vectors.queue_vectors(host, ADDRESS).queues] == [30]


def test_a_folder_that_cannot_be_read_is_told(host: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> list[str]:
        raise HostError("list", path, errno.EACCES)

    monkeypatch.setattr(host, "names", refuse)
    assert irq_vectors.queue_vectors(host, ADDRESS).problem.startswith(
        f"cannot list {irq_vectors.msi_folder(ADDRESS)}"
    )
