# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of the modules for a whole node, agent and node_revert: for the modules themselves and for an agent
that runs in their place."""

from __future__ import annotations

from typing import Any

from ..engine import boot_service, revert
from ..engine.steps import refuse_read_only
from ..host.host import Host
from ..model.errors import MlnodeError, paragraphs
from ..report import reverted
from ..report.diff import diff as of_steps
from ..report.document import drift_line
from . import declare, install, rows, without_origin


def _failed(words: str, **more: Any) -> dict[str, Any]:
    return {"changed": False, "failed": True, "msg": paragraphs(words), **more}


def installed(host: Host, interpreter: str, reload: bool, check: bool, diff: bool) -> dict[str, Any]:
    """Result of the module agent. Arguments: its options, and check mode and diff of the task."""
    try:
        if check:
            steps = install.plan(host, interpreter, reload, used=diff)
            refuse_read_only(host, steps, store=True)
        else:
            steps = install.install(host, interpreter, notify=reload)
        # Drop-ins of others for the units are there on purpose: they are reported, but not removed.
        warnings = [*boot_service.left(host, reload)]
        idle = rows.idle(host) if reload and not check else []
    except MlnodeError as error:
        return _failed(f"agent: {error}")
    failed = {"failed": True, "msg": paragraphs(drift_line(idle[0].document()))} if idle else {}
    return {
        **failed,
        "changed": bool(steps),
        "path": install.COMMAND,
        "diff": of_steps(steps) if diff else [],
        "warnings": warnings,
    }


def put_back(host: Host, without: bool, check: bool, diff: bool) -> dict[str, Any]:
    """Result of the module node_revert. without: its option without_origin."""
    warnings = [*declare.undone(host, check)]
    try:
        if without:
            removal = without_origin.pending(host) if check else without_origin.remove(host)
            changes, stays = [*removal.changes], {"stays": [*removal.stays]}
        else:
            changes, stays = revert.pending(host) if check else revert.revert(host), {}
    except MlnodeError as error:
        return _failed(f"revert: {error}", warnings=warnings)
    return {
        "changed": any(change.changes for change in changes),
        "reverted": [{"key": change.key, "value": change.result} for change in changes],
        "reboot_required": any(change.at_boot for change in changes),
        "diff": reverted.diff(changes) if diff else [],
        "warnings": warnings,
        **stays,
    }
