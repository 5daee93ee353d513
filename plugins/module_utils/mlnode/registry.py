# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All kinds of knob, in the order in which they are applied: for the agent and the drift check.

A module imports its own kind only, so that its payload stays small.
"""

from __future__ import annotations

from .kind import Kind
from .knobs import boot, cpu, irq, nccl, nic, qos, sysctl, thp

#: THP before sysctl: a change of `enabled` makes the kernel recompute vm.min_free_kbytes.
#: QoS after a NIC's rings and MTU, and interrupts after all that changes queues, as ice renews them for QoS.
#: NCCL after QoS, whose traffic class it takes. What waits for a boot has time until the end.
KINDS: dict[str, Kind] = {kind.KIND: kind for kind in (thp, sysctl, cpu, nic, qos, irq, nccl, boot)}

#: What is applied again when a NIC arrives or changes its queues
ON_ARRIVAL = (nic.KIND, qos.KIND, irq.KIND, nccl.KIND)
