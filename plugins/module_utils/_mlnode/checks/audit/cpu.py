# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPUs and memory: clocks, threads, who is offline, and whether each NUMA node has its share of memory."""

from __future__ import annotations

import re
from typing import Iterator, Sequence

from ...host.host import Host
from ...knobs.cpu import files as cpu_files
from ...knobs.cpu import node as cpu_node
from ...knobs.cpu import parse as cpu_parse
from ...knobs.cpu.kind import kind as cpu_knobs
from ...knobs.cpu.schema import OPTIONS
from ...model import cpulist, values
from ...model.errors import HostError
from ...model.record import replace
from ...model.setting import Severity, Value
from ...topology import numa
from ...topology.model import Topology
from . import model
from .model import AuditCheck, Topic

GOVERNOR = Topic(
    "governor",
    *cpu_knobs.info("cpu.governor", Value("powersave")),
    "set it to performance: the module cpu_governor",
)
BIAS = Topic(
    "energy_perf_bias",
    *cpu_knobs.info("cpu.energy_perf_bias", Value("6")),
    "set energy_perf_bias to 0: the module cpu_governor",
)
CLOCK = Topic(
    "cpu_frequency",
    Severity.MEDIUM,
    "a limit below what the CPU can do makes every core slower, and one such node the whole job",
    "admin-guide/pm/cpufreq.rst (scaling_max_freq)",
    "raise scaling_max_freq, and find what lowered it: thermald, a power cap, a profile of tuned",
)
SMT = Topic(
    "smt",
    Severity.LOW,
    "two threads share a core: more throughput, and less even times for one thread",
    "admin-guide/cputopology.rst",
)
OFFLINE = Topic(
    "cpus_offline",
    Severity.MEDIUM,
    "cores that were paid for do nothing, and their share of cache and memory bandwidth is used from afar",
    "core-api/cpu_hotplug.rst",
    "look for maxcpus=, nr_cpus= and nosmt on the kernel command line, and in the firmware's setup",
)
NODE_MEMORY = Topic(
    "node_memory",
    Severity.HIGH,
    "each access of these CPUs goes to another socket: half the bandwidth, twice the latency",
    "admin-guide/mm/numaperf.rst",
    "look at the memory modules of that socket: missing, in the wrong slot, or given up by the firmware",
)
EVEN = Topic(
    "memory_even",
    Severity.MEDIUM,
    "a node with less memory has fewer channels or runs full first, and its jobs use the other socket's",
    "admin-guide/mm/numaperf.rst",
    "compare the memory modules of the sockets: one may be missing or given up by the firmware",
)
EDAC = Topic(
    "memory_errors",
    Severity.HIGH,
    "errors that cannot be corrected kill processes or the machine; corrected ones announce them",
    "admin-guide/RAS/main.rst",
    "find the module with ras-mc-ctl --errors or dmesg (EDAC), drain the node and replace it",
)

_TOPICS = (GOVERNOR, BIAS, CLOCK, SMT, OFFLINE, NODE_MEMORY, EVEN, EDAC)
NAMES = tuple(topic.name for topic in _TOPICS)

_CPUFREQ = "/sys/devices/system/cpu/cpufreq"
_SMT = "/sys/devices/system/cpu/smt/control"
_CPUS = "/sys/devices/system/cpu"
_CONTROLLERS = "/sys/devices/system/edac/mc"
#: intel_epb.c: ENERGY_PERF_BIAS_PERFORMANCE
_BEST_BIAS = "0"
#: The kernel keeps some of each node for itself, and most of it of the first
_SHARE = 0.9


def checks(host: Host, topology: Topology) -> Iterator[AuditCheck]:
    yield _governor(host)
    yield _bias(host)
    yield _clock(host)
    control = host.value(_SMT).text or ""
    yield _smt(topology, control.strip())
    yield _offline(topology, control.strip())
    yield from _memory(topology)
    yield _errors(host)


def _governor(host: Host) -> AuditCheck:
    try:
        paths = host.matching(f"{_CPUFREQ}/policy*/scaling_governor")
    except HostError as error:
        return model.unknown(GOVERNOR, str(error), _CPUFREQ)
    if not paths:
        return _unclocked(host, GOVERNOR)
    now: dict[int, str] = {}
    for path in paths:
        match = re.search(r"/policy([0-9]{1,6})/", path, re.ASCII)
        value = host.value(path)
        if value.unreadable is not None:
            return model.unknown(GOVERNOR, value.unreadable, path)
        # A policy without a CPU that is online has no governor.
        if match and value.text and value.text.strip():
            now[int(match.group(1))] = value.text.strip()
    good = bool(now) and set(now.values()) == {"performance"}
    source = f"{_CPUFREQ}/policy*/scaling_governor"
    if not now:
        return model.unknown(GOVERNOR, "no policy shows its governor", source)
    return model.judged(GOVERNOR, good, values.grouped(now), source, "performance")


def _bias(host: Host) -> AuditCheck:
    """By the files that the knob would write."""
    source = f"{cpu_parse.CPU}/{OPTIONS['energy_perf_bias'].file}"
    node = cpu_node.Node(host)
    try:
        found = cpu_files.bias(node, node.scope(None), {"energy_perf_bias": _BEST_BIAS})
    except cpu_node.NoReadingError as error:
        return model.missing(BIAS, error.value, source)
    good = all(part.runtime == part.want for part in found.parts)
    now = values.grouped({part.number: part.runtime for part in found.parts})
    words = "; ".join([now, *found.notes])
    return model.judged(BIAS, good, words, source, f"{_BEST_BIAS} (performance)")


def _unclocked(host: Host, topic: Topic) -> AuditCheck:
    """Check of a machine on which no policy shows its clock."""
    try:
        bare = cpu_node.without_policies(host)
    except HostError as error:
        return model.unknown(topic, str(error), _CPUS)
    if bare:
        return model.unknown(topic, bare, _CPUS)
    return model.told(topic, "no CPU has a clock that this kernel can change", _CPUFREQ)


def _clock(host: Host) -> AuditCheck:
    """Now is one moment, and an idle core shows its lowest."""
    source = f"{_CPUFREQ}/policy*/scaling_{{cur,min,max}}_freq"
    try:
        folders = [path.rpartition("/")[0] for path in host.matching(f"{_CPUFREQ}/policy*/scaling_max_freq")]
    except HostError as error:
        return model.unknown(CLOCK, str(error), _CPUFREQ)
    if not folders:
        return _unclocked(host, CLOCK)
    read: dict[str, list[int | None]] = {"able": [_able(host, folder) for folder in folders]}
    for kind in ("cur", "min", "max"):
        limits = [host.value(f"{folder}/scaling_{kind}_freq") for folder in folders]
        problem = next((limit.unreadable for limit in limits if limit.unreadable is not None), None)
        if problem is not None and kind == "max":
            return model.unknown(CLOCK, problem, source)
        read[kind] = [values.number(limit.text) for limit in limits]
    found = (
        f"now {_span(read['cur'])}, limits {_span(read['min'])} and {_span(read['max'])}, "
        f"CPU maximum {_span(read['able'])}"
    )
    # A policy without a CPU that is online has neither.
    pairs = [(most, able) for most, able in zip(read["max"], read["able"]) if most and able]
    if not pairs:
        return model.unknown(CLOCK, found, source)
    capped = any(most < able for most, able in pairs)
    return model.judged(CLOCK, not capped, found, source, "scaling_max_freq at the CPU's maximum")


def _able(host: Host, folder: str) -> int | None:
    """The highest clock that can be set: of a table, as acpi-cpufreq has it, the greatest entry, since
    cpuinfo_max_freq may be that of the boost (drivers/cpufreq/acpi-cpufreq.c: get_max_boost_ratio)."""
    table = [
        number
        for word in (host.value(f"{folder}/scaling_available_frequencies").text or "").split()
        for number in [values.number(word)]
        if number is not None
    ]
    return max(table) if table else values.number(host.value(f"{folder}/cpuinfo_max_freq").text)


def _span(kilohertz: Sequence[int | None]) -> str:
    known = [number / 1e6 for number in kilohertz if number is not None]
    if not known:
        return "not known"
    low, high = f"{min(known):.2f}", f"{max(known):.2f}"
    return f"{low} GHz" if low == high else f"{low} to {high} GHz"


def _smt(topology: Topology, control: str) -> AuditCheck:
    count = topology.cpus.smt
    threads = f"{count} thread{'s' if count > 1 else ''} per core" if count else "the kernel does not say"
    return model.told(SMT, f"{threads}, control {control}" if control else threads, _SMT)


def _offline(topology: Topology, control: str) -> AuditCheck:
    offline, source = topology.cpus.offline, f"{_CPUS}/online"
    if not topology.cpus.online:
        return model.unknown(OFFLINE, "the kernel does not say which CPUs are online", source)
    text = cpulist.render(offline) or "none"
    # No CPU that has this switch has more than two threads to a core (x86, POWER's is a number).
    if offline and control in ("off", "forceoff") and len(offline) <= len(topology.cpus.online):
        return model.told(OFFLINE, f"{text}, as second threads are switched off", source)
    return model.judged(OFFLINE, not offline, text, source, "none")


def _memory(topology: Topology) -> Iterator[AuditCheck]:
    nodes, source = numa.with_cpus(topology.nodes), f"{numa.NODES}/node*/meminfo"
    if len(nodes) < 2:
        for topic in (NODE_MEMORY, EVEN):
            yield model.told(topic, "there are not two NUMA nodes with CPUs", numa.NODES)
        return
    sizes = {node.number: node.memory_kbytes for node in nodes}
    silent = [number for number, size in sizes.items() if size is None]
    if silent:
        why = f"node {cpulist.render(silent)} does not report its memory"
        yield model.unknown(NODE_MEMORY, why, source)
        yield model.unknown(EVEN, why, source)
        return
    known = {number: size or 0 for number, size in sizes.items()}
    empty = [number for number, size in known.items() if size == 0]
    found = f"node {cpulist.render(empty)} has none" if empty else "each node has some"
    yield model.judged(NODE_MEMORY, not empty, found, source, "memory at each node with CPUs")
    amounts = values.grouped({number: _amount(size) for number, size in known.items()})
    even = min(known.values()) >= _SHARE * max(known.values())
    yield model.judged(EVEN, even, amounts, source, "the same at each node with CPUs")


def _amount(kbytes: int) -> str:
    return f"{kbytes / (1 << 20):.1f} GiB" if kbytes >= 1 << 20 else f"{kbytes / (1 << 10):.0f} MiB"


def _errors(host: Host) -> AuditCheck:
    source = f"{_CONTROLLERS}/mc*/{{ce,ue}}_count"
    corrected = uncorrected = 0
    try:
        controllers = [name for name in host.names(_CONTROLLERS) if re.match(r"mc[0-9]+\Z", name, re.ASCII)]
    except HostError as error:
        return model.unknown(EDAC, str(error), source)
    if not controllers:
        why = "no EDAC driver counts errors: it is a machine without ECC, or its firmware keeps them"
        return model.told(EDAC, why, _CONTROLLERS)
    for name in controllers:
        for file in ("ce_count", "ue_count"):
            path = f"{_CONTROLLERS}/{name}/{file}"
            value = host.value(path)
            text = (value.text or "").strip()
            if not re.match(r"[0-9]{1,20}\Z", text, re.ASCII):
                return model.unknown(EDAC, value.problem or f"{path}: {text[:60]!r} is not a number", path)
            corrected += int(text) if file == "ce_count" else 0
            uncorrected += int(text) if file == "ue_count" else 0
    found = f"{uncorrected} not corrected, {corrected} corrected since boot"
    # Corrected errors are harmless so far.
    topic = EDAC if uncorrected else replace(EDAC, severity=Severity.MEDIUM)
    return model.judged(topic, not (uncorrected or corrected), found, source, "none")
