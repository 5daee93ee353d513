# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPUs kept free of the system's own work: the parameters that name them, and what must be left over.

Sources: admin-guide/kernel-parameters.txt (isolcpus, nohz_full, rcu_nocbs, irqaffinity) and
kernel/sched/isolation.c.
"""

from __future__ import annotations

from typing import Iterable, Sequence

from ...host.host import Host
from ...loader import cmdline
from ...model import cpulist
from ...topology.model import Cpus, Topology

#: Parameters that name CPUs, and the kernel option that each one requires
PARAMETERS = {
    "isolcpus": "CONFIG_CPU_ISOLATION",
    "nohz_full": "CONFIG_NO_HZ_FULL",
    "rcu_nocbs": "CONFIG_RCU_NOCB_CPU",
    "irqaffinity": "CONFIG_SMP",
}
#: Parameters that take CPUs away from all other work
TAKING = ("isolcpus", "nohz_full")
_FLAGS = ("nohz", "domain", "managed_irq")

#: drivers/base/cpu.c: this file is there if, and only if, CONFIG_NO_HZ_FULL is
_NOHZ_FULL_FILE = "/sys/devices/system/cpu/nohz_full"
_CPU_FOLDER = "/sys/devices/system/cpu"
_NODE_FOLDER = "/sys/devices/system/node"

#: A rule of this collection: one CPU for the interrupts of the node's devices, and one for its kernel threads
#: and daemons. Neither has to wait for the other.
_LEAST = 2


def named(key: str, value: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Flags and CPUs of `managed_irq,domain,2-31`, sorted. Raises ValueError for anything else."""
    parts = value.split(",")
    flags = []
    while key == "isolcpus" and parts and parts[0] in _FLAGS:
        flags.append(parts.pop(0))
    cpus = cpulist.parse(",".join(parts))
    if not cpus:
        raise ValueError("no CPU is named")
    return tuple(sorted(flags)), cpus


def alike(words: Iterable[str], want: Iterable[str]) -> bool:
    """True if both mean the same: 2,3 and 2-3 are the same CPUs, flags have no order, and a
    repetition in the same words adds nothing."""
    now, aim = [_meaning(word) for word in words], [_meaning(word) for word in want]
    return now == aim * max(1, len(now) // max(1, len(aim)))


def _meaning(word: str) -> object:
    name, equals, value = word.partition("=")
    key = cmdline.key_of(name)
    if key in PARAMETERS and equals:
        try:
            return key, named(key, value)
        except ValueError:  # The kernel takes all, N and 1-63:2/4 as well; these compare only as text
            pass
    return key, equals, value


def taken(words: Iterable[str]) -> tuple[int, ...]:
    """All CPUs that these words take away from ordinary work."""
    cpus: set[int] = set()
    for word in words:
        name, _equals, value = word.partition("=")
        if cmdline.key_of(name) in TAKING:
            cpus.update(named(cmdline.key_of(name), value)[1])
    return tuple(sorted(cpus))


def unclear(topology: Topology, host: Host) -> str:
    """Reason why the machine's CPUs and their nodes are unknown; empty if they are known."""
    with_nodes = host.exists(_NODE_FOLDER)  # a kernel may be built without them
    for problem in topology.problems:
        folder, _slash, file = problem.path.rpartition("/")
        if folder == _CPU_FOLDER and file in ("present", "online"):
            return problem.what
        if with_nodes and folder.startswith(_NODE_FOLDER) and file in ("online", "cpulist"):
            return problem.what
    return ""


def rest(cpus: Sequence[int], known: Cpus) -> tuple[int, ...]:
    """All CPUs of the machine but these."""
    return tuple(cpu for cpu in known.present if cpu not in set(cpus))


def missing(cpus: Sequence[int], known: Cpus) -> str:
    """Words about CPUs that this machine lacks; empty if it has all of them."""
    strange = cpulist.render(set(cpus) - set(known.present))
    if not strange:
        return ""
    many = "s" if strange.strip("0123456789") else ""
    verb = "are" if many else "is"
    return f"CPU{many} {strange} {verb} not on this machine, which has {cpulist.render(known.present)}"


def too_few_left(cpus: Sequence[int], topology: Topology) -> str:
    """Reason why isolating these leaves too little for all other work; empty if enough is left."""
    isolated = set(cpus)
    reasons = ["CPU 0, on which the kernel keeps time, would be isolated"] if 0 in isolated else []
    nodes = [(f"NUMA node {node.number}", node.cpus) for node in topology.nodes if node.cpus]
    for name, all_cpus in nodes or [("this machine", topology.cpus.online)]:
        left = [cpu for cpu in all_cpus if cpu not in isolated]
        # A node that has so few CPUs and loses none of them is not the declaration's fault.
        if len(left) < _LEAST and len(left) < len(all_cpus):
            reasons.append(f"{name} would keep {len(left)} of its CPUs {cpulist.render(all_cpus)}")
    if not reasons:
        return ""
    return (
        f"{'; '.join(reasons)}: at least {_LEAST} on each node, and CPU 0, have to be left for all other work"
    )


def split_cores(cpus: Sequence[int], known: Cpus) -> str:
    """Words about cores with only some threads isolated; empty if there are none."""
    isolated = set(cpus)
    mixed = [
        cpu
        for group in known.threads
        if isolated.intersection(group) and not isolated.issuperset(group)
        for cpu in group
    ]
    if not mixed:
        return ""
    return f"CPUs {cpulist.render(mixed)} share cores between isolated and other work: isolate whole cores"


def lacking(key: str, host: Host, release: str) -> str:
    """Reason why this kernel lacks a parameter of PARAMETERS; empty if it has it, or if that is unknown."""
    option = PARAMETERS[key]
    if key == "nohz_full" and host.exists(_CPU_FOLDER) and not host.exists(_NOHZ_FULL_FILE):
        return (
            f"this kernel is built without {option}, as {_NOHZ_FULL_FILE} does not exist: it ignores {key}="
        )
    path = f"/boot/config-{release}"
    config = host.value(path).text if release else None
    if config is None or "CONFIG_" not in config or f"\n{option}=y\n" in f"\n{config}\n":
        return ""
    return f"this kernel is built without {option}, as {path} says: it ignores {key}="
