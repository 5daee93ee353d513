# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind metrics: a timer that checks the node, and the folder of its results for node_exporter."""

from __future__ import annotations

from ...engine.kind import Context, Facts
from ...host import places
from ...host.host import Host
from ...linux import node_exporter
from ...linux.node_exporter import Found
from ...model.schema import Checked
from ...model.setting import Reading, Setting, Value
from ..timers import TimerKind
from . import schema as own

KEY = "metrics.textfile"


def folder_of(host: Host, claim: str) -> Found:
    """The folder of a declaration, or why there is none. Raises HostError."""
    found = Found(claim, "the declaration") if claim != own.AUTO else node_exporter.textfile_folder(host)
    if found.path and not host.exists(found.path):
        problem = f"{found.path} does not exist ({found.source}); node_exporter reads nothing there"
        return found._replace(problem=problem)
    return found


class MetricsKind(TimerKind):
    KIND = "metrics"
    OPTIONS = own.OPTIONS
    DROP_IN = places.CHECK_DROP_IN
    ABOUT = "the node is checked"

    def parse(self, given: Checked, facts: Facts | None) -> list[Setting]:
        if not given:
            return []
        folder = given["textfile_directory"]
        return [Setting(self.KIND, KEY, self.path, None if folder == own.AUTO else folder, folder)]

    def read_one(self, setting: Setting, context: Context) -> Reading:
        """The folder, if the timer runs. An image leaves it to the machine that boots."""
        if not context.runtime:
            return self.reading(setting, setting.claim, context)
        found = folder_of(context.host, setting.claim)
        reading = self.reading(setting, found.path or setting.claim, context)
        if found.problem:
            lacking = Value(absent=found.problem)
            return reading._replace(runtime=lacking, want=found.path or None, missing=True, barred="")
        note = f"folder as in {found.source}" if setting.claim == own.AUTO else ""
        return reading._replace(path=f"{found.path}/{node_exporter.FILE}", note=note)

    def boot_sources(self, key: str, host: Host) -> list[str]:
        """The files that start the timer, and the place that configures the folder."""
        found = node_exporter.textfile_folder(host)
        where = f"{found.source}: {found.path}" if found.path else found.problem
        return [*super().boot_sources(key, host), where]


kind = MetricsKind()
