# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area metrics."""

from __future__ import annotations

import re
from datetime import date

from ...model.record import regex
from ...model.schema import Form, Option, Table
from ...model.setting import Severity

AUTO = "auto"


def _folder(text: str) -> str:
    if ".." in text.split("/"):
        raise ValueError
    return text.rstrip("/") or text


def _day(text: str) -> str:
    date(*(int(part) for part in text.split("-")))
    return text


#: A path that is one word to systemd and to a shell
FOLDER = Form(
    regex(r"(?:auto|/[A-Za-z0-9_.@+/-]{1,200})\Z", re.ASCII), "auto or the absolute path of a folder", _folder
)
_DAY = Form(regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z", re.ASCII), "a day such as 2026-01-31", _day)
_TEXT = Form(regex(r"[^\0\n]{1,200}\Z"), "a line of 1 to 200 characters")

OPTIONS: Table = {
    "textfile_directory": Option(
        "str",
        """
        The folder for the metrics. Unset leaves the timer off.

        V(auto) is the C(--collector.textfile.directory) of the service C(prometheus-node-exporter) or
        C(node_exporter), or the default of Debian's package. Give the path where node_exporter runs in a
        container.
        """,
        form=FOLDER,
        severity=Severity.MEDIUM,
        reason="without it drift of this node is seen only when a playbook looks for it",
        source="docs/guide/watching.md",
    ),
    "jobs": Option(
        "bool",
        """
        Look at running jobs as well, as M(mlnode.tuning.node_job) does, and export the result as
        C(mlnode_job_*).

        The look enters the namespaces of each job for a moment.
        """,
        default=False,
        declares=False,
    ),
    "ignore": Option(
        "list",
        """
        Drift that is known, as for M(mlnode.tuning.node_drift). It is not among the drifted settings until it
        ends, and the day on which it does is exported.
        """,
        elements="dict",
        default=[],
        suboptions={
            "key": Option("str", "Name of the setting; * as in a shell.", required=True, form=_TEXT),
            "reason": Option("str", "Why it is ignored.", required=True, form=_TEXT),
            "until": Option("str", "The last day on which it is.", required=True, form=_DAY),
        },
        declares=False,
    ),
}
