# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Speed of each NUMA node's memory, measured from one core of that node.

mbw under numactl measures copies if both are installed; otherwise this process does. Its copy between two
mappings is one memcpy(3) of libc in either case.

sysbench under numactl measures random reads. Python cannot, because its interpreter takes longer than a
memory access. The result is not the latency of dependent loads, because sysbench's reads overlap.
"""

from __future__ import annotations

import mmap
import re
import statistics
import time
from typing import Any, Mapping, Sequence

from ..host.host import Host
from ..linux import jobs
from ..linux.perftest import running_on
from ..model import schema
from ..model.errors import HostError, RefusedError, listed
from ..model.record import NamedTuple, regex
from ..model.schema import Option, Table
from ..topology import hardware
from ..topology.model import Node
from ..topology.numa import NODES

MOUNTS = hardware.MOUNTS

#: Guards that `allow` may switch off
GUARDS = ("busy",)

OPTIONS: Table = {"allow": Option("list", elements="str", choices=GUARDS, default=[])}

#: Size of each array as a multiple of the cache (rule of STREAM, stream.c), and the assumed cache if its size
#: is unknown: the largest that one core reaches at present, 96 MiB
_CACHES = 4
_UNKNOWN_CACHE = 96 << 20

#: Share of the node's free memory for both arrays; the rest is for other programs
_SHARE = 0.25

#: Number of passes, whose median counts; about a second in total at 10 GB/s
_PASSES = 25
#: Seconds for sysbench
_SECONDS = 2
#: Seconds. A program that takes longer hangs: at 1 GB/s all passes take a few seconds
_MOST = 60

#: Share of the pages that must be on the node. A few pages of the interpreter may be elsewhere.
_LOCAL = 0.95

_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS

_SIZE = regex(r"([0-9]{1,9})K\Z", re.ASCII)
_FREE = regex(r"MemFree: +([0-9]{1,18}) kB", re.ASCII)
_PAGES = regex(r" N([0-9]{1,4})=([0-9]{1,18})", re.ASCII)
_MBW = regex(r"^AVG\s.*\bCopy: ([0-9.]{1,20}) MiB/s", re.MULTILINE | re.ASCII)
_SYSBENCH = regex(r"\(([0-9.]{1,20}) MiB/sec\)", re.ASCII)


class Speed(NamedTuple):
    """value: None if not measured, with the reason in `reason`. tool: the measuring program."""

    value: float | None
    tool: str = ""
    reason: str = ""


def answer(host: Host, given: Mapping[str, Any], dry: bool) -> dict[str, Any]:
    """Result of the module memory_bandwidth. Raises RefusedError, HostError."""
    return {"changed": False, "nodes": measure(host, given["allow"], dry=dry)}


def measure(host: Host, allow: Sequence[str], dry: bool = False) -> list[dict[str, Any]]:
    """`copied` in GB/s and `read` in ns for each NUMA node `node`. dry: only check the conditions.

    Raises RefusedError, and HostError if processes cannot be read.
    """
    running = [] if "busy" in allow else jobs.running(host)
    if running:
        reason = f"this takes a core and memory bandwidth from running jobs: {listed(running, 4)}"
        raise RefusedError(schema.unless_allowed("busy", reason, allow))
    if dry:
        return []
    known = hardware.topology(host)
    # If the kernel shows no nodes, node 0 is tried, and its result contains the reason.
    nodes = known.nodes or (Node(0),)
    return [_node(host, node, {*known.cpus.allowed}, len(nodes)) for node in nodes]


def _node(host: Host, node: Node, allowed: set[int], nodes: int) -> dict[str, Any]:
    problem = _unfit(host, node, allowed)
    if problem:
        copy = random = Speed(None, "", problem)
    else:
        size = array_size(host, node.cpus[0])
        with running_on(node.cpus):
            copy = _copy(host, node.number, size, nodes)
            random = _random(host, node.number, size)
    return {"node": node.number, "copied": copy._asdict(), "read": random._asdict()}


def _unfit(host: Host, node: Node, allowed: set[int]) -> str:
    if not node.cpus:
        return "no CPU of it is known"
    if not allowed.intersection(node.cpus):
        return "this process may use none of its CPUs"
    # A kernel without NUMA has only the second file.
    texts = (host.value(path).text for path in (f"{NODES}/node{node.number}/meminfo", "/proc/meminfo"))
    free = _FREE.search(next(filter(None, texts), ""))
    if free is None:
        return "how much of its memory is free cannot be read"
    needed = 2 * array_size(host, node.cpus[0])
    if needed > _SHARE * 1024 * int(free.group(1)):
        return f"{needed >> 20} MiB to measure in are more than a quarter of its free memory"
    return ""


def array_size(host: Host, cpu: int) -> int:
    """Bytes of one array, a whole number of MiB."""
    sizes = [host.value(path).text or "" for path in host.matching(
        f"/sys/devices/system/cpu/cpu{cpu}/cache/index*/size"
    )]  # fmt: skip
    known = [int(match.group(1)) << 10 for match in map(_SIZE.match, sizes) if match]
    whole = _CACHES * max(known, default=_UNKNOWN_CACHE)
    return -(-whole >> 20) << 20


# -- copies -------------------------------------------------------------------------------------------


def _copy(host: Host, node: int, size: int, nodes: int) -> Speed:
    said = _bound(host, node, ["mbw", "-q", "-t0", "-n", str(_PASSES), str(size >> 20)])
    if said is None:
        return probe(host, node, size, nodes)
    match = _MBW.search(said)
    if match is None:
        return Speed(None, "mbw", f"mbw printed no average: {said[:80]!r}")
    return Speed(float(match.group(1)) * (1 << 20) / 1e9, "numactl, mbw")


def probe(host: Host, node: int, size: int, nodes: int) -> Speed:
    """Measure copies in this process, on CPUs of the node, so that the kernel can place its memory there.

    With several nodes the placement is verified.
    """
    # Not shared, Python's default: shared mappings handle huge pages differently.
    source, target = (mmap.mmap(-1, size, flags=_PRIVATE) for _array in range(2))
    with source, target, memoryview(source) as there, memoryview(target) as here:
        # Pages that were never written all map to one page of zeros, which stays in the cache.
        chunk = b"\1" * (1 << 20)
        for at in range(0, size, len(chunk)):
            there[at : at + len(chunk)] = chunk
        here[:] = there
        elsewhere = _elsewhere(host, node) if nodes > 1 else ""
        if elsewhere:
            return Speed(None, "mlnode", elsewhere)
        return Speed(
            size / statistics.median(_timed(here, there) for _pass in range(_PASSES)) / 1e9, "mlnode"
        )


def _timed(target: memoryview, source: memoryview) -> float:
    begin = time.perf_counter()
    target[:] = source
    return time.perf_counter() - begin


def _elsewhere(host: Host, node: int) -> str:
    """Reason why the memory is on other nodes; "" if it is not. numa_maps in proc(5)."""
    text = host.value("/proc/self/numa_maps").text
    if text is None:
        return "where its memory is cannot be read: /proc/self/numa_maps"
    pages: dict[int, int] = {}
    for number, count in _PAGES.findall(text):
        pages[int(number)] = pages.get(int(number), 0) + int(count)
    part = pages.get(node, 0) / max(1, sum(pages.values()))
    return "" if part >= _LOCAL else f"{part:.0%} of the memory were on the node"


# -- random reads -------------------------------------------------------------------------------------


def _random(host: Host, node: int, size: int) -> Speed:
    words = ["sysbench", "memory", "--threads=1", "--memory-oper=read", "--memory-access-mode=rnd"]
    words += [f"--memory-block-size={size}", "--memory-total-size=1T", f"--time={_SECONDS}", "run"]
    said = _bound(host, node, words)
    if said is None:
        return Speed(None, "", "needs numactl and sysbench")
    match = _SYSBENCH.search(said)
    rate = float(match.group(1)) if match else 0.0
    if not rate:
        return Speed(None, "sysbench", f"sysbench printed no rate: {said[-80:]!r}")
    # A read has 8 bytes (size_t, sb_memory.c)
    return Speed(8e9 / (rate * (1 << 20)), "numactl, sysbench")


def _bound(host: Host, node: int, words: Sequence[str]) -> str | None:
    """Output of a program bound to a node's CPUs and memory; None if it or numactl is missing."""
    if not all(_is_installed(host, program) for program in ("numactl", words[0])):
        return None
    try:
        done = host.run(["numactl", f"--cpunodebind={node}", f"--membind={node}", *words], _MOST)
    except HostError as error:
        return str(error)
    return done.out if done.rc == 0 else done.err or done.out


def _is_installed(host: Host, program: str) -> bool:
    return any(host.is_executable(f"{folder}/{program}") for folder in ("/usr/bin", "/usr/local/bin", "/bin"))
