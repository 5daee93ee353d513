# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Isolated CPUs of a node, and the settings that isolate them: the kernel command line and cpusets."""

from __future__ import annotations

from typing import Iterable, Iterator

from ...engine.kind import Facts
from ...host.host import Host
from ...knobs.boot import isolation as boot_isolation
from ...linux import cpu_isolation, cpusets
from ...linux.cpu_isolation import DOMAIN, NOHZ, Given, Word
from ...linux.cpusets import Cpusets
from ...loader import boot_loader, cmdline
from ...model import cpulist, values
from ...model.errors import HostError
from ...model.record import NamedTuple
from ...topology.model import Topology
from ..model import content

CMDLINE, CPU_FOLDER = cmdline.COMMAND_LINE, "/sys/devices/system/cpu"
_KEYS = ("isolcpus", "nohz_full", "irqaffinity")
_TUNED = "/etc/tuned/bootcmdline"


class Taking(NamedTuple):
    """CPUs that one setting takes. where: file and line that set it, or the command line.

    balanced: the scheduler balances load among them.
    """

    words: str
    where: str
    cpus: frozenset[int]
    balanced: bool = False


class Isolation(NamedTuple):
    """ignored: settings without effect, with the kernel's reason and their place."""

    takings: tuple[Taking, ...]
    interrupts: tuple[Word, ...]
    ignored: tuple[tuple[str, str], ...]
    sets: Cpusets

    @property
    def taken(self) -> frozenset[int]:
        return frozenset(cpu for taking in self.takings for cpu in taking.cpus)

    @property
    def unbalanced(self) -> frozenset[int]:
        return frozenset(cpu for taking in self.takings if not taking.balanced for cpu in taking.cpus)

    def who(self, cpus: Iterable[int]) -> tuple[str, str]:
        """Settings that take any of these CPUs, in words, and the place of the first."""
        wanted = {*cpus}
        takings = [taking for taking in self.takings if taking.cpus & wanted]
        words = "; ".join(f"{taking.words} ({taking.where})" for taking in takings)
        return words, takings[0].where if takings else CMDLINE


def read(host: Host, topology: Topology) -> Isolation:
    """Raises HostError if a source is unreadable, so that isolation may be hidden; Nothing without a command
    line."""
    return host.once("isolation", lambda: _read(host, topology))


def _read(host: Host, topology: Topology) -> Isolation:
    cpus = topology.cpus
    blind = boot_isolation.unclear(topology, host) or ("" if cpus.present else "no CPU is visible")
    blind = blind or next((problem.what for problem in topology.problems if _hides(problem.path)), "")
    if blind:
        raise HostError("read", CPU_FOLDER, None, blind)
    given = _given(host, topology)
    sets = cpusets.look(host)
    takings = [*_of_boot(host, topology, given, sets), *_of_cpusets(sets)]
    ignored = [(f"{text}: {why}", where(host, text.partition("=")[0])) for text, why in given.ignored]
    ignored += [(f"{cpuset.kind} {cpuset.invalid}", cpuset.file) for cpuset in sets.taking if cpuset.invalid]
    irq_words = tuple(word for word in given.words if not word.flags)
    return Isolation(tuple(takings), irq_words, tuple(ignored), sets)


def _hides(path: str) -> bool:
    return path in (f"{CPU_FOLDER}/isolated", f"{CPU_FOLDER}/nohz_full")


def _given(host: Host, topology: Topology) -> Given:
    words = []
    for word in cmdline.split(content(host, CMDLINE)):
        value = word.text.strip('"').partition("=")[2].strip('"')
        words += [(word.key, value)] if word.key in _KEYS else []
    present = topology.cpus.present
    last = max(topology.cpus.possible or present)
    return cpu_isolation.read(words, present, last, values.kernel_version(Facts(host).kernel_release()))


def _of_boot(host: Host, topology: Topology, given: Given, sets: Cpusets) -> Iterator[Taking]:
    """Words that isolate, and CPUs that the kernel shows as isolated although no word names them."""
    present = frozenset(topology.cpus.present)
    for word in given.words:
        if {DOMAIN, NOHZ} & {*word.flags} and present & {*word.cpus}:
            yield Taking(word.text, where(host, word.key), present & {*word.cpus})
    of_sets = {cpu for cpuset in sets.taking for cpu in cpuset.cpus}
    for name, flag, shown in (
        ("isolated", DOMAIN, topology.cpus.isolated),
        ("nohz_full", NOHZ, topology.cpus.nohz_full),
    ):
        more = frozenset(shown) - given.cpus(flag) - of_sets
        if more:
            file = f"{CPU_FOLDER}/{name}"
            yield Taking("a setting that is not on the command line", file, more)


def _of_cpusets(sets: Cpusets) -> Iterator[Taking]:
    for cpuset in sets.taking:
        if cpuset.cpus and not cpuset.invalid:
            yield Taking(f"cpuset {cpuset.kind}", cpuset.file, frozenset(cpuset.cpus), cpuset.balanced)


def where(host: Host, key: str) -> str:
    """`file:line` of the boot loader or of tuned that names a parameter; else the command line."""
    lines = boot_loader.boot_sources(host, key)
    for number, line in enumerate(host.text(_TUNED).split("\n"), start=1):
        lines += [f"{_TUNED}:{number}: {line}"] if f"{key}=" in line and not line.startswith("#") else []
    # The generated menu comes first; the file to edit is the last one.
    return lines[-1].partition(": ")[0] if lines else CMDLINE


def reported(isolation: Isolation) -> str:
    parts = [
        f"{cpulist.named(taking.cpus)} by {taking.words} ({taking.where})" for taking in isolation.takings
    ]
    parts += [f"interrupts on {cpulist.named(word.cpus)} by {word.text}" for word in isolation.interrupts]
    return "; ".join(parts)
