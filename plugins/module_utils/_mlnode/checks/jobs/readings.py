# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two readings of the counters of control groups, with one pause for all jobs."""

from __future__ import annotations

import time
from typing import Iterator, Mapping, Sequence

from ...host.host import Host
from ...linux import cgroup_files
from ...linux.job_processes import JobProcess
from ...model.errors import HostError
from ...model.record import NamedTuple

#: The kernel counts a throttled period at its end (kernel/sched/fair.c: do_sched_cfs_period_timer), so the
#: longest period passes, and a tenth more for late timers. No period is longer than a second
#: (max_cfs_quota_period).
_PERIODS, _MOST_SECONDS = 1.1, 1.1
#: Pause for memory.high alone: hundreds of allocations of a process under pressure
_LEAST_SECONDS = 0.1

CPU, MEMORY = "cpu.stat", "memory.events"
#: Since Linux 5.2: events of this group's limits alone
MEMORY_LOCAL = "memory.events.local"


class _Before(NamedTuple):
    """begin: by time.monotonic(). seconds: until the second reading. files: path → its counters."""

    begin: float
    seconds: float
    files: Mapping[str, Mapping[str, int]]


class Rise(NamedTuple):
    """before, after: a counter at the two readings."""

    before: int
    after: int

    @property
    def by(self) -> int:
        return self.after - self.before


def begin(host: Host, processes: Sequence[JobProcess]) -> None:
    """The first reading, before all other looks at the jobs, which pass the time."""
    host.once(_BEFORE, lambda: _before(host, processes))


_BEFORE, _AFTER = "counters of jobs", "counters of jobs, after a pause"
_PASSED = "seconds between the counters of jobs"


def _before(host: Host, processes: Sequence[JobProcess]) -> _Before:
    seconds: dict[str, float] = {}
    for process in {process.group: process for process in processes}.values():
        seconds.update(_counted(host, process))
    files = {path: _read(host, path) for path in seconds}
    return _Before(time.monotonic(), min(max(seconds.values(), default=0.0), _MOST_SECONDS), files)


def _counted(host: Host, process: JobProcess) -> Iterator[tuple[str, float]]:
    """Files with counters that a limit may raise, and the pause that each needs. Limits that are not known
    are the subjects' own findings."""
    try:
        known = cgroup_files.line(host, process.pid, "cpu")
        for quota in cgroup_files.quotas(host, known):
            yield f"{quota.group.folder}/{CPU}", quota.period / 1e6 * _PERIODS
    except HostError:
        pass
    try:
        known = cgroup_files.line(host, process.pid, "memory")
        if known.version == 2:
            for group, text in cgroup_files.texts(host, known, "memory.high"):
                if text.strip() != "max":
                    yield high_events(host, group), _LEAST_SECONDS
    except HostError:
        pass


def high_events(host: Host, group: cgroup_files.Group) -> str:
    """File with the events of a group's own memory.high."""
    local = f"{group.folder}/{MEMORY_LOCAL}"
    return local if cgroup_files.value(host, local).absent is None else f"{group.folder}/{MEMORY}"


def _read(host: Host, path: str) -> Mapping[str, int]:
    return cgroup_files.pairs(host.value(path).text or "")


def seconds(host: Host) -> float:
    """Least number of seconds between the readings; 0 if nothing is limited."""
    return host.once(_BEFORE, lambda: _Before(0.0, 0.0, {})).seconds


def passed(host: Host) -> float:
    """Seconds from the first reading to the second one, which rise() takes."""
    return host.once(_PASSED, lambda: 0.0)


def rise(host: Host, path: str, name: str) -> Rise | None:
    """Both readings of a counter; None if one could not be read."""
    before = host.once(_BEFORE, lambda: _Before(0.0, 0.0, {}))
    after = host.once(_AFTER, lambda: _after(host, before))
    host.once(_PASSED, lambda: time.monotonic() - before.begin if host.live else before.seconds)
    first, last = (files.get(path, {}).get(name) for files in (before.files, after))
    return None if first is None or last is None else Rise(first, last)


def _after(host: Host, before: _Before) -> Mapping[str, Mapping[str, int]]:
    left = before.begin + before.seconds - time.monotonic()
    if host.live and before.files and left > 0:
        time.sleep(left)
    return {path: _read(host, path) for path in before.files}
