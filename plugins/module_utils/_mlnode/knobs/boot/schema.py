# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area boot."""

from __future__ import annotations

from ...model.schema import Option, Table, cpus, guards
from ...model.setting import Severity

#: Names for `allow`, see boot.refusal()
GUARDS = ("housekeeping", "mitigations")

#: Work that isolated CPUs are kept free of
ISOLATED_FROM: Table = {
    "managed_irq": Option(
        "bool",
        """
        Keep interrupts that the kernel places by itself off these CPUs (C(isolcpus=managed_irq)).
        """,
        default=True,
    ),
    "domain": Option(
        "bool", "Take the CPUs out of the scheduler's balancing (C(isolcpus=domain)).", default=True
    ),
    "nohz_full": Option(
        "bool", "Stop the timer tick while one task alone runs (C(nohz_full)).", default=True
    ),
    "rcu_nocbs": Option("bool", "Do the CPUs' RCU callbacks elsewhere (C(rcu_nocbs)).", default=True),
    "irqaffinity": Option(
        "bool",
        "Send all other interrupts to the CPUs that are left over (C(irqaffinity)).",
        default=True,
    ),
}

OPTIONS: Table = {
    "parameters": Option(
        "dict",
        """
        Name and value. Names are written as the kernel does; C(-) and C(_) are the same to it.

        A number or text makes C(NAME=VALUE), V("") the bare C(NAME), and a list one word for each of its
        values in this order. Other words of this name are removed from the command line.

        V(null) leaves a parameter untouched.

        A YAML boolean is refused, as V(on) and V(off) without quotes are booleans to YAML and words to the
        kernel.

        A value may hold letters, digits and C(_.,:;=/@+%!~^-); everything else means something to a shell or
        to GRUB. A value with a semicolon, such as C(pci=config_acs=), is quoted for GRUB.

        C(console) has to be a list, as the order of its words counts.

        Parameters that find and start the system (C(root), C(rootflags), C(rootfstype), C(ro), C(rw),
        C(init), C(rdinit), C(initrd), C(BOOT_IMAGE)) cannot be declared, and neither can C(hugepagesz) and
        C(hugepages), whose relative order counts. See C(vm.nr_hugepages) of M(mlnode.tuning.sysctl_ml).

        C(iommu) takes V(auto) as well: C(iommu=pt), on arm64 C(iommu.passthrough=1), on bare metal with a GPU
        and an RDMA device. Elsewhere, and with arm-smmu-v3 before Linux 6.11, it is V(unsupported), with the
        reason.

        C(isolcpus), C(nohz_full), C(rcu_nocbs) and C(irqaffinity) take plain lists of CPUs such as
        V(2-31,34-63).
        """,
        default={},
        values=Option("raw", empty=True),
        parts=True,
        reason="a parameter that this node was declared to boot with",
        source="kernel-parameters.txt",
    ),
    "absent": Option(
        "list",
        "Names of parameters that must not be on the command line, with whatever value.",
        elements="str",
        default=[],
        parts=True,
        reason="a parameter that this node was declared to boot without",
        source="kernel-parameters.txt",
    ),
    "isolate": Option(
        "dict",
        """
        CPUs to keep free of all work that is not put there on purpose, for latency on serving nodes. Do not
        use it on training nodes.
        """,
        suboptions={
            "cpus": Option(
                "str",
                """
                The exact list, such as V(2-31,34-63). V(2,10) is two CPUs.

                At least two CPUs of each NUMA node, and CPU 0, have to be left over; see O(allow).
                """,
                required=True,
                form=cpus(),
            ),
            **ISOLATED_FROM,
        },
        severity=Severity.MEDIUM,
        reason="CPUs that serve requests are kept free of the scheduler, the tick, RCU and interrupts",
        source="kernel-parameters.txt",
    ),
    "allow": guards(
        GUARDS,
        """
        Guards to switch off. Without it a dangerous change is refused before anything is written.

        V(housekeeping) permits an isolation that leaves fewer than two CPUs of a NUMA node or takes CPU 0,
        other declarations included. V(mitigations) permits C(mitigations=off).
        """,
    ),
}
