# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command that repairs a finding, for an operator to copy.

A node chooses the keys that it reports: what has other characters than those of settings is in no command.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...module_utils._mlnode.model.setting import Status
from ..areas import AREAS
from .model import Finding

#: In place of the option that names the hosts, with its blank; in an ad-hoc command of the pattern of hosts
LIMIT, HOSTS = "{limit}", "{hosts}"

#: Hosts in a command. Of more, it is about all: a playbook changes nothing where all is right.
MOST = 12

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@/*-]{0,199}", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}", re.ASCII)

_PLAY = f"ansible-playbook mlnode.tuning.%s{LIMIT}"

#: Module that checks → how it is asked again, after what its advice says
_AGAIN = {
    "node_preflight": _PLAY % "preflight",
    "rdma_check": _PLAY % "fabric_check",
    "ib_subnet": _PLAY % "fabric_check",
    "path_mtu": _PLAY % "path_mtu",
    "campaign": _PLAY % "campaign",
    "rdma_bandwidth": _PLAY % "rdma_bandwidth",
    "node_audit": f"ansible {HOSTS} -b -m mlnode.tuning.node_audit",
}

#: A site is not enough where another file or a guard decides: the cause is named by its file and line.
_CAUSED = (str(Status.OVERRIDDEN), str(Status.REFUSED), str(Status.UNKNOWN))


def _again(finding: Finding) -> bool:
    """True if the site, played once more, is enough."""
    known = finding.kind in (*AREAS, "agent")
    return finding.bad and known and finding.status not in (*_CAUSED, str(Status.PENDING_REBOOT))


def template(finding: Finding) -> str:
    """The command, with LIMIT or HOSTS for its hosts; empty where nothing is to be repaired."""
    if not finding.bad:
        return ""
    if _again(finding):
        return _PLAY % "site" + ("" if finding.kind == "agent" else f" --tags {finding.kind}")
    if finding.kind in _AGAIN:
        return f"{_AGAIN[finding.kind]}  # after the advice"
    if finding.status == str(Status.PENDING_REBOOT):
        return f"{_PLAY % 'site'} -e node_reboot=true" if finding.kind in AREAS else ""
    explained = finding.kind in (*AREAS, "agent") and _KEY.fullmatch(finding.key)
    return f"ansible {HOSTS} -b -a 'mlnode explain {finding.key}'" if explained else ""


def together(findings: Sequence[Finding], names: Sequence[str], total: int) -> str:
    """The one command for several findings of these hosts, of so many in the report; empty if none does."""
    if all(map(_again, findings)) and len({finding.kind for finding in findings}) > 1:
        return _limited(_PLAY % "site", names, total)
    commands = {template(finding) for finding in findings}
    return _limited(commands.pop(), names, total) if len(commands) == 1 else ""


def _limited(command: str, names: Sequence[str], total: int) -> str:
    fit = len(names) <= MOST and all(map(_HOST.fullmatch, names))
    listed = ",".join(names) if fit else "all"
    limit = f" --limit {listed}" if fit and len(names) < total else ""
    return command.replace(LIMIT, limit).replace(HOSTS, listed)
