# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind metrics: a timer that checks the node, and the folder where node_exporter finds what it has seen.

The units of the timer are installed with the agent, and nothing starts them. A drop-in of timers.target, one
for each declaration, does: several of them agree on it, and it is off again once the last one is gone.
"""

from __future__ import annotations

from typing import Sequence

from ...engine import boot_service
from ...engine.handlers import UNITS
from ...engine.kind import (
    AGENT_ROW,
    Context,
    Facts,
    Info,
    Row,
    Spec,
    never_kept,
    no_conflicts,
    no_facts,
    read_each,
)
from ...engine.units import CHECK_TIMER_FILE
from ...host import places
from ...host.host import Host, Mounts
from ...linux import node_exporter, systemd_show
from ...linux.node_exporter import Found
from ...model import schema
from ...model.setting import Boot, BootFile, Reading, Setting, Severity, Value
from . import schema as own

OPTIONS = own.OPTIONS
KIND = "metrics"
MOUNTS: Mounts = {}

KEY = "metrics.textfile"
#: A link that systemd keeps of each active unit, since 237 (src/core/unit.c: unit_export_state_files): a
#: captured tree has it, too
_ACTIVE = f"/run/systemd/units/invocation:{places.CHECK_TIMER}"
#: Of the timer; on, it is the folder
OFF = "off"


def parse(spec: Spec, facts: Facts | None) -> list[Setting]:
    """At most one setting. Raises DeclarationError."""
    del facts  # what is automatic is found in read(), whatever becomes of it
    given = schema.checked(KIND, spec, OPTIONS)
    if not given:
        return []
    folder = given["textfile_directory"]
    return [Setting(KIND, KEY, CHECK_TIMER_FILE, None if folder == own.AUTO else folder, folder)]


def drop_in(name: str) -> str:
    """Path of the file that starts the timer for a declaration."""
    return places.CHECK_DROP_IN.replace("NAME", name)


def _content(name: str) -> bytes:
    return (
        f"# Written by mlnode.tuning for the declaration {name}: the node is checked on a timer.\n"
        f"[Unit]\nWants={places.CHECK_TIMER}\n"
    ).encode("ascii")


# -- reading -------------------------------------------------------------------------------


def read(settings: Sequence[Setting], context: Context) -> list[Reading]:
    """The folder, if the timer runs."""
    return read_each(settings, context, _read)


def _read(setting: Setting, context: Context) -> Reading:
    if not context.runtime:  # the folder is found on the machine that boots
        return Reading(setting.path, Value(), _boot(setting.claim, context), setting.want, native=True)
    found = folder_of(context.host, setting.claim)
    boot = _boot(found.path or setting.claim, context)
    if found.problem:
        lacking = Value(absent=found.problem)
        return Reading(setting.path, lacking, boot, found.path or None, missing=True, native=True)
    path = f"{found.path}/{node_exporter.FILE}"
    note = f"as {found.source} has it" if setting.claim == own.AUTO else ""
    return Reading(path, _state(context.host, found.path), boot, found.path, native=True, note=note)


def _state(host: Host, folder: str) -> Value:
    """The folder into which the timer writes, or that it is off."""
    if not host.systemd_runs():
        return Value(absent="systemd does not run here, and has the timer")
    shown = systemd_show.units(host).get(places.CHECK_TIMER, {}).get("ActiveState")
    return Value(text=folder if shown == ("active",) or host.is_link(_ACTIVE) else OFF)


def _boot(folder: str, context: Context) -> Boot:
    """The folder, if the next boot starts the timer."""
    host, path = context.host, drop_in(context.name)
    if not context.agent:
        row = AGENT_ROW if context.agent_row else ""
        if context.agent_unread:
            return Boot(Value(unreadable=context.agent_unread), row=row)
        return Boot(Value(absent=f"nothing starts the timer, as {context.agent_fault}"), row=row)
    fault = next((str(fault) for fault in boot_service.check_faults(host, context.runtime)), "")
    if fault:
        return Boot(Value(absent=fault), CHECK_TIMER_FILE)
    if host.content(path) != _content(context.name):
        return Boot(Value(absent=f"{path} does not start {places.CHECK_TIMER}"), path)
    return Boot(Value(text=folder), path)


def folder_of(host: Host, claim: str) -> Found:
    """The folder of a declaration, or why there is none. Raises HostError."""
    found = Found(claim, "the declaration") if claim != own.AUTO else node_exporter.textfile_folder(host)
    if found.path and not host.exists(found.path):
        problem = f"{found.path} does not exist ({found.source}), so that node_exporter reads nothing there"
        return found._replace(problem=problem)
    return found


# -- the rest of a kind --------------------------------------------------------------------


def boot_files(name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
    """The drop-in; systemd is notified of one that is right while the timer is off."""
    is_off = any(row.reading.runtime.text == OFF for row in rows)
    content = _content(name) if rows else None
    return [BootFile(drop_in(name), content, UNITS, stale=context.runtime and is_off)]


def boot_sources(key: str, host: Host) -> list[str]:
    """Files that start the timer, and the place where the folder is configured."""
    del key
    found = node_exporter.textfile_folder(host)
    where = f"{found.source}: {found.path}" if found.path else found.problem
    return [*(f"{path} starts it" for path in host.matching(drop_in("*"))), where]


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
