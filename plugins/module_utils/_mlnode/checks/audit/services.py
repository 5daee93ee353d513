# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes other than jobs: limits of open files, services that tune independently, and the clock."""

from __future__ import annotations

from functools import partial
from typing import Iterator

from ...drivers import services as service_files
from ...host.host import Host
from ...knobs.limits import parse as limits_parse
from ...knobs.limits import pending as limits_pending
from ...knobs.limits import units as limits_units
from ...knobs.limits.parse import LIMITS
from ...knobs.services import kind as services
from ...knobs.services.known import SERVICES
from ...linux import daemons
from ...model import values
from ...model.record import replace
from ...model.setting import Severity
from ...topology.model import Topology
from ..model import Check, Subject, Verdict, findings
from .model import Looks, topic

NOFILE = topic(
    "nofile",
    Severity.MEDIUM,
    "jobs that it starts end with EMFILE: data loaders and NCCL open thousands of files and sockets",
    "systemd.exec(5), LimitNOFILE",
    "raise it: the module limits, and a restart of the daemon",
    "/proc/*/status",
)
_MANY = {
    "reason": "programs that close every file they could have take minutes, in containers, too",
    "reference": "systemd.exec(5), LimitNOFILE; moby pull request 45534, containerd pull request 8924",
    "advice": "leave the soft limit of services at 1024: the module limits, and a restart of the daemon",
}
RIVALS = topic(
    "tuning_services",
    Severity.MEDIUM,
    "what one of them sets, the other undoes",
    "docs/knobs/services.md",
    "let one of both own a setting: the module tuning_services",
    "systemd",
)
TIME = topic(
    "time_sync",
    Severity.MEDIUM,
    "logs of several nodes cannot be compared, and munge refuses credentials that seem five minutes old",
    "timedatectl(1), munge(7)",
    "enable chronyd or systemd-timesyncd, and see that it reaches a server",
    "systemd",
)

#: Daemons that start jobs or containers, which inherit their limit
_STARTERS = ("slurmd", "containerd", "dockerd", "crio", "pbs_mom", "kubelet")
#: A data loader with 64 workers and NCCL on 512 ranks opens tens of thousands
_LEAST_FILES = 65536
#: Initial value of fs.nr_open (fs/file.c). systemd raises it to 1073741816, and uses that for `infinity`.
_MOST_FILES = 1 << 20
_NR_OPEN = "/proc/sys/fs/nr_open"

_TIMESYNC = "/run/systemd/timesync/synchronized"
_CHRONY = ("chronyd.service", "chrony.service")
_OTHERS = ("ntpd.service", "ntp.service", "ntpsec.service", "openntpd.service", "ptp4l.service")
_TIMESYNCD = "systemd-timesyncd.service"


def _open_files(host: Host, _topology: Topology) -> Iterator[Check]:
    seen = daemons.running(host, _STARTERS)
    starters = [daemon for name in _STARTERS for daemon in seen.named(name)]
    for daemon in starters:
        subject = replace(NOFILE, target=daemon.name, source=daemon.limits)
        yield from findings([subject], partial(_limit, host, subject))
    if seen.hidden:
        yield NOFILE.unknown(f"some processes are hidden: {seen.hidden}")
    elif seen.none:
        yield NOFILE.skip("no process is shown below /proc", source="/proc")
    elif not starters:
        yield NOFILE.skip(f"none of {', '.join(_STARTERS)} runs")


def _limit(host: Host, subject: Subject) -> Check:
    now = limits_units.of_process(host, LIMITS["nofile"], subject.source)
    if now is None:
        return subject.unknown("the process has ended meanwhile")
    soft, hard = limits_parse.words(now)
    good = now.hard is None or now.hard >= _LEAST_FILES
    evidence = soft if soft == hard else f"{soft}, and up to {hard} for who asks"
    many = _given_to_children(host, subject.target) if good else ""
    if many:
        evidence, expected = f"{evidence}; {many}", f"a soft limit up to {_MOST_FILES}"
        return subject.judged(False, evidence, expected=expected, **_MANY)
    # A process can raise its limit to the hard one, and most daemons and loaders do.
    return subject.judged(good, evidence, expected=f"at least {_LEAST_FILES}")


def _given_to_children(host: Host, name: str) -> str:
    """Text for an excessive soft limit. Raises HostError.

    Go raises a daemon's own limit, but children get the limit from the daemon's start, which its unit sets.
    """
    unit, assigned = limits_pending.next_start(host, LIMITS["nofile"], name)
    most = values.number(host.text(_NR_OPEN))
    if assigned.amount is None or most is None:
        return ""
    soft = most if assigned.amount.soft is None else min(assigned.amount.soft, most)
    return f"{unit} gives {soft} to all that it starts ({assigned.where})" if soft > _MOST_FILES else ""


def _competing(host: Host, _topology: Topology) -> Iterator[Check]:
    rivals = [check for name in SERVICES for check in _rivals(host, name)]
    yield from rivals
    if all(check.verdict is Verdict.UNKNOWN for check in rivals):
        yield RIVALS.judged(True, "none runs or starts at boot", expected="none")


def _rivals(host: Host, name: str) -> Iterator[Check]:
    service = SERVICES[name]
    subject = replace(
        RIVALS,
        target=name,
        severity=service.severity,
        reason=f"it {service.reason}",
        reference=service.source,
    )

    def look() -> Iterator[Check]:
        acting = services.acts(host, service)
        if acting:
            expected = "neither runs nor starts" if service.switch is None else service.switch.words
            yield subject.judged(False, acting, source=service.unit, expected=expected)

    return findings([subject], look)


# -- the clock -----------------------------------------------------------------------------


def _time(host: Host, topology: Topology) -> Check:
    if topology.machine.kind == "container":
        return TIME.skip("the container has its host's clock", source="/run/systemd")
    if host.exists(_TIMESYNC):
        # The file exists while the service runs, even long after the last answer of a server.
        state = "systemd-timesyncd was in step; whether it still is: timedatectl timesync-status"
        return TIME.skip(state, source=_TIMESYNC)
    if not host.systemd_runs():
        return TIME.skip("systemd does not run here", source="/run/systemd/system")
    running = [unit for unit in (*_CHRONY, *_OTHERS, _TIMESYNCD) if service_files.is_running(host, unit)]
    if not running:
        return TIME.judged(False, "nothing that is known here keeps the clock", expected="in step")
    if running[0] in _CHRONY:
        return _chrony(host)
    if running[0] == _TIMESYNCD:
        state = "systemd-timesyncd runs, and has reached no server yet"
        return TIME.judged(False, state, source=_TIMESYNC, expected="in step")
    return TIME.skip(f"{running[0]} runs; ask it whether it is in step", source=running[0])


def _chrony(host: Host) -> Check:
    """Synchronisation as chrony's last field reports it: chronyc(1), tracking, Leap status."""
    source = "chronyc -c tracking"
    text = host.must_run(["chronyc", "-n", "-c", "tracking"], "ask the clock's daemon with").strip()
    fields = text.split(",")
    if len(fields) < 10:
        return TIME.unknown(f"chronyc says {text[:60]!r}", source=source)
    status = fields[-1].strip()
    # An announced leap second is not a fault.
    good = status in ("Normal", "Insert second", "Delete second")
    return TIME.judged(good, f"chronyd: {status[:40]}", source=source, expected="in step")


LOOKS: Looks = (((NOFILE,), _open_files), ((RIVALS,), _competing), ((TIME,), _time))
