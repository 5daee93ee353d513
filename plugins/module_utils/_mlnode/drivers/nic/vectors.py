# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interrupts of a NIC, found below its device in sysfs.

Names in /proc/interrupts are not reliable: eth1 is a part of eth10, and mlx5 names no interface at all.
"""

from __future__ import annotations

import re

from ...host.host import Host
from ...model.errors import HostError
from ...model.record import NamedTuple, regex

#: Files of the kernel in /proc/irq/N; a driver may add a folder with its name there (kernel/irq/proc.c)
_OWN_FILES = frozenset(
    {
        "affinity_hint",
        "effective_affinity",
        "effective_affinity_list",
        "node",
        "smp_affinity",
        "smp_affinity_list",
        "spurious",
    }
)

#: Names of queue interrupts, as drivers give them to request_irq(); the number is the queue's. All others
#: (_CONTROL, and the bare name of igb and ixgbe) report link changes and errors, and are not moved.
_QUEUES = tuple(
    regex(pattern, re.ASCII)
    for pattern in (
        # igb igc ixgbe fbnic bnxt_en: eth0-TxRx-0, eth0-rx-0, eth0-tx-0. ice i40e iavf hns3: the driver in
        # front: ice-eth0-TxRx-0; their control queues are ice-0000:41:00.0:ctrl-TxRx-0, i40e-...:fdir-TxRx-0.
        r"(?!.*:(?:ctrl|fdir)-).*-(?:TxRx|rx|tx)-([0-9]+)\Z",
        r".*-(?:rxtx|txrx)-([0-9]+)\Z",  # vmxnet3 nfp octeontx2; tg3
        r".*-Tx-Rx-([0-9]+)\Z",  # ena
        r".*-fp-([0-9]+)\Z",  # qede bnx2x
        r"mlx5_(?:comp|combined)([0-9]+)@",
        r"mlx5_comp([0-9]+)\Z",  # before 4.11
        r"mlx4-(?:comp-)?([0-9]+)@",
        r"virtio[0-9]+-(?:input|output)\.([0-9]+)\Z",
        r"virtio[0-9]+-(virtqueues)\Z",  # All queues on one vector, if there are too few vectors
        r"gve-ntfy-blk([0-9]+)@",
        r".*-ntfy-block\.([0-9]+)\Z",  # gve before 6.4
        r"mana_q([0-9]+)@",
        r"ionic-.*-L[0-9]+-[rt]x([0-9]+)\Z",
        r"efa-comp([0-9]+)@",
        r"(?:irdma|sxe2rdma)-.*-(?:AEQ)?CEQ-([0-9]+)\Z",
        r"bnxt_re-nq-([0-9]+)@",
        r"bnxt_qplib_nq-([0-9]+)\Z",  # bnxt_re before 6.5
        r"hns-.*ceq-([0-9]+)\Z",
    )
)

#: Names that are certainly not queues. Many drivers request these when they find the NIC, and queue
#: interrupts only when the interface comes up. Until then no others exist.
_CONTROL = regex(
    r"mlx[45][_-](?!comp)[a-z]"  # mlx5_async0@, mlx5_ctrl0@, mlx4-async@, and mlx5_pages_eq@ before 5.0
    r"|virtio[0-9]+-(?:config|control)\Z"
    r"|(?:ena|efa|gve)-mgmnt|.*-mgmnt\Z"  # the latter is gve before 6.4
    r"|mana_hwc|hclge(?:vf)?-misc|hns-.*-aeq|bnxt_re-creq|bnxt_qplib_creq"
    r"|.*:(?:misc|mbx|ll_ts|ctrl|fdir)(?:-|\Z)"  # ice i40e iavf
    r"|ionic-.*-(?:adminq|notifyq)|(?:irdma|sxe2rdma)-.*-AEQ\Z",
    re.ASCII,
)


class Vector(NamedTuple):
    """One interrupt in use. queue: the queue number in its name, or else its position."""

    irq: int
    name: str
    queue: int


class Vectors(NamedTuple):
    """Interrupts of a function. unnamed: no name has a queue number, so all that may be queues are taken for
    queues.

    problem: why they are unknown.
    """

    queues: tuple[Vector, ...] = ()
    unnamed: bool = False
    problem: str = ""


def msi_folder(address: str) -> str:
    return f"/sys/bus/pci/devices/{address}/msi_irqs"


def queue_vectors(host: Host, address: str) -> Vectors:
    """The queue interrupts of a PCI function, in the order of their numbers."""
    named: list[tuple[int, str]] = []
    try:
        for irq in sorted(int(name) for name in host.names(msi_folder(address)) if _is_number(name)):
            # Without a folder it has no handler: the interface is down, or the driver keeps it as a spare.
            named += [(irq, name) for name in host.names(f"/proc/irq/{irq}") if name not in _OWN_FILES]
    except HostError as error:
        return Vectors(problem=str(error))
    queues = [
        Vector(irq, name, queue) for irq, name in named for queue in [queue_of(name)] if queue is not None
    ]
    if queues:
        return Vectors(tuple(queues))
    named = [(irq, name) for irq, name in named if not _CONTROL.match(name)]
    return Vectors(tuple(Vector(irq, name, at) for at, (irq, name) in enumerate(named)), bool(named))


def _is_number(name: str) -> bool:
    return bool(re.match(r"[0-9]{1,9}\Z", name, re.ASCII))


def queue_of(name: str) -> int | None:
    """The queue number in an interrupt's name, or None."""
    for pattern in _QUEUES:
        match = pattern.match(name)
        if match:
            return int(match.group(1)) if match.group(1).isdigit() else 0
    return None
