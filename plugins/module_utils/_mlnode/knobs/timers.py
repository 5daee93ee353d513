# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Timers of the agent that run where they are declared.

Their units are installed with the agent, and nothing starts them. A drop-in of timers.target, one for each
declaration, does: several of them agree on it, and it is off again once the last one is gone.
"""

from __future__ import annotations

from typing import Sequence

from ..engine import boot_service
from ..engine.handlers import UNITS
from ..engine.kind import AGENT_ROW, Context, Row
from ..engine.units import UNIT_FOLDER
from ..host import places, unit_words
from ..host.host import Host
from ..linux import systemd_show
from ..model.record import NamedTuple
from ..model.setting import Boot, BootFile, Value

#: Of a timer; on, it is what is declared
OFF = "off"


class Timer(NamedTuple):
    """drop_in: path of the file that starts it, with NAME for the declaration. about: what it does, for the
    first line of that file."""

    unit: str
    service: str
    drop_in: str
    about: str

    @property
    def path(self) -> str:
        return f"{UNIT_FOLDER}/{self.unit}"


def drop_in(timer: Timer, name: str) -> str:
    """Path of the file that starts the timer for a declaration."""
    return timer.drop_in.replace("NAME", name)


def _content(timer: Timer, name: str) -> bytes:
    about = f"# Written by mlnode.tuning for the declaration {name}: {timer.about} on a timer.\n"
    return f"{about}[Unit]\nWants={timer.unit}\n".encode("ascii")


def state(host: Host, timer: Timer, declared: str) -> Value:
    """The declared value if the timer runs, or that it is off."""
    if not host.systemd_runs():
        return Value(absent="systemd does not run here, and has the timer")
    shown = systemd_show.units(host).get(timer.unit, {}).get("ActiveState")
    # A link that systemd keeps of each active unit, since 237 (src/core/unit.c: unit_export_state_files): a
    # captured tree has it, too
    is_active = shown == ("active",) or host.is_link(f"/run/systemd/units/invocation:{timer.unit}")
    return Value(text=declared if is_active else OFF)


def why_off(host: Host, timer: Timer) -> str:
    """The last lines of a timer that could not be started; empty of one that runs or was stopped."""
    if systemd_show.units(host).get(timer.unit, {}).get("ActiveState") != ("failed",):
        return ""
    return f"{timer.unit}: {unit_words.last(host, timer.unit)}"


def boot(timer: Timer, declared: str, context: Context) -> Boot:
    """The declared value, if the next boot starts the timer."""
    host, path = context.host, drop_in(timer, context.name)
    if not context.agent:
        row = AGENT_ROW if context.agent_row else ""
        if context.agent_unread:
            return Boot(Value(unreadable=context.agent_unread), row=row)
        return Boot(Value(absent=f"nothing starts the timer, as {context.agent_fault}"), row=row)
    faults = boot_service.timer_faults(host, (timer.unit, timer.service), context.runtime)
    for fault in sorted(faults, key=lambda one: not one.judged):
        problem = str(fault)
        return Boot(Value(absent=problem) if fault.judged else Value(unreadable=problem), timer.path)
    if host.content(path) != _content(timer, context.name):
        return Boot(Value(absent=f"{path} does not start {timer.unit}"), path)
    return Boot(Value(text=declared), path)


def boot_files(timer: Timer, name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
    """The drop-in; systemd is notified of one that is right while the timer is off."""
    is_off = any(row.reading.runtime.text == OFF for row in rows)
    content = _content(timer, name) if rows else None
    return [BootFile(drop_in(timer, name), content, UNITS, stale=context.runtime and is_off)]


def starts(timer: Timer, host: Host) -> list[str]:
    """A message for each file that starts the timer."""
    return [f"{path} starts it" for path in host.matching(places.pattern(timer.drop_in))]
