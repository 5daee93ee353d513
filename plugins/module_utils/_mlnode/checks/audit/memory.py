# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Committed, reserved and free memory: overcommit, pools of huge pages and their owners, NUMA nodes."""

from __future__ import annotations

import re
from typing import Iterator

from ...engine.kind import Facts
from ...host import mountinfo
from ...host.host import Host
from ...knobs.sysctl import info as sysctl
from ...model import values
from ...model.errors import HostError, listed
from ...model.record import regex
from ...model.setting import Severity, Value
from ...topology import numa
from ...topology.model import Topology
from ..model import Check, content
from .model import Looks, topic

_POOLS = "/sys/kernel/mm/hugepages"

OVERCOMMIT = topic(
    "overcommit",
    *sysctl.info("vm.overcommit_memory", Value()),
    "set vm.overcommit_memory to 0, unless a program asks for something else: the module sysctl_ml",
    "/proc/sys/vm/overcommit_memory",
)
HUGEPAGES = topic(
    "hugepages",
    Severity.LOW,
    "pages in a pool are lost to everything else, and needed by the program that they were reserved for",
    "admin-guide/mm/hugetlbpage.rst",
    source=_POOLS,
)
FREE = topic(
    "free_memory",
    Severity.LOW,
    "a process that is bound to a node which runs full gets the other one's memory, or is killed",
    "admin-guide/mm/numaperf.rst; numactl(8)",
)

_MODES = {"0": "0, by heuristics", "1": "1, always", "2": "2, never more than CommitLimit"}
_FOLDER = regex(r"hugepages-([0-9]{1,10})kB\Z", re.ASCII)
_PID = regex(r"[0-9]{1,10}\Z", re.ASCII)
#: A row of meminfo, of a node or the machine
_ROW = regex(r"^(?:Node [0-9]{1,6} )?([\w()]+): +([0-9]{1,20}) kB$", re.MULTILINE | re.ASCII)
_STATUS = regex(r"^(Name|HugetlbPages):\s+([^\n]*)", re.MULTILINE)
_GIB_IN_KB = 1 << 20
#: Start of a process's name → its product, if that is clearer than the name
_OWNERS = {"weka": "WEKA", "spdk": "SPDK", "nvmf_tgt": "SPDK", "dpdk": "DPDK", "ovs-vswitchd": "Open vSwitch"}
_MOST = 5


def _overcommit(host: Host, _topology: Topology) -> Check:
    """0 and 1 let programs reserve more than exists, as CUDA and data loaders do."""
    mode = content(host, OVERCOMMIT.source).strip()
    if mode not in _MODES:
        return OVERCOMMIT.unknown(f"{mode[:20]!r} is not 0, 1 or 2")
    promised = _promised(Facts(host)) if mode == "2" else ""
    return OVERCOMMIT.judged(mode != "2", f"{_MODES[mode]}{promised}", expected="0 or 1")


def _promised(facts: Facts) -> str:
    try:
        used, limit = facts.memory_kbytes("Committed_AS"), facts.memory_kbytes("CommitLimit")
    except HostError:
        return ""  # a detail only: how near the limit is
    return f": {used * 100 // limit} % of it is promised" if limit else ""


# -- huge pages ----------------------------------------------------------------------------


def _hugepages(host: Host, topology: Topology) -> Check:
    sizes = host.names(_POOLS)
    pools = [text for name in sizes for text in _pool(host, topology, name)]
    elsewhere = "" if sizes else _elsewhere(host)
    if elsewhere:
        return HUGEPAGES.unknown(f"{_POOLS} has no pool, but there is {elsewhere}")
    if not sizes:
        return HUGEPAGES.skip("this kernel has no pools of huge pages")
    if not pools:
        return HUGEPAGES.judged(True, "no pool is reserved", expected="none")
    evidence = "; ".join([*pools, _owners(host, topology)])
    return HUGEPAGES.skip(evidence, source=f"{_POOLS}; /proc/*/status; /proc/mounts")


def _elsewhere(host: Host) -> str:
    """Other evidence that the kernel has pools, as in a captured tree without their folder; "" if none."""
    folders = host.matching(f"{numa.NODES}/node*/hugepages")
    if folders:
        return folders[0]
    return "Hugepagesize of /proc/meminfo" if Facts(host).hugepage_kbytes() else ""


def _pool(host: Host, topology: Topology, name: str) -> Iterator[str]:
    match = _FOLDER.match(name)
    total = _count(host, f"{_POOLS}/{name}/nr_hugepages")
    if match is None or not total:
        return
    used = total - _count(host, f"{_POOLS}/{name}/free_hugepages")
    per_node = {
        node.number: _count(host, f"{numa.NODES}/node{node.number}/hugepages/{name}/nr_hugepages")
        for node in topology.nodes
    }
    nodes = f" (on node {', '.join(f'{node}: {pages}' for node, pages in per_node.items() if pages)})"
    size = int(match.group(1))
    yield (
        f"{total} page{'s' if total > 1 else ''} of {size} kB, {total * size / _GIB_IN_KB:.4g} GiB, "
        f"{used} in use{nodes if any(per_node.values()) else ''}"
    )


def _count(host: Host, path: str) -> int:
    """Number in a file; 0 if it does not exist. Raises HostError."""
    return values.number(host.text(path).strip()) or 0


def _owners(host: Host, topology: Topology) -> str:
    """Programs with mapped pages, and mounts of hugetlbfs; else programs that usually reserve a pool."""
    users: dict[str, int] = {}
    for pid in filter(_PID.match, host.names("/proc")):
        # A process may have ended, or belong to another user.
        fields = dict(_STATUS.findall(host.value(f"/proc/{pid}/status").text or ""))
        pages = values.number(fields.get("HugetlbPages", "").partition(" ")[0]) or 0
        if pages:
            name = fields.get("Name", "?")
            users[name] = users.get(name, 0) + pages
    largest = sorted(users.items(), key=lambda item: -item[1])
    shown = [f"{_named(name)} {size / _GIB_IN_KB:.4g} GiB" for name, size in largest]
    mounts = [
        mountinfo.plain(line.split()[1])
        for line in (host.value("/proc/mounts").text or "").splitlines()
        if len(line.split()) > 2 and line.split()[2] == "hugetlbfs"
    ]
    texts = [
        f"mapped by {listed(shown, _MOST)}" if shown else "no process that is visible here has any mapped",
        f"hugetlbfs at {listed(mounts, _MOST)}" if mounts else "hugetlbfs is not mounted",
    ]
    if not shown:
        efa = " (this node has EFA devices)" if any(device.driver == "efa" for device in topology.pci) else ""
        texts.append(f"such pools are made for DPDK, SPDK, WEKA and libfabric{efa}, which may not run yet")
    return "; ".join(texts)


def _named(name: str) -> str:
    owner = next((owner for start, owner in _OWNERS.items() if name.startswith(start)), "")
    return f"{name} ({owner})" if owner else name


# -- free memory -----------------------------------------------------------------------------


def _free(host: Host, topology: Topology) -> Check:
    """Reported only: the kernel gives back file cache on demand."""
    # Without NUMA there is one node, with the memory of the whole machine.
    alone = not host.exists(numa.NODES)
    source, texts = "/proc/meminfo" if alone else f"{numa.NODES}/node*/meminfo", []
    for node in topology.nodes:
        text = host.text(source if alone else f"{numa.NODES}/node{node.number}/meminfo")
        rows = {name: int(number) for name, number in _ROW.findall(text)}
        total, free = rows.get("MemTotal"), rows.get("MemFree")
        if total and free is not None:
            cache = rows.get("Cached" if alone else "FilePages", 0)
            texts.append(
                f"node {node.number}: {free / _GIB_IN_KB:.1f} of {total / _GIB_IN_KB:.1f} GiB free, "
                f"{cache / _GIB_IN_KB:.1f} GiB file cache"
            )
    if not texts:
        return FREE.skip("the kernel does not report the free memory of its NUMA nodes", source=source)
    return FREE.skip("; ".join(texts), source=source)


LOOKS: Looks = (((OVERCOMMIT,), _overcommit), ((HUGEPAGES,), _hugepages), ((FREE,), _free))
