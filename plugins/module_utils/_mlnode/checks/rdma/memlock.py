# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory that jobs may lock, which RDMA needs: the limits of the daemons that start them.

Expectation: `memlock`, see pcie_values.py. A job inherits the limit of the daemon that starts it, so the
running daemon counts, and what systemd would give it at its next start. In a container its own limit counts.
"""

from __future__ import annotations

from typing import Any, Mapping

from ...host.host import Host
from ...knobs.limits import pending as limits_pending
from ...knobs.limits import units as limits_units
from ...knobs.limits.parse import LIMITS, Amount, is_within
from ...linux import daemons, systemd_conf
from ...model.errors import HostError
from ...model.record import replace
from ...topology.model import Topology
from .. import pcie_values
from ..model import Check, Verdict, skip
from ..pcie_values import Bytes

NAME, NAME_DEFAULT = "memlock", "memlock_default"
NAMES = (NAME, NAME_DEFAULT)

#: Who starts jobs or containers, which inherit its limit. Names are cut to 15 characters (TASK_COMM_LEN)
_STARTERS = ("slurmd", "containerd", "dockerd", "crio", "pbs_mom")
#: Whose children get others: of sshd by pam_limits(8), of kubelet by the container runtime
_INDIRECT = ("sshd", "kubelet")
_WATCHED = (*_STARTERS, *_INDIRECT)

_LIMIT = LIMITS["memlock"]
_KEY = f"Default{_LIMIT.key}"


def checks(host: Host, topology: Topology, expect: Mapping[str, Any]) -> list[Check]:
    """Raises DeclarationError."""
    want, declared = pcie_values.wanted(expect, "memlock")
    if topology.machine.kind == "container":
        advice = "start the container with --ulimit memlock=-1, or raise the limit of its runtime"
        return [_process(host, 1, "this container", want, Verdict.FAIL, advice)]
    checks = [*_daemons(host, want)]
    served = [check for check in checks if check.target in _STARTERS]
    spared = ""
    if served and all(check.verdict in (Verdict.PASS, Verdict.PENDING) for check in served):
        spared = "the daemons that start jobs have enough of their own"
    elif not (declared or topology.rdma or topology.gpus):
        spared = "neither an RDMA device nor a GPU is here"
    return [*checks, _default(host, want, declared, spared)]


# -- what runs -----------------------------------------------------------------------------


def _daemons(host: Host, want: Bytes) -> list[Check]:
    try:
        seen = daemons.running(host, _WATCHED)
    except HostError as error:
        return [Check(NAME, "node", Verdict.UNKNOWN, "", str(error), "/proc")]
    if seen.none:
        return [skip(NAME, "node", "no process is shown below /proc", "/proc")]
    checks = []
    for name in _WATCHED:
        for daemon in seen.named(name):
            bad = Verdict.FAIL if name in _STARTERS else Verdict.WARN
            checks.append(_judged(host, _process(host, daemon.pid, name, want, bad, _advice(name)), want))
    if seen.hidden:
        why = f"some processes are hidden: {seen.hidden}"
        checks.append(Check(NAME, "node", Verdict.UNKNOWN, "", why, "/proc/*/status"))
    elif not checks:
        why = f"none of {', '.join(_WATCHED)} runs"
        checks.append(skip(NAME, "node", why, "/proc/*/status"))
    return checks


def _judged(host: Host, check: Check, want: Bytes) -> Check:
    """One that runs with too little: what its next start brings, and what its sessions have. Those of sshd
    get theirs from PAM, as the kind limits judges it, too."""
    if check.verdict not in (Verdict.FAIL, Verdict.WARN):
        return check
    try:
        unit, assigned = limits_pending.next_start(host, _LIMIT, check.target)
        logins, where = limits_pending.of_logins(host, _LIMIT)
    except HostError as error:
        return replace(check, found=f"{check.found}; its next start is unknown: {error}")
    if assigned.amount is not None and _is_enough(assigned.amount, want):
        then = f"{assigned.amount} ({assigned.where})"
        found = limits_pending.words(check.target, unit, check.found, then)
        advice = f"systemctl restart {unit}"
        check = replace(check, verdict=Verdict.PENDING, found=found, advice=advice)
    if check.target == "sshd" and logins is not None and _is_enough(logins, want):
        found = f"{check.found}; logins get {logins} from {where} all the same"
        return replace(check, verdict=Verdict.SKIP, found=found)
    return check


def _advice(name: str) -> str:
    if name == "sshd":
        return (
            "logins get theirs from /etc/security/limits.d: memlock unlimited there, and in the unit of sshd"
        )
    text = f"LimitMEMLOCK=infinity in a drop-in of its unit, then systemctl daemon-reload and restart {name}"
    return f"{text}; containers have that of their runtime" if name == "kubelet" else text


def _process(host: Host, pid: int, target: str, want: Bytes, bad: Verdict, advice: str) -> Check:
    path = f"/proc/{pid}/limits"
    try:
        now = limits_units.of_process(host, _LIMIT, path)
    except HostError as error:
        return Check(NAME, target, Verdict.UNKNOWN, str(want), str(error), path)
    if now is None:
        return Check(NAME, target, Verdict.UNKNOWN, str(want), "the process has ended meanwhile", path)
    soft, hard = Bytes(now.soft), Bytes(now.hard)
    found = str(soft) if soft == hard else f"{soft}, and up to {hard} for who asks"
    if _is_enough(now, want):
        return Check(NAME, target, Verdict.PASS, str(want), found, path)
    return Check(NAME, target, bad, str(want), found, path, advice)


def _is_enough(amount: Amount, want: Bytes) -> bool:
    return is_within(want.number, amount.soft)


# -- what the next start brings ------------------------------------------------------------


def _default(host: Host, want: Bytes, declared: bool, spared: str) -> Check:
    """Limit that systemd gives each service without one of its own. spared: why too little does no harm."""
    target, source = "systemd", "/etc/systemd/system.conf"
    try:
        if not host.systemd_runs():
            return skip(NAME_DEFAULT, target, "systemd does not run here", "/run/systemd/system")
        lines = systemd_conf.manager(host, _KEY)
    except HostError as error:
        return Check(NAME_DEFAULT, target, Verdict.UNKNOWN, str(want), str(error), error.path)
    limit = limits_units.effective(_LIMIT, lines)
    advice = (
        f"{_KEY}=infinity in a file of /etc/systemd/system.conf.d, systemctl daemon-reexec, restart daemons"
    )
    bad = Verdict.FAIL if declared else Verdict.WARN
    source = limit.where or source
    if limit.amount is not None:
        found = f"{_KEY}={limit.amount.in_systemd()}"
        if _is_enough(limit.amount, want):
            return Check(NAME_DEFAULT, target, Verdict.PASS, str(want), found, source)
    elif lines:
        found = f"{lines[-1].text[:80]}, which systemd does not take"
        source = lines[-1].where
    else:
        found = f"{_KEY} is set nowhere, so systemd's own counts, 8 MiB at most"
    if spared:
        return Check(NAME_DEFAULT, target, Verdict.SKIP, str(want), f"{found}; {spared}", source)
    return Check(NAME_DEFAULT, target, bad, str(want), found, source, advice)
