# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Governor, energy preferences, idle states: the files of each policy or CPU, and obstacles to a write."""

from __future__ import annotations

from typing import Mapping, Sequence

from ...model import cpulist
from ...model.setting import KnobFile, Value, Write
from ...model.values import by_key
from ..summary import Files
from .node import Node, NoReadingError, Policy, Scope, subject
from .parse import CPU
from .schema import UNLIMITED

_PERFORMANCE = "performance"
#: Drivers that choose the frequency themselves: performance is more than a governor with them, as it takes
#: the preference with it (intel_pstate.c: intel_pstate_hwp_set; amd-pstate.c: amd_pstate_epp_set_policy)
_ACTIVE = ("intel_pstate", "amd-pstate-epp")
#: The kernel's own governors; each may be a module cpufreq_NAME (drivers/cpufreq/Kconfig)
_GOVERNORS = ("conservative", "ondemand", "performance", "powersave", "schedutil", "userspace")
#: drivers/cpufreq/intel_pstate.c and amd-pstate.c: energy_perf_strings
_PREFERENCES = ("default", "performance", "balance_performance", "balance_power", "power")
#: The kernel's word for: no idle state with any latency (Documentation/ABI/testing/sysfs-devices-power)
_NO_LATENCY = "n/a"


def governor(node: Node, scope: Scope, wanted: Mapping[str, str]) -> Files:
    """scaling_governor of every policy. Policies of hybrid processors may offer different governors."""
    want = wanted["governor"]
    policies, problems = node.readable(node.policies_of(scope), "scaling_governor")
    parts, offers = [], {}
    for policy in policies:
        path = f"{policy.path}/scaling_governor"
        undo = (Write(path, node.text(path)), *_preference_now(node, policy))
        parts.append(KnobFile(policy.number, path, node.text(path), want, undo, owner=path, cpus=policy.cpus))
        offers[policy.number] = _words(node, f"{policy.path}/scaling_available_governors")
    advice = ""
    if want in _GOVERNORS and not any(_is_active(node, policy) for policy in policies):
        advice = f"if it is a module, load cpufreq_{want} first"
    return Files(
        parts=_offered(parts, want, offers, advice),
        offered=_common(offers),
        invalid=_misspelt(want, offers, _GOVERNORS),
        refusal=_divided(policies, scope),
        problems=problems,
        notes=_notes(node.bare(scope)),
    )


def _notes(*words: str) -> list[str]:
    return [text for text in words if text]


def _preference_now(node: Node, policy: Policy) -> tuple[Write, ...]:
    """The write of the present preference, which a change of governor moves and a change back does not."""
    path = f"{policy.path}/energy_performance_preference"
    now = node.value(path).text
    return (Write(path, now),) if now else ()


def preference(node: Node, scope: Scope, wanted: Mapping[str, str]) -> Files:
    """energy_performance_preference of every policy.

    With the governor performance, an active driver accepts only the preference performance, and answers EBUSY
    to others (intel_pstate.c: intel_pstate_set_energy_pref_index).
    """
    want, declared = wanted["energy_performance_preference"], wanted.get("governor")
    policies, problems = node.readable(node.policies_of(scope), "energy_performance_preference")
    paths = {policy.number: f"{policy.path}/energy_performance_preference" for policy in policies}
    lacking = f"the driver {_driver(node, policies)} does not have it"
    texts = node.texts(scope, paths, "policy", lacking)
    parts, busy, offers = [], [], {}
    for policy in (policy for policy in policies if policy.number in texts):
        path, now = paths[policy.number], texts[policy.number]
        undo: tuple[Write, ...] = (Write(path, now),)
        ruled, moved, mover = False, "", None
        if _is_active(node, policy):
            ruling = f"{policy.path}/scaling_governor"
            ruled = node.text(ruling) == _PERFORMANCE
            if declared in (None, _PERFORMANCE):  # Under performance, no other preference can be restored
                undo = (Write(ruling, node.text(ruling)), *undo)
            elif ruled:  # The governor will change: the kernel then restores another preference by itself
                moved, mover = "the governor", Write(ruling, declared)
            if want != _PERFORMANCE and (declared == _PERFORMANCE or (ruled and declared is None)):
                busy.append(policy.number)
        if not ruled:  # amd-pstate offers one word only while it is ruled
            offers[policy.number] = _words(node, f"{policy.path}/energy_performance_available_preferences")
        part = KnobFile(policy.number, path, now, want, undo, owner=path, cpus=policy.cpus)
        parts.append(part._replace(moved=moved, mover=mover))
    invalid = ""
    if not want.isdecimal():
        parts = _offered(parts, want, offers)
        invalid = _misspelt(want, offers, _PREFERENCES)
    refusal = _divided(policies, scope)
    if busy and declared is None:
        words = _busy(busy, "declare another governor with it")
        if not refusal:  # Refuse these alone; the others are set
            parts = [part._replace(refusal=words) if part.number in busy else part for part in parts]
        refusal = refusal or words
    elif busy:
        invalid = _busy(busy, "declare powersave, which is dynamic there, or the preference performance")
    return Files(
        parts=parts,
        offered=_common(offers),
        invalid=invalid,
        refusal=refusal,
        problems=problems,
        notes=_notes(node.bare(scope), node.lacks(paths, "policy", lacking)),
    )


def _busy(policies: Sequence[int], advice: str) -> str:
    return (
        f"{subject('policy', policies, 'takes', 'take')} no other preference than performance under the "
        f"governor performance (EBUSY): {advice}"
    )


def bias(node: Node, scope: Scope, wanted: Mapping[str, str]) -> Files:
    """energy_perf_bias of every CPU; the kernel takes words and prints numbers. Only Intel's processors have
    it; a profile may declare it for all.
    """
    paths = {cpu: f"{CPU}/cpu{cpu}/power/energy_perf_bias" for cpu in scope.cpus}
    why = "the processor does not know it, or the hypervisor hides it"
    if node.have_none(paths):
        known = "epb" in (node.flags or ())
        why = "the processor knows it, and Linux shows it since 5.2" if known else why
        optional = node.flags is not None and not known
        raise NoReadingError(Value(absent=node.lacks(paths, "CPU", why)), optional)
    texts = node.texts(scope, paths, "CPU", why)
    return Files(
        parts=_own(paths, texts, wanted["energy_perf_bias"]), notes=_notes(node.lacks(paths, "CPU", why))
    )


def latency(node: Node, scope: Scope, wanted: Mapping[str, str]) -> Files:
    """pm_qos_resume_latency_us of every CPU: 0 means no limit, and n/a means a limit of 0."""
    paths = {cpu: f"{CPU}/cpu{cpu}/power/pm_qos_resume_latency_us" for cpu in scope.cpus}
    why = "this kernel is built without power management"
    texts = node.texts(scope, paths, "CPU", why)
    want = wanted["max_latency_us"]
    want = {"0": _NO_LATENCY, UNLIMITED: "0"}.get(want, want)
    driver = node.value(f"{CPU}/cpuidle/current_driver")
    idle = driver.absent is None and driver.text != "none"
    nothing = "" if idle else "no cpuidle driver is loaded: there are no idle states to limit"
    return Files(parts=_own(paths, texts, want), notes=_notes(nothing, node.lacks(paths, "CPU", why)))


#: Name of a file → the kernel's text → as in a declaration
_SHOWN: Mapping[str, Mapping[str, str]] = {
    "no_turbo": {"0": "on", "1": "off"},
    "boost": {"1": "on", "0": "off"},
    "pm_qos_resume_latency_us": {_NO_LATENCY: "0", "0": UNLIMITED},
}


def shown(part: KnobFile, text: str) -> str:
    """A text of the kernel as in a declaration."""
    return _SHOWN.get(part.path.rpartition("/")[2], {}).get(text, text)


def _own(paths: Mapping[int, str], texts: Mapping[int, str], want: str) -> list[KnobFile]:
    """Files that change nothing but themselves."""
    return [
        KnobFile(cpu, paths[cpu], now, want, (Write(paths[cpu], now),), owner=paths[cpu], cpus=(cpu,))
        for cpu, now in texts.items()
    ]


def _driver(node: Node, policies: Sequence[Policy]) -> str:
    return ", ".join(dict.fromkeys(node.text(f"{policy.path}/scaling_driver") for policy in policies))


def _is_active(node: Node, policy: Policy) -> bool:
    return node.text(f"{policy.path}/scaling_driver") in _ACTIVE


def _words(node: Node, path: str) -> tuple[str, ...]:
    """Values that a policy offers; empty if it lists none."""
    return tuple((node.value(path).text or "").split())


def _misspelt(want: str, offers: Mapping[int, tuple[str, ...]], known: Sequence[str]) -> str:
    """Error for a word that no policy offers and no kernel knows, which is a mistake on any machine."""
    words = dict.fromkeys(word for offered in offers.values() for word in offered)
    if not words or want in words or want in known:
        return ""
    return f"no CPU here offers {want!r}, but {', '.join(words)}, and no kernel knows it"


def _offered(
    parts: Sequence[KnobFile], want: str, offers: Mapping[int, tuple[str, ...]], advice: str = ""
) -> list[KnobFile]:
    """The parts, with an answer for each policy that does not offer the value; the others are set."""
    lacking = by_key((words, number) for number, words in offers.items() if words and want not in words)
    told: dict[int, tuple[str, str]] = {}
    for words, numbers in lacking.items():
        place = subject("policy", numbers, "", "").strip()
        told.update(dict.fromkeys(numbers, (place, f"{want!r} is not on offer, but {', '.join(words)}")))
    return [
        part._replace(place=told[part.number][0], answer=told[part.number][1], advice=advice)
        if part.number in told
        else part
        for part in parts
    ]


def _common(offers: Mapping[int, tuple[str, ...]]) -> tuple[str, ...]:
    """Values that all of them offer, in the order of the first."""
    lists = list(offers.values())
    return tuple(word for word in (lists[0] if lists else ()) if all(word in words for words in lists))


def _divided(policies: Sequence[Policy], scope: Scope) -> str:
    """Reason why a list of CPUs cannot be set alone; empty if it can."""
    cpus = set(scope.cpus)
    for policy in policies:
        outside = set(policy.cpus) - cpus
        if outside:
            return (
                f"policy {policy.number} sets the CPUs {cpulist.render(policy.cpus)} together, and "
                f"{subject('CPU', outside, 'is', 'are')} not in the list: name all of them, or none"
            )
    return ""
