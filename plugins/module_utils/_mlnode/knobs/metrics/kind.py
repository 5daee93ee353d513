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
    folder = Found(claim, "the declaration") if claim != own.AUTO else node_exporter.textfile_folder(host)
    if folder.path and not host.exists(folder.path):
        problem = f"{folder.path} does not exist ({folder.source}); node_exporter reads nothing there"
        return folder._replace(problem=problem)
    return folder


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
        folder = folder_of(context.host, setting.claim)
        reading = self.reading(setting, folder.path or setting.claim, context)
        if folder.problem:
            lacking = Value(absent=folder.problem)
            return reading._replace(runtime=lacking, want=folder.path or None, missing=True, barred="")
        note = f"folder as in {folder.source}" if setting.claim == own.AUTO else ""
        return reading._replace(path=f"{folder.path}/{node_exporter.FILE}", note=note)

    def boot_sources(self, key: str, host: Host) -> list[str]:
        """The files that start the timer, and the place that configures the folder."""
        folder = node_exporter.textfile_folder(host)
        where = f"{folder.source}: {folder.path}" if folder.path else folder.problem
        return [*super().boot_sources(key, host), where]


kind = MetricsKind()
