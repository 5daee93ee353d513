# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind metrics: a timer that checks the node, and the folder where node_exporter finds what it has
seen."""

from __future__ import annotations

from typing import Sequence

from ...engine.kind import (
    Context,
    Facts,
    Info,
    Row,
    never_kept,
    no_conflicts,
    no_facts,
    read_each,
)
from ...host import places
from ...host.host import Host, Mounts
from ...linux import node_exporter
from ...linux.node_exporter import Found
from ...model.schema import Checked
from ...model.setting import BootFile, Reading, Setting, Severity, Value
from .. import timers
from . import schema as own

OPTIONS = own.OPTIONS
KIND = "metrics"
MOUNTS: Mounts = {}

KEY = "metrics.textfile"
TIMER = timers.Timer(
    places.CHECK_TIMER,
    (places.CHECK_SERVICE, places.WATCH_SERVICE),
    places.CHECK_DROP_IN,
    "the node is checked",
    (places.WATCH_TIMER,),
)


def parse(given: Checked, facts: Facts | None) -> list[Setting]:
    """At most one setting. Raises DeclarationError."""
    del facts  # what is automatic is found in read(), whatever becomes of it
    if not given:
        return []
    folder = given["textfile_directory"]
    return [Setting(KIND, KEY, TIMER.path, None if folder == own.AUTO else folder, folder)]


# -- reading -------------------------------------------------------------------------------


def read(settings: Sequence[Setting], context: Context) -> list[Reading]:
    """The folder, if the timer runs."""
    return read_each(settings, context, _read)


def _read(setting: Setting, context: Context) -> Reading:
    if not context.runtime:  # the folder is found on the machine that boots
        return Reading(
            setting.path, Value(), timers.boot(TIMER, setting.claim, context), setting.want, native=True
        )
    found = folder_of(context.host, setting.claim)
    boot = timers.boot(TIMER, found.path or setting.claim, context)
    if found.problem:
        lacking = Value(absent=found.problem)
        return Reading(setting.path, lacking, boot, found.path or None, missing=True, native=True)
    path = f"{found.path}/{node_exporter.FILE}"
    note = f"folder as in {found.source}" if setting.claim == own.AUTO else ""
    state, why = timers.state(context.host, TIMER, found.path), timers.why_off(context.host, TIMER)
    return Reading(path, state, boot, found.path, native=True, note=note, barred=why)


def folder_of(host: Host, claim: str) -> Found:
    """The folder of a declaration, or why there is none. Raises HostError."""
    found = Found(claim, "the declaration") if claim != own.AUTO else node_exporter.textfile_folder(host)
    if found.path and not host.exists(found.path):
        problem = f"{found.path} does not exist ({found.source}), so that node_exporter reads nothing there"
        return found._replace(problem=problem)
    return found


# -- the rest of a kind --------------------------------------------------------------------


def boot_files(name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
    """The drop-in that starts the timer."""
    return timers.boot_files(TIMER, name, rows, context)


def boot_sources(key: str, host: Host) -> list[str]:
    """Files that start the timer, and the place where the folder is configured."""
    del key
    found = node_exporter.textfile_folder(host)
    where = f"{found.source}: {found.path}" if found.path else found.problem
    return [*timers.starts(TIMER, host), where]


#: Never: there is one setting.
conflicts = no_conflicts
facts = no_facts
keeps = never_kept


def info(key: str, runtime: Value) -> Info:
    """Severity and reason."""
    del key, runtime
    return Info(
        Severity.MEDIUM,
        "without it drift of this node is seen only when a playbook looks for it",
        "docs/guide/watching.md",
    )
