# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPUs: present, online, and the threads of each core. Documentation/admin-guide/cputopology.rst."""

from __future__ import annotations

import re

from ..host.host import Host
from ..model import cpulist
from ..model.errors import HostError
from ..model.record import regex
from .model import Cpu, Cpus, Node
from .sysfs import Reader, integer

CPU = "/sys/devices/system/cpu"

#: The PMU folders of hybrid x86 (Documentation/admin-guide/perf: cpu_core, cpu_atom; cpu_lowpower since 6.13)
_PMUS = (("cpu_core", "performance"), ("cpu_atom", "efficiency"), ("cpu_lowpower", "efficiency"))

#: Firmware gives equal cores slightly unequal capacities, as on Grace. The scheduler takes less than 5 % for
#: no difference (kernel/sched/fair.c: capacity_greater), and so do we.
_MARGIN = 1078

#: The cgroup's own answer, version 2 and 1, which a container sees as the root of the tree
_CPUSETS = ("/sys/fs/cgroup/cpuset.cpus.effective", "/sys/fs/cgroup/cpuset/cpuset.effective_cpus")

_FOLDER = regex(r"cpu([0-9]{1,9})\Z", re.ASCII)


def online(reader: Reader) -> tuple[int, ...]:
    return _listed(reader, "online")


def _listed(reader: Reader, name: str) -> tuple[int, ...]:
    try:
        return by_folder(reader.host, name) or reader.cpus(f"{CPU}/{name}")
    except HostError as error:
        reader.note(error.path, str(error))
        return ()


def by_folder(host: Host, name: str) -> tuple[int, ...]:
    """CPUs of the list `online` or `present`, by folder, if a captured tree lacks the list; else empty.

    A CPU that cannot be taken offline has no file `online`, such as CPU 0 of most machines
    (core-api/cpu_hotplug.rst). Raises HostError.
    """
    if host.value(f"{CPU}/{name}").absent is None:
        return ()
    numbers = sorted(int(match[1]) for match in map(_FOLDER.match, host.names(CPU)) if match)
    return tuple(cpu for cpu in numbers if name == "present" or _awake(host, f"{CPU}/cpu{cpu}/online"))


def _awake(host: Host, path: str) -> bool:
    value = host.value(path)
    if value.unreadable is not None:
        raise HostError("read", path, None, value.unreadable)
    return (value.text or "").strip() != "0"


def read(reader: Reader, online: tuple[int, ...], nodes: tuple[Node, ...], in_container: bool) -> Cpus:
    """All CPUs. nodes: for the NUMA node of each."""
    possible = reader.cpus(f"{CPU}/possible")
    present = _listed(reader, "present") or online
    awake = {*online}
    return Cpus(
        all=_all(reader, present, awake, nodes),
        possible=possible,
        present=present,
        online=online,
        offline=tuple(cpu for cpu in present if cpu not in awake),
        # Both came late (4.2, 4.1), and the second only with CONFIG_NO_HZ_FULL: missing means none.
        isolated=reader.cpus(f"{CPU}/isolated", needed=False),
        nohz_full=reader.cpus(f"{CPU}/nohz_full", needed=False),
        allowed=_allowed(reader, online) if in_container else online,
    )


def _all(
    reader: Reader, present: tuple[int, ...], awake: set[int], nodes: tuple[Node, ...]
) -> tuple[Cpu, ...]:
    node_of = {cpu: node.number for node in nodes for cpu in node.cpus}
    kinds = _kinds(reader, [cpu for cpu in present if cpu in awake])
    cpus, silent = [], []
    for number in present:
        if number not in awake:
            cpus.append(Cpu(number, online=False))
            continue
        folder = f"{CPU}/cpu{number}/topology"
        siblings = _siblings(reader, folder)
        if number not in siblings:
            silent.append(number)
            siblings = ()
        cpus.append(
            Cpu(
                number,
                online=True,
                package=_identity(reader, f"{folder}/physical_package_id"),
                core=_identity(reader, f"{folder}/core_id"),
                node=node_of.get(number),
                siblings=siblings,
                kind=kinds.get(number, ""),
            )
        )
    if silent:
        # One line instead of hundreds: if one CPU lacks the file, usually all do.
        path = f"{CPU}/cpu{silent[0]}/topology/thread_siblings_list"
        reader.note(
            path, f"{path}: the kernel does not say which core CPU {cpulist.render(silent)} belongs to"
        )
    return tuple(cpus)


def _siblings(reader: Reader, folder: str) -> tuple[int, ...]:
    try:
        return cpulist.parse(reader.quiet(f"{folder}/thread_siblings_list"))
    except ValueError:
        return ()


def _identity(reader: Reader, path: str) -> int | None:
    """-1 is the kernel's word for unknown."""
    number = integer(reader.quiet(path))
    return number if number is not None and number >= 0 else None


def _kinds(reader: Reader, online: list[int]) -> dict[int, str]:
    """Kinds of core on a hybrid machine; empty on any other."""
    kinds: dict[int, str] = {}
    for name, kind in _PMUS:
        kinds.update((cpu, kind) for cpu in reader.cpus(f"/sys/devices/{name}/cpus", needed=False))
    if kinds:
        return kinds if len(set(kinds.values())) > 1 else {}
    return _by_capacity(reader, online)


def _by_capacity(reader: Reader, online: list[int]) -> dict[int, str]:
    """On arm64 the biggest cores have most of it (Documentation/scheduler/sched-capacity.rst)."""
    if not online or reader.number(f"{CPU}/cpu{online[0]}/cpu_capacity", needed=False) is None:
        return {}
    capacities = {cpu: reader.number(f"{CPU}/cpu{cpu}/cpu_capacity") for cpu in online}
    known = {cpu: number for cpu, number in capacities.items() if number is not None}
    most = max(known.values(), default=0)
    small = {cpu for cpu, number in known.items() if number * _MARGIN < most * 1024}
    return {cpu: "efficiency" if cpu in small else "performance" for cpu in known} if small else {}


def _allowed(reader: Reader, online: tuple[int, ...]) -> tuple[int, ...]:
    for path in _CPUSETS:
        allowed = reader.cpus(path, needed=False)
        if allowed:
            return tuple(cpu for cpu in online if cpu in {*allowed})
    reader.note(
        _CPUSETS[0], f"{_CPUSETS[0]} does not exist, so the CPUs that this container may use are unknown"
    )
    return online
