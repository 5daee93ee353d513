# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes beside jobs: daemons with too few open files, services that tune by themselves, and the clock."""

from __future__ import annotations

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
from ...model.errors import HostError
from ...model.record import replace
from ...model.setting import Severity
from ...topology.model import Topology
from ..model import Verdict
from . import model
from .model import AuditCheck, Topic

NOFILE = Topic(
    "nofile",
    Severity.MEDIUM,
    "jobs that it starts end with EMFILE: data loaders and NCCL open thousands of files and sockets",
    "systemd.exec(5), LimitNOFILE",
    "raise it: the module limits, and a restart of the daemon",
)
_MANY = replace(
    NOFILE,
    reason="programs that close every file they could have take minutes, in containers, too",
    reference="systemd.exec(5), LimitNOFILE; moby pull request 45534, containerd pull request 8924",
    advice="leave the soft limit of services at 1024: the module limits, and a restart of the daemon",
)
RIVALS = Topic(
    "tuning_services",
    Severity.MEDIUM,
    "what one of them sets, the other undoes",
    "docs/knobs/services.md",
    "let one of both own a setting: the module tuning_services",
)
TIME = Topic(
    "time_sync",
    Severity.MEDIUM,
    "logs of several nodes cannot be compared, and munge refuses what seems to be five minutes old",
    "timedatectl(1), munge(7)",
    "enable chronyd or systemd-timesyncd, and see that it reaches a server",
)

_TOPICS = (NOFILE, RIVALS, TIME)
NAMES = tuple(topic.name for topic in _TOPICS)

#: Who starts jobs or containers, which inherit its limit
_STARTERS = ("slurmd", "containerd", "dockerd", "crio", "pbs_mom", "kubelet")
#: A data loader with 64 workers and NCCL on 512 ranks has tens of thousands
_LEAST_FILES = 65536
#: What fs.nr_open starts with (fs/file.c). systemd raises that to 1073741816, and gives it for `infinity`.
_MOST_FILES = 1 << 20
_NR_OPEN = "/proc/sys/fs/nr_open"

_TIMESYNC = "/run/systemd/timesync/synchronized"
_CHRONY = ("chronyd.service", "chrony.service")
_OTHERS = ("ntpd.service", "ntp.service", "ntpsec.service", "openntpd.service", "ptp4l.service")
_TIMESYNCD = "systemd-timesyncd.service"


def checks(host: Host, topology: Topology) -> Iterator[AuditCheck]:
    yield from _open_files(host)
    yield from _competing(host)
    yield _time(host, topology)


def _open_files(host: Host) -> Iterator[AuditCheck]:
    try:
        seen = daemons.running(host, _STARTERS)
    except HostError as error:
        yield model.unknown(NOFILE, str(error), "/proc")
        return
    starters = [daemon for name in _STARTERS for daemon in seen.named(name)]
    for daemon in starters:
        yield _limit(host, daemon.limits, daemon.name)
    if seen.hidden:
        yield model.unknown(NOFILE, f"some processes are hidden: {seen.hidden}", "/proc/*/status")
    elif seen.none:
        yield model.told(NOFILE, "no process is shown below /proc", "/proc")
    elif not starters:
        yield model.told(NOFILE, f"none of {', '.join(_STARTERS)} runs", "/proc/*/status")


def _limit(host: Host, path: str, target: str) -> AuditCheck:
    try:
        now = limits_units.of_process(host, LIMITS["nofile"], path)
        if now is None:
            return model.unknown(NOFILE, "the process has ended meanwhile", path, target)
        soft, hard = limits_parse.words(now)
        good = now.hard is None or now.hard >= _LEAST_FILES
        found = soft if soft == hard else f"{soft}, and up to {hard} for who asks"
        many = _given_to_children(host, target) if good else ""
    except HostError as error:
        return model.unknown(NOFILE, str(error), path, target)
    if many:
        return model.judged(
            _MANY, False, f"{found}; {many}", path, f"a soft limit up to {_MOST_FILES}", target
        )
    # Who asks gets the hard limit, and most daemons and loaders do.
    return model.judged(NOFILE, good, found, path, f"at least {_LEAST_FILES}", target)


def _given_to_children(host: Host, name: str) -> str:
    """Words for a soft limit that is too great. Go raises that of a daemon itself, and gives children the one
    that it was started with: what its unit says. Raises HostError."""
    unit, assigned = limits_pending.next_start(host, LIMITS["nofile"], name)
    most = values.number(host.text(_NR_OPEN))
    if assigned.amount is None or most is None:
        return ""
    soft = most if assigned.amount.soft is None else min(assigned.amount.soft, most)
    return f"{unit} gives {soft} to all that it starts ({assigned.where})" if soft > _MOST_FILES else ""


def _competing(host: Host) -> Iterator[AuditCheck]:
    rivals = []
    for name, service in SERVICES.items():
        topic = replace(
            RIVALS, severity=service.severity, reason=f"it {service.reason}", reference=service.source
        )
        try:
            acting = services.acts(host, service)
        except HostError as error:
            yield model.unknown(topic, str(error), error.path, name)
            continue
        if acting:
            expected = "neither runs nor starts" if service.switch is None else service.switch.words
            rivals.append(model.judged(topic, False, acting, service.unit, expected, name))
    yield from rivals
    if not rivals:
        yield model.made(RIVALS, Verdict.PASS, "none runs or starts at boot", "systemd", "none")


# -- the clock -----------------------------------------------------------------------------


def _time(host: Host, topology: Topology) -> AuditCheck:
    if topology.machine.kind == "container":
        return model.told(TIME, "the clock is that of the container's host", "/run/systemd")
    try:
        if host.exists(_TIMESYNC):
            # The file stays as long as the service runs, however long no server has answered.
            state = "systemd-timesyncd was in step; whether it still is: timedatectl timesync-status"
            return model.told(TIME, state, _TIMESYNC)
        if not host.systemd_runs():
            return model.told(TIME, "systemd does not run here", "/run/systemd/system")
        running = [unit for unit in (*_CHRONY, *_OTHERS, _TIMESYNCD) if service_files.is_running(host, unit)]
    except HostError as error:
        return model.unknown(TIME, str(error), error.path)
    if not running:
        return model.judged(TIME, False, "nothing that is known here keeps the clock", "systemd", "in step")
    if running[0] in _CHRONY:
        return _chrony(host)
    if running[0] == _TIMESYNCD:
        state = "systemd-timesyncd runs, and has reached no server yet"
        return model.judged(TIME, False, state, _TIMESYNC, "in step")
    return model.told(TIME, f"{running[0]} runs; ask it whether it is in step", running[0])


def _chrony(host: Host) -> AuditCheck:
    """The last of its fields says how the clock is: chronyc(1), tracking, Leap status."""
    source = "chronyc -c tracking"
    try:
        text = host.must_run(["chronyc", "-n", "-c", "tracking"], "ask the clock's daemon with")
    except HostError as error:
        return model.unknown(TIME, str(error), source)
    fields = text.strip().split(",")
    if len(fields) < 10:
        return model.unknown(TIME, f"chronyc says {text.strip()[:60]!r}", source)
    status = fields[-1].strip()
    # An announced leap second is not a fault.
    good = status in ("Normal", "Insert second", "Delete second")
    return model.judged(TIME, good, f"chronyd: {status[:40]}", source, "in step")
