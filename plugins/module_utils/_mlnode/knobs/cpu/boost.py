# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boost, which has three different files, and min_perf_pct, which changes with it.

intel_pstate/no_turbo controls the whole machine, inverted. Other drivers have cpufreq/boost, and since Linux
6.7 a file for each policy as well. The global file sets all of these, and while it is off they reject writes
(drivers/cpufreq/cpufreq.c: cpufreq_boost_trigger_state, store_local_boost).
"""

from __future__ import annotations

from typing import Mapping

from ...model import values
from ...model.setting import KnobFile, Write
from ..summary import Files
from .node import WHOLE, Node, Policy, Scope, absent
from .parse import CPUFREQ, PSTATE

_NO_TURBO = f"{PSTATE}/no_turbo"
_MIN_PCT = f"{PSTATE}/min_perf_pct"
_MAX_PCT = f"{PSTATE}/max_perf_pct"
_BOOST = f"{CPUFREQ}/boost"
_NO_BOOST = "the driver or the processor has no boost, or the firmware hides it"


def boost(node: Node, scope: Scope, wanted: Mapping[str, str]) -> Files:
    """The switch that this driver has."""
    want = wanted["boost"]
    if node.value(_NO_TURBO).absent is not None:
        return _everywhere(node, scope, want) if scope.whole else _some(node, scope, want)
    if scope.whole:
        return _no_turbo(node, want)
    raise absent(f"{_NO_TURBO} is one switch for the whole machine: declare boost without cpus")


def _no_turbo(node: Node, want: str) -> Files:
    now = node.text(_NO_TURBO)
    undo = [Write(_NO_TURBO, now)]
    least = node.value(_MIN_PCT).text
    if least:  # The kernel lowers it with boost
        undo.append(Write(_MIN_PCT, least))
    part = KnobFile(WHOLE, _NO_TURBO, now, "0" if want == "on" else "1", tuple(undo), owner=_NO_TURBO)
    if want == "on" and now == "1" and not _has_turbo(node):
        off = "the firmware has switched boost off (no flag `ida` in /proc/cpuinfo): switch it on there"
        part = part._replace(answer=off)
    return Files(parts=[part], path=_NO_TURBO)


def _has_turbo(node: Node) -> bool:
    """False if the processor's registers disable turbo, as the kernel would then answer EPERM.

    Source: Intel SDM volume 3, IA32_MISC_ENABLE[38] clears CPUID.06H:EAX[1].
    """
    return not node.flags or "ida" in node.flags


def _everywhere(node: Node, scope: Scope, want: str) -> Files:
    """The machine's switch, and each policy's switch in case it differs."""
    policies = node.policies_of(scope)
    known = [policy for policy in policies if node.value(_own(policy)).absent is None]
    common = node.value(_BOOST).absent is None
    if not common and len(known) < len(policies):
        raise absent(f"{_BOOST} does not exist: {_NO_BOOST}")
    if not common:
        parts = [_switch(node, policy, want) for policy in known]
        return Files(parts=parts, path=f"{CPUFREQ}/policy*/boost")
    first = Write(_BOOST, node.text(_BOOST))
    parts = [_switch(node, policy, want, (first,)) for policy in known]
    # A write to the machine's file sets all policies. To restore it, write back those that were different.
    others = [Write(part.path, part.runtime) for part in parts if part.runtime != first.value]
    wanted = "1" if want == "on" else "0"
    machine = KnobFile(WHOLE, _BOOST, first.value, wanted, (first, *others), owner=_BOOST)
    # Policies accept a write only while the machine's switch is on.
    parts = [machine, *parts] if want == "on" else [*parts, machine]
    return Files(parts=parts, path=_BOOST)


def _some(node: Node, scope: Scope, want: str) -> Files:
    """The switches of policies only."""
    policies = node.policies_of(scope)
    paths = {policy.number: _own(policy) for policy in policies}
    common = node.value(_BOOST)
    why = "it is one switch for the whole machine, so declare it without cpus"
    node.texts(scope, paths, "policy", _NO_BOOST if common.absent is not None else why)
    parts = [_switch(node, policy, want) for policy in policies]
    refusal = ""
    if common.text == "0":
        refusal = f"{_BOOST} is 0, and no policy takes a write before it is 1: declare boost without cpus"
    return Files(parts=parts, path=f"{CPUFREQ}/policy*/boost", refusal=refusal)


def _own(policy: Policy) -> str:
    return f"{policy.path}/boost"


def _switch(node: Node, policy: Policy, want: str, before: tuple[Write, ...] = ()) -> KnobFile:
    path = _own(policy)
    now, wanted = node.text(path), "1" if want == "on" else "0"
    undo = (*before, Write(path, now))
    return KnobFile(policy.number, path, now, wanted, undo, owner=path, cpus=policy.cpus)


def percent(node: Node, _scope: Scope, wanted: Mapping[str, str]) -> Files:
    """intel_pstate/min_perf_pct, which the kernel clamps silently."""
    if node.value(_MIN_PCT).absent is not None:
        reason = "intel_pstate alone has it, and not with intel_pstate=per_cpu_perf_limits"
        raise absent(f"{_MIN_PCT} does not exist: {reason}")
    want, now = wanted["min_perf_pct"], node.text(_MIN_PCT)
    undo = (Write(_MIN_PCT, now),)
    moved = "boost" if wanted.get("boost") == "off" and node.value(_NO_TURBO).text == "0" else ""
    most = values.number(node.value(_MAX_PCT).text)
    refusal = ""
    if most is not None and most < int(want):
        refusal = f"{_MAX_PCT} is {most}, and the kernel takes no more for the least: raise it first"
    part = KnobFile(
        WHOLE,
        _MIN_PCT,
        now,
        want,
        undo,
        owner=_MIN_PCT,
        moved=moved,
        mover=Write(_NO_TURBO, "1"),
        rounds=True,
    )
    return Files(parts=[part], path=_MIN_PCT, refusal=refusal)
