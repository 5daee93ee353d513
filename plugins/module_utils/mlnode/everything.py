# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that the agent can run, imported for real: Ansible sends along what it finds in an import statement,
and the agent is built from what is imported."""

from __future__ import annotations

from . import call, cli, drift, drivers, registry, without_origin
from .checks import audit
from .render import audit as audit_report

PARTS = (
    call.answer,
    cli.main,
    drift.answer,
    audit.findings,
    audit_report.report,
    *registry.imported(),
    *drivers.imported(),
    without_origin.remove,
)
