# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area irq."""

from __future__ import annotations

from ...model.schema import Option, Table, cpus, guards
from ...model.setting import Severity
from ..nics.schema import name, nics, rules

STRATEGIES = ("spread", "housekeeping", "list")
IRQBALANCE = ("agree", "leave", "disable")

#: Name for `allow` → changes that it permits
GUARDS = {"isolated_cpus": "interrupts on CPUs that isolcpus or nohz_full keep free"}

#: The kernel rounds both tables up to a power of two and takes no more than this for the global one
#: (net/core/sysctl_net_core.c: rps_sock_flow_sysctl)
MAX_FLOWS = 1 << 29

#: The CPUs of RPS or XPS
_STEERING = cpus("off", "auto")

OPTIONS: Table = {
    "rules": rules(
        """
        NICs and CPUs for their interrupts. A rule without a strategy, C(rps), C(xps) or C(rfs_entries) is
        refused.

        Two rules may match the same NIC only with the same values.
        """,
        {
            "name": name("C(irq.NAME), C(irq.NAME.rps), C(irq.NAME.xps) and C(irq.NAME.rfs)"),
            "nics": nics(
                "Interfaces, such as V(eth0).",
                """
                NICs of the rule. A NIC must match each given list; without a list, the rule is for all
                physical NICs.

                Virtual functions match only by name, address, PCI id or RDMA device.

                Bonds, bridges and VLANs have no interrupts themselves.

                If no NIC matches, the status is V(unsupported), and the reason lists the NICs of the node.
                """,
            ),
            "strategy": Option(
                "str",
                """
                V(spread) gives each queue a physical core of the NIC's own NUMA node, one after the other,
                and starts over if there are more queues than cores. Second threads of a core are not used.
                NICs of one node begin at different cores, in the order of their PCI addresses.

                V(housekeeping) uses a few CPUs of the NIC's NUMA node and leaves all others alone. They are
                the first four physical cores of each socket, shared out among its nodes, with one more for
                each 128 queues of a node's NICs; or those in O(rules[].cpus).

                V(list) uses exactly the CPUs in O(rules[].cpus), whatever the NUMA node.

                Unset leaves interrupts on their CPUs.
                """,
                choices=STRATEGIES,
                file="/proc/irq/*/smp_affinity_list",
                severity=Severity.MEDIUM,
                reason="an interrupt on a core far from the NIC, or on a busy one, delays every packet of "
                "its queue",
                source="core-api/irq/irq-affinity.rst",
            ),
            "cpus": Option(
                "str",
                """
                CPUs as the kernel writes them, such as V(0-3,64). For strategies V(list) and
                V(housekeeping).
                """,
                joined="strategy",
                form=cpus(),
            ),
            "rps": Option(
                "raw",
                """
                Receive packet steering. V(auto) lets the CPUs of the NIC's NUMA node take over packets if
                there are fewer receive queues than physical cores. Otherwise, or if that node is unknown, it
                switches RPS off.

                A list of CPUs, or V(off). The kernel takes no isolated CPU here.
                """,
                form=_STEERING,
                file="/sys/class/net/*/queues/rx-*/rps_cpus",
                reason="with fewer queues than cores, other cores can take packets over",
                source="scaling.rst",
            ),
            "xps": Option(
                "raw",
                """
                Transmit packet steering. V(auto) gives each core one transmit queue. A core of the NIC's own
                NUMA node gets the queue whose interrupt V(spread) puts there; the other cores get the
                following queues. A list of CPUs applies to every queue. V(off) leaves the choice to the
                kernel's hash.

                A NIC with one transmit queue has no such choice.
                """,
                form=_STEERING,
                file="/sys/class/net/*/queues/tx-*/xps_cpus",
                reason="a core with its own queue does not wait for the queue's lock",
                source="scaling.rst",
            ),
            "rfs_entries": Option(
                "int",
                """
                Receive flow steering for so many flows of each NIC, a power of two; V(0) switches it off. A
                good start is 32768. Each receive queue gets its share.

                The table for the whole machine, C(net.core.rps_sock_flow_entries), is raised to this number
                if it is smaller, and never lowered. A smaller value in M(mlnode.tuning.sysctl_ml) is refused.
                """,
                least=0,
                most=MAX_FLOWS,
                key="rfs",
                file="/sys/class/net/*/queues/rx-*/rps_flow_cnt",
                reason="packets go to the core on which their program runs",
                source="scaling.rst",
            ),
        },
    ),
    "irqbalance": Option(
        "str",
        """
        V(agree) makes irqbalance leave alone the interrupts that this declaration rules, by a policy script
        and one marked block in its own file of arguments. All others are balanced as before. It is
        restarted only when something of this has changed.

        V(disable) stops it, and the next boot does not start it.

        V(leave) touches nothing. If irqbalance is active, the status is V(overridden).

        If it is not installed, V(agree) and V(disable) are met.
        """,
        choices=IRQBALANCE,
        severity=Severity.MEDIUM,
        reason="irqbalance moves interrupts every 10 s",
        source="irqbalance(1)",
    ),
    "allow": guards(
        GUARDS,
        """
        Guards to switch off. V(isolated_cpus) lets interrupts arrive on CPUs that C(isolcpus) or
        C(nohz_full) keep free.
        """,
    ),
}
