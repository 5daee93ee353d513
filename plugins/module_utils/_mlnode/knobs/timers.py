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
    first line of that file. also: timers that the same file starts. services: of all of them."""

    unit: str
    services: Sequence[str]
    drop_in: str
    about: str
    also: Sequence[str] = ()

    @property
    def path(self) -> str:
        return f"{UNIT_FOLDER}/{self.unit}"

    @property
    def units(self) -> tuple[str, ...]:
        """All timers."""
        return (self.unit, *self.also)


def drop_in(timer: Timer, name: str) -> str:
    """Path of the file that starts the timer for a declaration."""
    return timer.drop_in.replace("NAME", name)


def _content(timer: Timer, name: str) -> bytes:
    about = f"# Written by mlnode.tuning for the declaration {name}: {timer.about} on a timer.\n"
    return f"{about}[Unit]\nWants={' '.join(timer.units)}\n".encode("ascii")


def state(host: Host, timer: Timer, declared: str) -> Value:
    """The declared value if all its timers run, or that one is off."""
    if not host.systemd_runs():
        return Value(absent="systemd does not run here, and has the timer")
    return Value(text=declared if all(_is_active(host, unit) for unit in timer.units) else OFF)


def _is_active(host: Host, unit: str) -> bool:
    shown = systemd_show.units(host).get(unit, {}).get("ActiveState")
    # A link that systemd keeps of each active unit, since 237 (src/core/unit.c: unit_export_state_files): a
    # captured tree has it, too
    return shown == ("active",) or host.is_link(f"/run/systemd/units/invocation:{unit}")


def why_off(host: Host, timer: Timer) -> str:
    """The last lines of a timer that could not be started; empty of one that runs or was stopped."""
    for unit in timer.units:
        if systemd_show.units(host).get(unit, {}).get("ActiveState") == ("failed",):
            return f"{unit}: {unit_words.last(host, unit)}"
    return ""


def boot(timer: Timer, declared: str, context: Context) -> Boot:
    """The declared value, if the next boot starts the timer."""
    host, path = context.host, drop_in(timer, context.name)
    if not context.agent:
        row = AGENT_ROW if context.agent_row else ""
        if context.agent_unread:
            return Boot(Value(unreadable=context.agent_unread), row=row)
        return Boot(Value(absent=f"nothing starts the timer, as {context.agent_fault}"), row=row)
    faults = boot_service.timer_faults(host, (*timer.units, *timer.services), context.runtime)
    for fault in sorted(faults, key=lambda one: not one.judged):
        problem = str(fault)
        return Boot(Value(absent=problem) if fault.judged else Value(unreadable=problem), timer.path)
    if host.content(path) != _content(timer, context.name):
        return Boot(Value(absent=f"{path} does not start {' and '.join(timer.units)}"), path)
    return Boot(Value(text=declared), path)


def boot_files(timer: Timer, name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
    """The drop-in; systemd is notified of one that is right while the timer is off."""
    is_off = any(row.reading.runtime.text == OFF for row in rows)
    content = _content(timer, name) if rows else None
    return [BootFile(drop_in(timer, name), content, UNITS, stale=context.runtime and is_off)]


def starts(timer: Timer, host: Host) -> list[str]:
    """A message for each file that starts the timer."""
    return [f"{path} starts it" for path in host.matching(places.pattern(timer.drop_in))]
