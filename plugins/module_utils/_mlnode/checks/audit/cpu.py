# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPUs and memory: clocks, threads, offline CPUs, and the memory of each NUMA node."""

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
from ...model.record import replace
from ...model.setting import Severity, Value
from ...topology import numa
from ...topology.model import Topology
from ..model import Check, Nothing, Subject
from .model import Looks, topic

_CPUS = "/sys/devices/system/cpu"
_CPUFREQ = f"{_CPUS}/cpufreq"
_CONTROLLERS = "/sys/devices/system/edac/mc"
_MEMINFO = f"{numa.NODES}/node*/meminfo"

GOVERNOR = topic(
    "governor",
    *cpu_knobs.info("cpu.governor", Value("powersave")),
    "set it to performance: the module cpu_governor",
    f"{_CPUFREQ}/policy*/scaling_governor",
)
BIAS = topic(
    "energy_perf_bias",
    *cpu_knobs.info("cpu.energy_perf_bias", Value("6")),
    "set energy_perf_bias to 0: the module cpu_governor",
    f"{cpu_parse.CPU}/{OPTIONS['energy_perf_bias'].file}",
)
CLOCK = topic(
    "cpu_frequency",
    Severity.MEDIUM,
    "a limit below the CPU's maximum makes every core slower, and one such node the whole job",
    "admin-guide/pm/cpufreq.rst (scaling_max_freq)",
    "raise scaling_max_freq, and find what lowered it: thermald, a power cap, a profile of tuned",
    f"{_CPUFREQ}/policy*/scaling_{{cur,min,max}}_freq",
)
SMT = topic(
    "smt",
    Severity.LOW,
    "two threads share a core: more throughput, and less even times for one thread",
    "admin-guide/cputopology.rst",
    source=f"{_CPUS}/smt/control",
)
OFFLINE = topic(
    "cpus_offline",
    Severity.MEDIUM,
    "cores that were paid for do nothing, and their share of cache and memory bandwidth is used from afar",
    "core-api/cpu_hotplug.rst",
    "look for maxcpus=, nr_cpus= and nosmt on the kernel command line, and in the firmware's setup",
    f"{_CPUS}/online",
)
NODE_MEMORY = topic(
    "node_memory",
    Severity.HIGH,
    "each access of these CPUs goes to another socket: half the bandwidth, twice the latency",
    "admin-guide/mm/numaperf.rst",
    "look at the memory modules of that socket: missing, in the wrong slot, or given up by the firmware",
    _MEMINFO,
)
EVEN = topic(
    "memory_even",
    Severity.MEDIUM,
    "a node with less memory has fewer channels or runs full first, and its jobs use the other socket's",
    "admin-guide/mm/numaperf.rst",
    "compare the memory modules of the sockets: one may be missing or given up by the firmware",
    _MEMINFO,
)
EDAC = topic(
    "memory_errors",
    Severity.HIGH,
    "errors that cannot be corrected kill processes or the machine; corrected ones announce them",
    "admin-guide/RAS/main.rst",
    "find the module with ras-mc-ctl --errors or dmesg (EDAC), drain the node and replace it",
    f"{_CONTROLLERS}/mc*/{{ce,ue}}_count",
)

#: intel_epb.c: ENERGY_PERF_BIAS_PERFORMANCE
_BEST_BIAS = "0"
#: The kernel reserves part of each node's memory, and most of it on the first node
_SHARE = 0.9


def _governor(host: Host, _topology: Topology) -> Check:
    paths = host.matching(f"{_CPUFREQ}/policy*/scaling_governor")
    if not paths:
        return _unclocked(host, GOVERNOR)
    now: dict[int, str] = {}
    for path in paths:
        match = re.search(r"/policy([0-9]{1,6})/", path, re.ASCII)
        governor = host.text(path).strip()
        # A policy without an online CPU has no governor.
        if match and governor:
            now[int(match.group(1))] = governor
    if not now:
        return GOVERNOR.unknown("no policy shows its governor")
    good = set(now.values()) == {"performance"}
    return GOVERNOR.judged(good, values.grouped(now), expected="performance")


def _bias(host: Host, _topology: Topology) -> Check:
    """Compares the files that the knob would write."""
    node = cpu_node.Node(host)
    try:
        files = cpu_files.bias(node, node.scope(None), {"energy_perf_bias": _BEST_BIAS})
    except cpu_node.NoReadingError as error:
        why = error.value.problem
        return BIAS.skip(why) if error.optional else BIAS.unknown(why)
    good = all(part.runtime == part.want for part in files.parts)
    now = values.grouped({part.number: part.runtime for part in files.parts})
    words = "; ".join([now, *files.notes])
    if good and files.notes:
        return BIAS.unknown(words)
    return BIAS.judged(good, words, expected=f"{_BEST_BIAS} (performance)")


def _unclocked(host: Host, subject: Subject) -> Check:
    """Check of a machine without a policy that shows its clock."""
    bare = cpu_node.without_policies(host)
    if bare:
        return subject.unknown(bare, source=_CPUS)
    return subject.skip("no CPU has a clock that this kernel can change", source=_CPUFREQ)


def _clock(host: Host, _topology: Topology) -> Check:
    """Judges the limit only: the current clock is a snapshot, and an idle core shows its lowest."""
    folders = [path.rpartition("/")[0] for path in host.matching(f"{_CPUFREQ}/policy*/scaling_max_freq")]
    if not folders:
        return _unclocked(host, CLOCK)
    read: dict[str, list[int | None]] = {"able": [_able(host, folder) for folder in folders]}
    for kind in ("cur", "min", "max"):
        limits = [host.value(f"{folder}/scaling_{kind}_freq") for folder in folders]
        problem = next((limit.unreadable for limit in limits if limit.unreadable is not None), None)
        if problem is not None and kind == "max":
            return CLOCK.unknown(problem)
        read[kind] = [values.number(limit.text) for limit in limits]
    evidence = (
        f"now {_span(read['cur'])}, limits {_span(read['min'])} and {_span(read['max'])}, "
        f"CPU maximum {_span(read['able'])}"
    )
    # A policy without an online CPU has neither.
    pairs = [(most, able) for most, able in zip(read["max"], read["able"]) if most and able]
    if not pairs:
        return CLOCK.unknown(evidence)
    capped = any(most < able for most, able in pairs)
    return CLOCK.judged(not capped, evidence, expected="scaling_max_freq at the CPU's maximum")


def _able(host: Host, folder: str) -> int | None:
    """The highest clock that can be set, in kHz.

    With a table, as from acpi-cpufreq, it is the greatest entry: cpuinfo_max_freq may be the boost's clock
    (drivers/cpufreq/acpi-cpufreq.c: get_max_boost_ratio).
    """
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


def _threads(host: Host, topology: Topology) -> Iterator[Check]:
    control, count = (host.value(SMT.source).text or "").strip(), topology.cpus.smt
    threads = f"{count} thread{'s' if count > 1 else ''} per core" if count else "the kernel does not say"
    yield SMT.skip(f"{threads}, control {control}" if control else threads)
    yield _offline(topology, control)


def _offline(topology: Topology, control: str) -> Check:
    offline = topology.cpus.offline
    if not topology.cpus.online:
        return OFFLINE.unknown("the kernel does not say which CPUs are online")
    text = cpulist.render(offline) or "none"
    # CPUs with this switch have at most two threads per core (x86; POWER's switch is a number).
    if offline and control in ("off", "forceoff") and len(offline) <= len(topology.cpus.online):
        return OFFLINE.skip(f"{text}, as second threads are switched off")
    return OFFLINE.judged(not offline, text, expected="none")


def _memory(_host: Host, topology: Topology) -> Iterator[Check]:
    nodes = numa.with_cpus(topology.nodes)
    if len(nodes) < 2:
        raise Nothing("there are not two NUMA nodes with CPUs", numa.NODES)
    sizes = {node.number: node.memory_kbytes for node in nodes}
    silent = [number for number, size in sizes.items() if size is None]
    if silent:
        why = f"node {cpulist.render(silent)} does not report its memory"
        yield from (NODE_MEMORY.unknown(why), EVEN.unknown(why))
        return
    known = {number: size or 0 for number, size in sizes.items()}
    empty = [number for number, size in known.items() if size == 0]
    evidence = f"node {cpulist.render(empty)} has none" if empty else "each node has some"
    yield NODE_MEMORY.judged(not empty, evidence, expected="memory at each node with CPUs")
    amounts = values.grouped({number: values.size(size << 10) for number, size in known.items()})
    even = min(known.values()) >= _SHARE * max(known.values())
    yield EVEN.judged(even, amounts, expected="the same at each node with CPUs")


def _errors(host: Host, _topology: Topology) -> Check:
    controllers = [name for name in host.names(_CONTROLLERS) if re.match(r"mc[0-9]+\Z", name, re.ASCII)]
    if not controllers:
        why = "no EDAC driver counts errors: it is a machine without ECC, or its firmware keeps them"
        return EDAC.skip(why, source=_CONTROLLERS)
    counts = {"ce_count": 0, "ue_count": 0}
    for name in controllers:
        for file in counts:
            path = f"{_CONTROLLERS}/{name}/{file}"
            value = host.value(path)
            text = (value.text or "").strip()
            if not re.match(r"[0-9]{1,20}\Z", text, re.ASCII):
                return EDAC.unknown(value.problem or f"{path}: {text[:60]!r} is not a number", source=path)
            counts[file] += int(text)
    corrected, uncorrected = counts.values()
    evidence = f"{uncorrected} not corrected, {corrected} corrected since boot"
    # Corrected errors do no harm yet.
    subject = EDAC if uncorrected else replace(EDAC, severity=Severity.MEDIUM)
    return subject.judged(not (uncorrected or corrected), evidence, expected="none")


LOOKS: Looks = (
    ((GOVERNOR,), _governor),
    ((BIAS,), _bias),
    ((CLOCK,), _clock),
    ((SMT, OFFLINE), _threads),
    ((NODE_MEMORY, EVEN), _memory),
    ((EDAC,), _errors),
)
