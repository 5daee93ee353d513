# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that the agent can run, imported for real: Ansible sends along what it finds in an import statement,
and the agent is built from what is imported."""

from __future__ import annotations

from ..engine import confirm_store, origin, partial, revert
from ..report import audit as audit_report
from ..report import document, paint, table, topology, topology_table
from ..topology import read
from . import (
    call,
    cli,
    completion,
    drift,
    enrol,
    explain,
    looks,
    manual,
    metrics,
    mounts,
    nccl,
    node,
    node_report,
    preview,
    pull,
    registry,
    state,
    switch_side,
    verdicts,
    watch,
    whole_node,
    without_origin,
)

PARTS = (
    state.answers,
    call.answer,
    cli.main,
    drift.answer,
    *looks.imported(),
    audit_report.report,
    *registry.imported(),
    *mounts.imported(),
    node.survey,
    explain.explain,
    completion.bash,
    manual.page,
    preview.foresee_all,
    metrics.look,
    watch.look,
    pull.pull,
    enrol.enrol,
    nccl.in_force,
    switch_side.of,
    read.of,
    document.summary,
    node_report.node,
    paint.painted,
    table.render,
    topology.document,
    topology_table.table,
    verdicts.preflight,
    confirm_store.report,
    origin.note,
    partial.understood,
    revert.revert,
    whole_node.put_back,
    without_origin.remove,
)
