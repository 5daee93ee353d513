# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All kinds of knob, in the order in which they are applied: for the agent and the drift check.

A module imports its own kind only, so that its payload stays small.
"""

from __future__ import annotations

from .kind import Kind
from .knobs import boot, cpu, gpu, irq, limits, modules, nccl, nic, qos, rail, services, sysctl, thp

#: Services before all that they move: tuned puts back what it has set when it is stopped.
#: Modules next, as others set what is theirs, and limits after sysctl, whose fs.nr_open bounds them.
#: THP before sysctl: a change of `enabled` makes the kernel recompute vm.min_free_kbytes.
#: Rails after the sysctl of all interfaces, which counts for each of them, and after a NIC's MTU.
#: QoS after a NIC's rings and MTU, and interrupts after all that changes queues, as ice renews them for QoS.
#: NCCL after QoS, whose traffic class it takes. What waits for a boot has time until the end.
KINDS: dict[str, Kind] = {
    kind.KIND: kind
    for kind in (services, modules, thp, sysctl, limits, cpu, gpu, nic, rail, qos, irq, nccl, boot)
}

#: What is applied again when a NIC arrives or changes its queues
ON_ARRIVAL = (nic.KIND, rail.KIND, qos.KIND, irq.KIND, nccl.KIND)
