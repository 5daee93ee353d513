# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that the agent can run, imported for real: Ansible sends along what it finds in an import statement,
and the agent is built from what is imported."""

from __future__ import annotations

from . import (
    agent_state,
    call,
    cli,
    confirm,
    drift,
    drivers,
    explain,
    node,
    origin,
    partial,
    registry,
    revert,
    without_origin,
)
from .checks import audit
from .render import audit as audit_report
from .render import document, table, topology, topology_table
from .render import node as node_report
from .topology import read

PARTS = (
    agent_state.answers,
    call.answer,
    cli.main,
    drift.answer,
    audit.findings,
    audit_report.report,
    *registry.imported(),
    *drivers.imported(),
    node.survey,
    explain.explain,
    read.of,
    document.setting,
    node_report.node,
    table.render,
    topology.document,
    topology_table.table,
    confirm.report,
    origin.note,
    partial.understood,
    revert.revert,
    without_origin.remove,
)
