# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.knobs.irq import vectors as irq_vectors
from mlnode.knobs.irq.vectors import Vector, Vectors
from mlnode.model.errors import HostError

ADDRESS = "0000:41:00.0"


@pytest.mark.parametrize(
    ("name", "queue"),
    [
        ("mlx5_comp0@pci:0000:1a:00.0", 0),
        ("mlx5_comp62@pci:0000:1a:00.0", 62),
        ("mlx5_combined0@pci:0000:1a:00.2", 0),
        ("mlx5_comp7", 7),
        ("mlx4-3@0000:04:00.0", 3),
        ("mlx4-comp-3@pci:0000:04:00.0", 3),
        ("eth0-TxRx-5", 5),
        ("eth0-rx-2", 2),
        ("eth0-tx-11", 11),
        ("ice-ens1f0np0-TxRx-63", 63),
        ("i40e-eth10-TxRx-1", 1),
        ("iavf-eth0-TxRx-3", 3),
        ("hns3-0000:7d:00.0-TxRx-9", 9),
        ("ens5-Tx-Rx-31", 31),
        ("eth0-rxtx-4", 4),
        ("eth0-txrx-1", 1),
        ("eth0-fp-3", 3),
        ("virtio0-input.0", 0),
        ("virtio12-output.3", 3),
        ("virtio0-virtqueues", 0),
        ("gve-ntfy-blk17@pci:0000:00:04.0", 17),
        ("ens4-ntfy-block.3", 3),
        ("mana_q7@pci:7870:00:00.0", 7),
        ("ionic-eth0-L0-rx3", 3),
        ("efa-comp15@pci:0000:10:1b.0", 15),
        ("irdma-0000:31:00.0-CEQ-4", 4),
        ("irdma-0000:31:00.0-AEQCEQ-0", 0),
        ("bnxt_re-nq-2@pci:0000:17:00.0", 2),
        ("bnxt_qplib_nq-1", 1),
        ("hns-0000:7d:00.0-ceq-3", 3),
    ],
)
def test_a_name_that_says_a_queue(name: str, queue: int) -> None:
    assert irq_vectors.queue_of(name) == queue


@pytest.mark.parametrize(
    "name",
    [
        "mlx5_async0@pci:0000:1a:00.0",
        "mlx5_ctrl0@pci:0000:1a:00.0",
        "mlx4-async@pci:0000:04:00.0",
        "eth0",
        "ens1f0",
        "ice-0000:31:00.0:misc",
        "ice-0000:31:00.0:ctrl-TxRx-0",
        "i40e-0000:3b:00.0:misc",
        "i40e-0000:3b:00.0:fdir-TxRx-0",
        "iavf-eth0:mbx",
        "irdma-0000:31:00.0-AEQ",
        "virtio0-config",
        "virtio0-control",
        "ena-mgmnt@pci:0000:00:05.0",
        "efa-mgmnt@pci:0000:10:1b.0",
        "gve-mgmnt@pci:0000:00:04.0",
        "mana_hwc@pci:7870:00:00.0",
        "hclge-misc-0000:7d:00.0",
        "bnxt_re-creq@pci:0000:17:00.0",
        "hns-0000:7d:00.0-aeq-0",
        "ionic-eth0-L0-adminq0",
        "eth0-event-5",
        "enp1s0-unused",
        "eth0-TxRx-",
        "eth0-TxRx-\u0661",
        "eth0-TxRx-1\n",
    ],
)
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
    assert irq_vectors.of(host, ADDRESS) == Vectors(
        (Vector(99, "eth0-TxRx-1", 1), Vector(100, "eth0-TxRx-0", 0))
    )


def test_an_interrupt_that_nobody_handles_is_none(host: Machine) -> None:
    add(host, 30)
    host.put(f"{irq_vectors.msi_folder(ADDRESS)}/31", "msix\n")  # not even a folder in /proc/irq
    assert irq_vectors.of(host, ADDRESS) == Vectors()


def test_where_no_name_says_a_queue_all_that_are_in_use_are_taken(host: Machine) -> None:
    add(host, 30, "strange")
    add(host, 31, "stranger")
    add(host, 32)
    found = irq_vectors.of(host, ADDRESS)
    assert found == Vectors((Vector(30, "strange", 0), Vector(31, "stranger", 1)), unnamed=True)


@pytest.mark.parametrize(
    "name",
    [
        "mlx5_async0@pci:0000:41:00.0",
        "mlx5_ctrl0@pci:0000:41:00.0",
        "mlx5_sf_ctrl0@pci:0000:41:00.0",
        "mlx5_pages_eq@pci:0000:41:00.0",
        "mlx4-async@pci:0000:41:00.0",
        "ice-0000:41:00.0:misc",
        "ice-0000:41:00.0:ll_ts",
        "ice-0000:41:00.0:ctrl-TxRx-0",
        "i40e-0000:41:00.0:fdir-TxRx-0",
        "iavf-0000:41:00.0:mbx",
        "virtio0-config",
        "ena-mgmnt@pci:0000:41:00.0",
        "eth0-mgmnt",
        "mana_hwc@pci:7870:00:00.0",
        "hclge-misc-0000:41:00.0",
        "irdma-0000:41:00.0-AEQ",
        "bnxt_re-creq@pci:0000:41:00.0",
        "hns-0000:41:00.0-aeq-0",
        "ionic-0000:41:00.0-adminq0",
    ],
)
def test_the_interrupts_of_a_nic_that_is_down_are_no_queues(host: Machine, name: str) -> None:
    """Drivers ask for those of the queues when the interface comes up (mlx5 since Linux 6.4, ice, ena)."""
    add(host, 30, name)
    assert irq_vectors.of(host, ADDRESS) == Vectors()


def test_a_device_without_msi_has_none(host: Machine) -> None:
    assert irq_vectors.of(host, ADDRESS) == Vectors()


def test_what_is_no_number_is_no_interrupt(host: Machine) -> None:
    add(host, 30, "eth0-TxRx-0")
    host.put(f"{irq_vectors.msi_folder(ADDRESS)}/power", "")
    assert [vector.irq for vector in irq_vectors.of(host, ADDRESS).queues] == [30]


def test_a_folder_that_cannot_be_read_is_told(host: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> list[str]:
        raise HostError("list", path, errno.EACCES)

    monkeypatch.setattr(host, "names", refuse)
    assert irq_vectors.of(host, ADDRESS).problem.startswith(f"cannot list {irq_vectors.msi_folder(ADDRESS)}")
