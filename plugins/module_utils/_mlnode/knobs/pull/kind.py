# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind pull: a timer that looks for a new declaration of this node on a web server."""

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
from ...model.errors import DeclarationError
from ...model.schema import Checked
from ...model.setting import BootFile, Reading, Setting, Severity, Value
from .. import timers
from . import schema as own

OPTIONS = own.OPTIONS
KIND = "pull"
MOUNTS: Mounts = {}

KEY = "pull.url"
TIMER = timers.Timer(
    places.PULL_TIMER, (places.PULL_SERVICE,), places.PULL_DROP_IN, "a new declaration is looked for"
)


def parse(given: Checked, facts: Facts | None) -> list[Setting]:
    """At most one setting. Raises DeclarationError."""
    del facts
    if not given:
        return []
    for name in ("url", "node", "signers"):
        if not given.get(name):
            raise DeclarationError(f"{KIND}.{name}: is required")
    return [Setting(KIND, KEY, TIMER.path, given["url"], given["url"])]


def read(settings: Sequence[Setting], context: Context) -> list[Reading]:
    """The address, if the timer runs."""
    return read_each(settings, context, _read)


def _read(setting: Setting, context: Context) -> Reading:
    url = setting.claim
    runtime = timers.state(context.host, TIMER, url) if context.runtime else Value()
    why = timers.why_off(context.host, TIMER) if context.runtime else ""
    boot = timers.boot(TIMER, url, context)
    return Reading(setting.path, runtime, boot, url, native=True, barred=why)


def boot_files(name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
    """The drop-in that starts the timer."""
    return timers.boot_files(TIMER, name, rows, context)


def boot_sources(key: str, host: Host) -> list[str]:
    """Files that start the timer."""
    del key
    return timers.starts(TIMER, host)


#: Never: there is one setting.
conflicts = no_conflicts
facts = no_facts
keeps = never_kept


def info(key: str, runtime: Value) -> Info:
    """Severity and reason."""
    del key, runtime
    return Info(
        Severity.MEDIUM,
        "without it this node stays as it was declared when a playbook was last played on it",
        "docs/guide/pull.md",
    )
