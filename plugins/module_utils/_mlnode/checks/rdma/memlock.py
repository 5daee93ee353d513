# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory that jobs may lock, which RDMA requires: the limits of the daemons that start jobs.

Expectation: `memlock`, see pcie_values.py. A job inherits the limit of the daemon that starts it. The limit
of the running daemon counts, and the limit that systemd would give it at its next start. In a container its
own limit counts.
"""

from __future__ import annotations

from functools import partial
from typing import Iterator

from ...host.host import Host
from ...knobs.limits import pending as limits_pending
from ...knobs.limits import units as limits_units
from ...knobs.limits.parse import LIMITS, Amount, is_within
from ...linux import daemons, systemd_conf
from ...model.errors import HostError
from ...model.record import replace
from ...topology.model import Topology
from .. import pcie_values
from ..expect import Expectations
from ..model import Check, Nothing, Subject, Verdict, findings
from ..pcie.subjects import severity
from ..pcie_values import Bytes

NAME, NAME_DEFAULT = "memlock", "memlock_default"
NAMES = (NAME, NAME_DEFAULT)

#: Daemons that start jobs or containers, which inherit their limit. Names are cut to 15 characters
#: (TASK_COMM_LEN)
_STARTERS = ("slurmd", "containerd", "dockerd", "crio", "pbs_mom")
#: Daemons whose children get other limits: sshd's from pam_limits(8), kubelet's from the container runtime
_INDIRECT = ("sshd", "kubelet")
_WATCHED = (*_STARTERS, *_INDIRECT)

_LIMIT = LIMITS["memlock"]
_KEY = f"Default{_LIMIT.key}"
_DEFAULT = (
    f"{_KEY}=infinity in a file of /etc/systemd/system.conf.d, systemctl daemon-reexec, restart daemons"
)


def checks(host: Host, topology: Topology, expect: Expectations) -> list[Check]:
    want, declared = pcie_values.wanted(expect, "memlock")
    subject = Subject(NAME, expected=str(want))
    if topology.machine.kind == "container":
        advice = "start the container with --ulimit memlock=-1, or raise the limit of its runtime"
        about = replace(subject, target="this container", source="/proc/1/limits", advice=advice)
        return [*findings([about], partial(_process, host, about, want))]
    checks = [
        *findings([replace(subject, expected="", source="/proc")], partial(_daemons, host, subject, want))
    ]
    served = [check for check in checks if check.target in _STARTERS]
    spared = ""
    if served and all(check.verdict in (Verdict.PASS, Verdict.PENDING) for check in served):
        spared = "the daemons that start jobs have high enough limits"
    elif not (declared or topology.rdma or topology.gpus):
        spared = "neither an RDMA device nor a GPU is here"
    about = Subject(
        NAME_DEFAULT,
        "systemd",
        "/etc/systemd/system.conf",
        str(want),
        bad=severity(declared),
        advice=_DEFAULT,
    )
    return [*checks, *findings([about], partial(_default, host, about, want, spared))]


# -- running daemons ------------------------------------------------------------------------


def _daemons(host: Host, subject: Subject, want: Bytes) -> Iterator[Check]:
    """Raises HostError."""
    seen = daemons.running(host, _WATCHED)
    subject = replace(subject, source="/proc/*/status")
    if seen.none:
        yield subject.skip("no process is shown below /proc", source="/proc")
        return
    here = [daemon for name in _WATCHED for daemon in seen.named(name)]
    for daemon in here:
        bad = Verdict.FAIL if daemon.name in _STARTERS else Verdict.WARN
        about = replace(
            subject, target=daemon.name, source=daemon.limits, bad=bad, advice=_advice(daemon.name)
        )
        for check in findings([about], partial(_process, host, about, want)):
            yield _judged(host, check, want)
    if seen.hidden:
        yield subject.unknown(f"some processes are hidden: {seen.hidden}", expected="")
    elif not here:
        yield subject.skip(f"none of {', '.join(_WATCHED)} runs")


def _judged(host: Host, check: Check, want: Bytes) -> Check:
    """Finding about a low limit, with the limits of the daemon's next start and of its sessions.

    Sessions of sshd get their limit from PAM, which the kind limits also judges.
    """
    if check.verdict not in (Verdict.FAIL, Verdict.WARN):
        return check
    try:
        unit, assigned = limits_pending.next_start(host, _LIMIT, check.target)
        logins, where = limits_pending.of_logins(host, _LIMIT)
    except HostError as error:
        return replace(check, found=f"{check.found}; its next start is unknown: {error}")
    if assigned.amount is not None and _is_enough(assigned.amount, want):
        then = f"{assigned.amount} ({assigned.where})"
        evidence = limits_pending.words(check.target, unit, check.found, then)
        advice = f"systemctl restart {unit}"
        check = replace(check, verdict=Verdict.PENDING, found=evidence, advice=advice)
    if check.target == "sshd" and logins is not None and _is_enough(logins, want):
        evidence = f"{check.found}; logins get {logins} from {where} all the same"
        return replace(check, verdict=Verdict.SKIP, found=evidence)
    return check


def _advice(name: str) -> str:
    if name == "sshd":
        return (
            "logins get theirs from /etc/security/limits.d: memlock unlimited there, and in the unit of sshd"
        )
    text = f"LimitMEMLOCK=infinity in a drop-in of its unit, then systemctl daemon-reload and restart {name}"
    return f"{text}; containers get their runtime's limit" if name == "kubelet" else text


def _process(host: Host, subject: Subject, want: Bytes) -> Check:
    """Raises HostError."""
    now = limits_units.of_process(host, _LIMIT, subject.source)
    if now is None:
        return subject.unknown("the process has ended meanwhile")
    soft, hard = Bytes(now.soft), Bytes(now.hard)
    evidence = str(soft) if soft == hard else f"{soft}, and up to {hard} for who asks"
    return subject.judged(_is_enough(now, want), evidence)


def _is_enough(amount: Amount, want: Bytes) -> bool:
    return is_within(want.number, amount.soft)


# -- the next start -------------------------------------------------------------------------


def _default(host: Host, subject: Subject, want: Bytes, spared: str) -> Check:
    """Limit that systemd gives to services without their own limit. Raises HostError.

    spared: why a low limit does no harm.
    """
    if not host.systemd_runs():
        raise Nothing("systemd does not run here", "/run/systemd/system")
    lines = systemd_conf.manager(host, _KEY)
    limit = limits_units.effective(_LIMIT, lines)
    source, good = limit.where or subject.source, False
    if limit.amount is not None:
        evidence, good = f"{_KEY}={limit.amount.in_systemd()}", _is_enough(limit.amount, want)
    elif lines:
        evidence, source = f"{lines[-1].text[:80]}, which systemd does not take", lines[-1].where
    else:
        evidence = f"{_KEY} is set nowhere, so systemd's own counts, 8 MiB at most"
    if spared and not good:
        return subject.skip(f"{evidence}; {spared}", source=source, expected=subject.expected)
    return subject.judged(good, evidence, source=source)
