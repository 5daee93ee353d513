# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Isolated CPUs of a node, and the settings that isolate them: the kernel command line and cpusets."""

from __future__ import annotations

from typing import Iterable, Iterator, Sequence

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
    """ignored: settings without effect, with the kernel's reason and their place. when: of a later time, as
    the end of a target."""

    takings: tuple[Taking, ...]
    interrupts: tuple[Word, ...]
    ignored: tuple[tuple[str, str], ...]
    sets: Cpusets
    when: str = ""

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


#: End of the targets of checks about planned()
NEXT_BOOT = " after the next boot"


def planned(host: Host, topology: Topology) -> Isolation | None:
    """Isolation by the boot loader's words for the next boot; None if they are the running ones, and if the
    loader is not on this machine. Cpusets are made after the boot, and are not foreseen. Raises HostError if
    the words of the next boot are not known."""
    return host.once("isolation after the next boot", lambda: _planned(host, topology))


def _planned(host: Host, topology: Topology) -> Isolation | None:
    loader = boot_loader.find(host)
    if loader.unreadable:
        raise HostError("read", "the boot loader", None, loader.unreadable)
    kernels = (loader.default.entry,) if loader.default.entry else loader.entries
    lines = {tuple(_words(entry.command_line)): entry.where for entry in kernels}
    if len(lines) > 1:
        raise HostError("foresee", " and ".join(lines.values()), None, "they isolate different CPUs")
    if loader.default.astray or {*lines} <= {tuple(_words(content(host, CMDLINE)))}:
        return None
    [words] = lines
    given = _given(host, topology, words)
    takings = (*_of_words(host, topology, given),)
    return Isolation(takings, _of_interrupts(given), (*_ignored(host, given),), Cpusets((), ()), NEXT_BOOT)


def _read(host: Host, topology: Topology) -> Isolation:
    cpus = topology.cpus
    blind = boot_isolation.unclear(topology, host) or ("" if cpus.present else "no CPU is visible")
    blind = blind or next((problem.what for problem in topology.problems if _hides(problem.path)), "")
    if blind:
        raise HostError("read", CPU_FOLDER, None, blind)
    given = _without_nohz(host, _given(host, topology, _words(content(host, CMDLINE))))
    sets = cpusets.look(host)
    takings = [*_of_boot(host, topology, given, sets), *_of_cpusets(sets)]
    ignored = [*_ignored(host, given)]
    ignored += [(f"{cpuset.kind} {cpuset.invalid}", cpuset.file) for cpuset in sets.taking if cpuset.invalid]
    return Isolation(tuple(takings), _of_interrupts(given), tuple(ignored), sets)


def _ignored(host: Host, given: Given) -> Iterator[tuple[str, str]]:
    for text, why in given.ignored:
        yield f"{text}: {why}", where(host, text.partition("=")[0])


def _of_interrupts(given: Given) -> tuple[Word, ...]:
    return tuple(word for word in given.words if not word.flags)


def _hides(path: str) -> bool:
    return path in (f"{CPU_FOLDER}/isolated", f"{CPU_FOLDER}/nohz_full")


def _words(line: str) -> list[tuple[str, str]]:
    """Parameters that isolate, with their values."""
    words = []
    for word in cmdline.split(line):
        value = word.text.strip('"').partition("=")[2].strip('"')
        words += [(word.key, value)] if word.key in _KEYS else []
    return words


def _given(host: Host, topology: Topology, words: Sequence[tuple[str, str]]) -> Given:
    present = topology.cpus.present
    last = max(topology.cpus.possible or present)
    return cpu_isolation.read(words, present, last, values.kernel_version(Facts(host).kernel_release()))


def _without_nohz(host: Host, given: Given) -> Given:
    """A running kernel without CONFIG_NO_HZ_FULL ignores all words with this flag (housekeeping_setup)."""
    why = boot_isolation.lacking("nohz_full", host, Facts(host).kernel_release())
    if not why:
        return given
    ignored = [(word.text, why) for word in given.words if NOHZ in word.flags]
    return Given(tuple(word for word in given.words if NOHZ not in word.flags), (*given.ignored, *ignored))


def _of_boot(host: Host, topology: Topology, given: Given, sets: Cpusets) -> Iterator[Taking]:
    """Words that isolate, and CPUs that the kernel shows as isolated although no word names them."""
    yield from _of_words(host, topology, given)
    of_sets = {cpu for cpuset in sets.taking for cpu in cpuset.cpus}
    for name, flag, shown in (
        ("isolated", DOMAIN, topology.cpus.isolated),
        ("nohz_full", NOHZ, topology.cpus.nohz_full),
    ):
        more = frozenset(shown) - given.cpus(flag) - of_sets
        if more:
            file = f"{CPU_FOLDER}/{name}"
            yield Taking("a setting that is not on the command line", file, more)


def _of_words(host: Host, topology: Topology, given: Given) -> Iterator[Taking]:
    present = frozenset(topology.cpus.present)
    for word in given.words:
        if {DOMAIN, NOHZ} & {*word.flags} and present & {*word.cpus}:
            yield Taking(word.text, where(host, word.key), present & {*word.cpus})


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
