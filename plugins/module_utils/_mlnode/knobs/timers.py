# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Timers of the agent that run only on nodes that declare them.

The agent's installation includes their units, but starts none. Each declaration adds a drop-in of
timers.target that does. Several declarations can share a timer; it stops when the last one is removed.
"""

from __future__ import annotations

from typing import Sequence

from ..engine import boot_service
from ..engine.handlers import UNITS
from ..engine.kind import AGENT_ROW, Context, Kind, Row
from ..engine.units import UNIT_FOLDER
from ..host import places, unit_words
from ..host.host import Host
from ..linux import systemd_show
from ..model.schema import Option
from ..model.setting import Boot, BootFile, Reading, Setting, Value

#: The value of a disabled timer; an enabled timer has its declared value
OFF = "off"


class TimerKind(Kind):
    """A kind with one setting, which switches its timers.

    DROP_IN: path of the file that starts them, with NAME for the declaration. ABOUT: their purpose, for the
    first line of that file.
    """

    DROP_IN: str
    ABOUT: str

    @property
    def timers(self) -> tuple[str, ...]:
        return tuple(unit for unit in places.TIMED[self.DROP_IN] if unit.endswith(".timer"))

    @property
    def path(self) -> str:
        """The file of the first timer."""
        return f"{UNIT_FOLDER}/{self.timers[0]}"

    def read_one(self, setting: Setting, context: Context) -> Reading:
        """The declared value, if the timers run."""
        return self.reading(setting, setting.claim, context)

    def reading(self, setting: Setting, want: str, context: Context) -> Reading:
        """want: the declared value here."""
        boot = self._boot(want, context)
        if not context.runtime:
            return Reading(setting.path, Value(), boot, setting.want)
        runtime, why = self._state(context.host, want), self._why_off(context.host)
        return Reading(setting.path, runtime, boot, want, barred=why)

    def _state(self, host: Host, want: str) -> Value:
        if not host.systemd_runs():
            return Value(absent="systemd does not run here, and has the timer")
        return Value(text=want if all(_is_active(host, unit) for unit in self.timers) else OFF)

    def _why_off(self, host: Host) -> str:
        """The last log lines of a timer that failed to start; empty if it runs or was stopped."""
        for unit in self.timers:
            if systemd_show.units(host).get(unit, {}).get("ActiveState") == ("failed",):
                return f"{unit}: {unit_words.last(host, unit)}"
        return ""

    def _boot(self, want: str, context: Context) -> Boot:
        """The declared value, if the next boot starts the timers."""
        host, path = context.host, self._drop_in(context.name)
        if not context.agent:
            row = AGENT_ROW if context.agent_row else ""
            if context.agent_unread:
                return Boot(Value(unreadable=context.agent_unread), row=row)
            return Boot(Value(absent=f"nothing starts the timer, as {context.agent_fault}"), row=row)
        faults = boot_service.timer_faults(host, places.TIMED[self.DROP_IN], context.runtime)
        for fault in sorted(faults, key=lambda fault: not fault.judged):
            problem = str(fault)
            return Boot(Value(absent=problem) if fault.judged else Value(unreadable=problem), self.path)
        if host.content(path) != self._content(context.name):
            return Boot(Value(absent=f"{path} does not start {' and '.join(self.timers)}"), path)
        return Boot(Value(text=want), path)

    def _drop_in(self, name: str) -> str:
        return self.DROP_IN.replace("NAME", name)

    def _content(self, name: str) -> bytes:
        about = f"# Written by mlnode.tuning for the declaration {name}: {self.ABOUT} on a timer.\n"
        return f"{about}[Unit]\nWants={' '.join(self.timers)}\n".encode("ascii")

    def boot_files(self, name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
        """The drop-in. If it is right but the timer is off, systemd is notified all the same."""
        is_off = any(row.reading.runtime.text == OFF for row in rows)
        content = self._content(name) if rows else None
        return [BootFile(self._drop_in(name), content, UNITS, stale=context.runtime and is_off)]

    def option(self, key: str) -> Option:
        """The first option; the others only refine it."""
        return next(iter(self.OPTIONS.values()))

    def boot_sources(self, key: str, host: Host) -> list[str]:
        """The files that start the timer."""
        return [f"{path} starts it" for path in host.matching(places.pattern(self.DROP_IN))]


def _is_active(host: Host, unit: str) -> bool:
    shown = systemd_show.units(host).get(unit, {}).get("ActiveState")
    # A link that systemd keeps of each active unit, since 237 (src/core/unit.c: unit_export_state_files): a
    # captured tree has it, too
    return shown == ("active",) or host.is_link(f"/run/systemd/units/invocation:{unit}")
