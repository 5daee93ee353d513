# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPUs of a node and its cpufreq policies, read once for all settings of one call.

A policy is a group of CPUs whose frequency the kernel sets together: a single CPU with most drivers, several
if they share a clock (admin-guide/pm/cpufreq.rst). The folder of a policy whose CPUs are all offline stays,
but its files answer EBUSY or are empty.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Iterable, Mapping, Sequence

from ...host.host import Host
from ...model import cpulist
from ...model.errors import HostError, MlnodeError
from ...model.record import NamedTuple, regex
from ...model.setting import Value
from ...topology.cpus import by_folder
from .parse import CPU, CPUFREQ

#: Replaces the number of a policy or CPU for a file of the whole machine
WHOLE = -1

#: A CPU that comes online has its previous governor or the kernel's default (drivers/cpufreq/cpufreq.c:
#: cpufreq_init_policy), and no event starts the agent then
LATER = "once online, `mlnode apply` or the next boot sets them"

_POLICY = regex(r"policy([0-9]{1,9})\Z", re.ASCII)


class NoReadingError(MlnodeError):
    """A setting has nothing to read; value holds the reason, absent or unreadable.

    optional: as in Reading.
    """

    def __init__(self, value: Value, optional: bool = False) -> None:
        self.value = value
        self.optional = optional
        super().__init__(value.problem)


def absent(why: str) -> NoReadingError:
    return NoReadingError(Value(absent=why))


def without_policies(host: Host) -> str:
    """Reason why clocks cannot be read on a kernel without cpufreq/policyN, such as 3.10 of RHEL 7; empty if
    its CPUs have no clocks either. Raises HostError.
    """
    folders = () if host.matching(f"{CPUFREQ}/policy*") else host.matching(f"{CPU}/cpu[0-9]*/cpufreq")
    clocks = "clocks are read from policies alone"
    return f"this kernel has {folders[0]} and no {CPUFREQ}/policyN: {clocks}" if folders else ""


class Scope(NamedTuple):
    """The CPUs of a setting on this machine. whole: all CPUs. cpus: the online ones. missing: declared CPUs
    that this machine lacks.
    """

    whole: bool
    cpus: tuple[int, ...]
    offline: tuple[int, ...]
    missing: tuple[int, ...]


class Policy(NamedTuple):
    """A cpufreq policy, the number in its folder's name, and the online CPUs it rules."""

    number: int
    cpus: tuple[int, ...]

    @property
    def path(self) -> str:
        return f"{CPUFREQ}/policy{self.number}"


class Node:
    """Lazy facts. Each raises NoReadingError if it is absent or cannot be read."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._values: dict[str, Value] = {}

    def value(self, path: str) -> Value:
        if path not in self._values:
            self._values[path] = self._host.value(path)
        return self._values[path]

    def text(self, path: str) -> str:
        """Text of a file that is never empty. A captured tree holds an empty file if its read failed."""
        value = self.value(path)
        if value.text is None:
            raise NoReadingError(value)
        if not value.text:
            raise NoReadingError(Value(unreadable=f"{path} is empty"))
        return value.text.strip()

    def texts(self, scope: Scope, paths: Mapping[int, str], owner: str, why: str) -> dict[int, str]:
        """Number of each owner (`CPU`, `policy`) that has its file → the file's value.

        why: the meaning of a missing file. If a setting is for all CPUs, a missing file does not affect the
        others; see lacks().
        """
        lacking = self._lacking(paths)
        if lacking and (len(lacking) == len(paths) or not scope.whole):
            raise absent(self.lacks(paths, owner, why))
        return {number: self.text(path) for number, path in paths.items() if number not in lacking}

    def lacks(self, paths: Mapping[int, str], owner: str, why: str) -> str:
        """Words about the owners whose file does not exist; empty if none lacks it."""
        lacking = self._lacking(paths)
        if not lacking:
            return ""
        name = paths[lacking[0]].rpartition("/")[2]
        return f"{subject(owner, lacking, 'has', 'have')} no {name}: {why}"

    def have_none(self, paths: Mapping[int, str]) -> bool:
        """True if no owner has its file."""
        return len(self._lacking(paths)) == len(paths)

    def _lacking(self, paths: Mapping[int, str]) -> list[int]:
        return [number for number, path in paths.items() if self.value(path).absent is not None]

    @cached_property
    def flags(self) -> frozenset[str] | None:
        """Features of the first processor in /proc/cpuinfo; empty on architectures other than x86, None if it
        cannot be read.
        """
        lines = (self.value("/proc/cpuinfo").text or "").splitlines()
        words = next((line.split() for line in lines if line.startswith("flags")), [])
        return frozenset(words) if lines else None

    def readable(self, policies: Sequence[Policy], name: str) -> tuple[tuple[Policy, ...], list[str]]:
        """Policies whose file of this name can be read, and errors of the others.

        A policy whose last CPU has just gone offline answers EBUSY, which must not affect the others.
        """
        problems = {policy: self.value(f"{policy.path}/{name}").unreadable for policy in policies}
        kept = tuple(policy for policy in policies if problems[policy] is None)
        return kept, [problem for problem in problems.values() if problem is not None]

    @cached_property
    def present(self) -> tuple[int, ...]:
        return self._list("present")

    @cached_property
    def online(self) -> tuple[int, ...]:
        return self._list("online")

    def _list(self, name: str) -> tuple[int, ...]:
        path = f"{CPU}/{name}"
        try:
            return by_folder(self._host, name) or cpulist.parse(self.text(path))
        except HostError as error:
            raise NoReadingError(Value(unreadable=str(error))) from error
        except ValueError as error:
            raise NoReadingError(Value(unreadable=f"{path}: {error}")) from error

    def scope(self, cpus: tuple[int, ...] | None) -> Scope:
        """The CPUs of this list that exist here; all CPUs for None."""
        named = set(self.present if cpus is None else cpus)
        here, online = named & set(self.present), set(self.online)
        if here and not here & online:
            raise absent(f"{subject('CPU', here, 'is', 'are')} offline: {LATER}")
        return Scope(
            whole=cpus is None,
            cpus=tuple(sorted(here & online)),
            offline=tuple(sorted(here - online)),
            missing=tuple(sorted(named - here)),
        )

    def policies_of(self, scope: Scope) -> tuple[Policy, ...]:
        """The policies that control any of these CPUs. If a setting is for all CPUs, one without a policy,
        such as a CPU that no driver has started, does not affect the others; see bare().
        """
        cpus = set(scope.cpus)
        chosen = tuple(policy for policy in self.policies if not cpus.isdisjoint(policy.cpus))
        bare = self.bare(scope)
        if bare and not (scope.whole and chosen):
            raise absent(bare)
        return chosen

    def bare(self, scope: Scope) -> str:
        """Words about the CPUs that no policy rules; empty if each has one."""
        bare = set(scope.cpus).difference(*(policy.cpus for policy in self.policies))
        return f"{subject('CPU', bare, 'is', 'are')} in no policy of {CPUFREQ}" if bare else ""

    @cached_property
    def policies(self) -> tuple[Policy, ...]:
        """All policies with online CPUs, by number."""
        try:
            names = self._host.names(CPUFREQ)
            numbers = sorted(int(match.group(1)) for match in map(_POLICY.match, names) if match)
            bare = "" if numbers else without_policies(self._host)
        except HostError as error:
            raise NoReadingError(Value(unreadable=str(error))) from error
        online_policies = [policy for policy in map(self._policy, numbers) if policy.cpus]
        if not online_policies:
            none = f"{CPUFREQ} has no policy: no cpufreq driver is loaded, as in most virtual machines"
            raise absent(bare or none)
        return tuple(online_policies)

    def _policy(self, number: int) -> Policy:
        path = f"{CPUFREQ}/policy{number}/affected_cpus"
        if not self.value(path).text and number not in self.online:
            return Policy(number, ())
        try:
            # Separated by blanks, unlike all other CPU lists
            return Policy(number, cpulist.parse(",".join(self.text(path).split())))
        except ValueError as error:
            raise NoReadingError(Value(unreadable=f"{path}: {error}")) from error


def subject(owner: str, numbers: Iterable[int], singular: str, plural: str) -> str:
    """`CPU 3 is`, `CPUs 0-3,8 are`, `policies 0-3 have`: the beginning of a sentence."""
    known = sorted(set(numbers))
    if len(known) == 1:
        return f"{owner} {known[0]} {singular}"
    return f"{'policies' if owner == 'policy' else owner + 's'} {cpulist.render(known)} {plural}"
