# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command that repairs a finding, for an operator to copy.

A node chooses the keys that it reports. A key with characters that no setting has is never part of a command.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...module_utils._mlnode.model.setting import Status
from ..areas import AREAS
from .finding import Finding

#: Hosts in a command. Above that, it runs on all hosts: a playbook changes nothing on correct ones.
MOST = 12

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@/*-]{0,199}", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}", re.ASCII)

#: Module that checks → playbook that repeats the check, after its advice was followed
PLAYBOOKS = {
    "job": "jobs",
    "node_job": "jobs",
    "node_preflight": "preflight",
    "rdma_check": "fabric_check",
    "ib_subnet": "fabric_check",
    "path_mtu": "path_mtu",
    "campaign": "campaign",
}

#: Statuses with another file or a guard as the cause: running site again is not enough.
_CAUSED = (str(Status.OVERRIDDEN), str(Status.REFUSED), str(Status.UNKNOWN))


def together(findings: Sequence[Finding], names: Sequence[str], total: int) -> str:
    """The one command for several findings of these hosts, of so many in the report; empty if none does."""
    fit = len(names) <= MOST and all(map(_HOST.fullmatch, names))
    hosts = ",".join(names) if fit else "all"
    limit = f" --limit {hosts}" if fit and len(names) < total else ""
    if all(map(_again, findings)) and len({finding.kind for finding in findings}) > 1:
        return f"ansible-playbook mlnode.tuning.site{limit}"
    commands = {_command(finding, hosts, limit) for finding in findings}
    return commands.pop() if len(commands) == 1 else ""


def _again(finding: Finding) -> bool:
    """True if the site, played once more, is enough."""
    known = finding.kind in (*AREAS, "agent")
    return finding.bad and known and finding.status not in (*_CAUSED, str(Status.PENDING_REBOOT))


def _command(finding: Finding, hosts: str, limit: str) -> str:
    """Command for one finding; empty if no repair is needed."""
    kind = finding.kind
    if not finding.bad:
        return ""
    if _again(finding):
        return f"ansible-playbook mlnode.tuning.site{limit}" + ("" if kind == "agent" else f" --tags {kind}")
    if kind in PLAYBOOKS:
        return f"ansible-playbook mlnode.tuning.{PLAYBOOKS[kind]}{limit}  # after the advice"
    if kind == "node_audit":
        return f"ansible {hosts} -b -m mlnode.tuning.node_audit  # after the advice"
    if finding.status == str(Status.PENDING_REBOOT):
        return f"ansible-playbook mlnode.tuning.site{limit} -e node_reboot=true" if kind in AREAS else ""
    explained = kind in (*AREAS, "agent") and _KEY.fullmatch(finding.key)
    return f"ansible {hosts} -b -a 'mlnode explain {finding.key}'" if explained else ""
