# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind cpu: governor, energy preferences, boost and idle states (admin-guide/pm/).

No drop-in of the system can set these files, so the agent restores them at boot. Every setting is a rule for
CPUs, expanded here to the files of this node.
"""

from __future__ import annotations

from typing import Callable, Mapping, Sequence

from ...engine.kind import Context, Facts, Info, Kind
from ...host.host import Host
from ...model import cpulist, values
from ...model.record import NamedTuple
from ...model.schema import Checked, Option
from ...model.setting import KnobFile, Reading, Setting, Severity, Value
from ...model.values import same
from ..summary import Files
from . import boost, files
from . import parse as cpu_parse
from . import schema as own
from .node import LATER, WHOLE, Node, NoReadingError, Scope, subject

_READERS: Mapping[str, Callable[[Node, Scope, Mapping[str, str]], Files]] = {
    "governor": files.governor,
    "energy_performance_preference": files.preference,
    "energy_perf_bias": files.bias,
    "boost": boost.boost,
    "min_perf_pct": boost.percent,
    "max_latency_us": files.latency,
}


class _Look(NamedTuple):
    """Data shared by one run's settings. wanted: option → its declared value."""

    context: Context
    node: Node
    wanted: Mapping[str, str]


def _runtime(cpu_files: Files) -> Value:
    """State of all policies; unknown if any of them cannot be read."""
    if cpu_files.problems:
        return Value(unreadable="; ".join(cpu_files.problems))
    return Value(text=_summary(cpu_files, {part.path: _now(part) for part in cpu_files.parts}))


def _summary(cpu_files: Files, texts: Mapping[str, str]) -> str:
    """Values of the parts in these texts (path → value), as in a declaration; others are left out."""
    shown = {
        part.number: files.shown(part, texts[part.path]) for part in cpu_files.parts if part.path in texts
    }
    machine = shown.pop(WHOLE, None)
    each = values.grouped(shown)
    if machine is None or machine == each:
        return each
    return f"{machine} for the machine, {each} for its policies" if each else machine


def _now(part: KnobFile) -> str:
    return (
        f"{part.runtime} (moved by {part.moved})"
        if part.moved and same(part.runtime, part.want)
        else part.runtime
    )


def _blocked(cpu_files: Files, host: Host) -> str:
    return next((reason for part in cpu_files.parts for reason in [host.blocked(part.path)] if reason), "")


def _not_here(scope: Scope, node: Node) -> str:
    if not scope.missing:
        return ""
    here = cpulist.render(node.present)
    return f"{subject('CPU', scope.missing, 'is', 'are')} not on this machine, which has {here}"


def _left_out(scope: Scope) -> str:
    if not scope.offline:
        return ""
    left = subject("CPU", scope.offline, "is", "are")
    return f"{left} offline and left out: {LATER}"


#: Settings that change another one: if two declarations set them, the order of their names would decide. One
#: declaration sets them in the right order.
_MOVES = {"governor": "energy_performance_preference", "boost": "min_perf_pct"}


class CpuKind(Kind):
    KIND = cpu_parse.KIND
    OPTIONS = own.OPTIONS

    def parse(self, given: Checked, facts: Facts | None) -> list[Setting]:
        return cpu_parse.parse(given)

    def look(self, settings: Sequence[Setting], context: Context) -> _Look:
        wanted = {cpu_parse.split(setting.key)[0]: setting.want or "" for setting in settings}
        return _Look(context, Node(context.host), wanted)

    def read_one(self, setting: Setting, look: _Look) -> Reading:
        context, node, wanted = look
        boot = context.boot_by_agent(setting, setting.want)
        if not context.runtime:
            return Reading(setting.path, Value(), boot, setting.want)
        name, cpus = cpu_parse.split(setting.key)
        try:
            scope = node.scope(cpus)
            cpu_files = _READERS[name](node, scope, wanted)
        except NoReadingError as error:
            return Reading(setting.path, error.value, boot, setting.want, optional=error.optional)
        return Reading(
            path=cpu_files.path or setting.path,
            runtime=_runtime(cpu_files),
            boot=boot,
            want=setting.want,
            offered=cpu_files.offered,
            blocked=cpu_files.blocked or _blocked(cpu_files, context.host),
            invalid=_not_here(scope, node) or cpu_files.invalid,
            refusal=cpu_files.refusal,
            parts=tuple(cpu_files.parts),
            origin=_summary(cpu_files, context.origins) or None,
            note="; ".join(note for note in (_left_out(scope), *cpu_files.notes) if note),
        )

    def conflicts(self, key: str, other: str) -> bool:
        """True if both set one option of a CPU, or one changes the other there."""
        name, cpus = cpu_parse.split(key)
        their_name, their_cpus = cpu_parse.split(other)
        if key == other or (name != their_name and _MOVES.get(name) != their_name):
            return False
        return cpus is None or their_cpus is None or not set(cpus).isdisjoint(their_cpus)

    def boot_sources(self, key: str, host: Host) -> list[str]:
        """The governor of the kernel command line, which every policy starts with."""
        if cpu_parse.split(key)[0] != "governor":
            return []
        given = Facts(host).command_line("cpufreq.default_governor")
        return [f"/proc/cmdline: cpufreq.default_governor={value}" for value in given[-1:]]

    def option(self, key: str) -> Option:
        return self.OPTIONS[cpu_parse.split(key)[0]]

    def info(self, key: str, runtime: Value) -> Info:
        """Severity and reason; at run time, any governor other than performance has high severity."""
        info = super().info(key, runtime)
        slow = cpu_parse.split(key)[0] == "governor" and runtime.text not in (None, "performance")
        return info._replace(severity=Severity.HIGH) if slow else info


kind = CpuKind()
