# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All modules that the agent can run, imported for real: Ansible ships modules that it finds in import
statements, and the agent is built from imported modules."""

# ruff: noqa: F401
# pylint: disable=unused-import
from __future__ import annotations

from ..engine import confirm_store, origin, partial, revert
from ..knobs.containers import present
from ..report import audit as audit_report
from ..report import document, jobs, paint, table, topology, topology_table
from ..topology import hardware
from . import (
    call,
    cli,
    completion,
    drift,
    enrol,
    explain,
    inspections,
    job,
    job_metrics,
    lease,
    manual,
    metrics,
    mounts,
    nccl,
    node,
    node_report,
    preview,
    pull,
    registry,
    render,
    state,
    switch_side,
    verdicts,
    watch,
    whole_node,
    without_origin,
)

inspections.imported()
registry.imported()
mounts.imported()
