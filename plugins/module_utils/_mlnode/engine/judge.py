# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one status of a setting, from what is wanted and what was read. Pure, but for with_bar()."""

from __future__ import annotations

from typing import Sequence

from ..host import mountinfo
from ..model import values
from ..model.setting import Reading, Setting, Status
from .kind import AGENT_UNIT, Context, Row

#: An empty value, as people can see it
EMPTY = '""'


def judge(setting: Setting, reading: Reading, context: Context) -> tuple[Status, str]:
    """The one status of a setting as the node is now, and why."""
    if context.runtime:
        if reading.runtime.absent is not None:
            return Status.DRIFTED if reading.missing else Status.UNSUPPORTED, reading.runtime.absent
        if reading.runtime.text is None:
            return Status.UNKNOWN, reading.runtime.problem
        if reading.invalid:
            return Status.REFUSED, reading.invalid
        if reading.managed:
            return Status.MANAGED, reading.managed
        if differs(reading):
            if reading.blocked:
                return Status.UNSUPPORTED, reading.blocked
            if reading.refusal:
                return Status.REFUSED, reading.refusal
            if reading.at_boot:
                return _waiting(setting, reading, context)
            return Status.DRIFTED, _drift_words(setting, reading, context)
    elif reading.refusal:
        return Status.REFUSED, reading.refusal
    elif reading.boot.value.absent is not None and reading.boot.value == reading.runtime:
        # One reason for both layers: nothing is here that could have it.
        return Status.UNSUPPORTED, reading.boot.value.absent
    if context.boot:
        fault = _boot_fault(setting, reading)
        if fault:
            return fault
    kept = more_than_declared(setting, reading) if context.runtime else ""
    if reading.clamped and context.runtime:
        return Status.CLAMPED, _joined(reading.clamped, kept, reading.note, _elsewhere(reading, context))
    return Status.OK, _joined(kept, reading.note, _elsewhere(reading, context))


def _joined(*parts: str) -> str:
    return "; ".join(text for text in parts if text)


def _elsewhere(reading: Reading, context: Context) -> str:
    """Reference to the row that judges the boot layer, if another one does."""
    return f"boot: see {reading.boot.row}" if context.boot and reading.boot.row else ""


def more_than_declared(setting: Setting, reading: Reading) -> str:
    """Words about the values that a setting which is only raised keeps; empty where none is more."""
    floor = setting.floor or setting.want
    if not setting.raise_only or not floor:
        return ""
    parts = (part.runtime for part in reading.parts)
    more = [text for text in parts if values.reaches(floor, text) and not values.same(floor, text)]
    return f"{', '.join(dict.fromkeys(more))} is more than declared" if more else ""


def _waiting(setting: Setting, reading: Reading, context: Context) -> tuple[Status, str]:
    """A value that only a boot can bring: the boot layer carries it, or is what has to be mended."""
    drift = f"runtime is {reading.runtime.text or EMPTY}{_lowered(reading)}"
    fault = _boot_fault(setting, reading)
    if fault:
        return fault[0], f"{drift}; {fault[1]}"
    if reading.boot.row:
        return Status.DRIFTED, _joined(drift, _elsewhere(reading, context))
    return Status.PENDING_REBOOT, f"{drift}; the next boot brings {reading.want or EMPTY}"


def _drift_words(setting: Setting, reading: Reading, context: Context) -> str:
    drift = f"runtime is {reading.runtime.text or EMPTY}"
    drift += f", as {reading.cause}" if reading.cause else ""
    drift += _lowered(reading)
    fault = _boot_fault(setting, reading) if context.boot else None
    words = _joined(drift, reading.barred, fault[1] if fault else _elsewhere(reading, context))
    return words if reading.note in words else _joined(words, reading.note)


def _lowered(reading: Reading) -> str:
    return f"; lowers {reading.lowers}" if reading.lowers else ""


def with_bar(reading: Reading, context: Context) -> Reading:
    """With the reason why a file that has to be written cannot be."""
    if not context.runtime or reading.blocked or not differs(reading):
        return reading
    paths = [part.path for part in reading.parts if part.differs] or [reading.path]
    bars = (mountinfo.barred(context.host, path) for path in paths)
    return reading._replace(barred=reading.barred or next(filter(None, bars), ""))


def differs(reading: Reading) -> bool:
    """True if the kernel's present value is not the wanted one."""
    if reading.want is None:
        return False
    if reading.parts:  # also where one of many could not be read
        return any(part.differs for part in reading.parts)
    runtime = reading.runtime.text
    return runtime is not None and not values.same(runtime, reading.want)


def _boot_fault(setting: Setting, reading: Reading) -> tuple[Status, str] | None:
    """Fault of the boot layer, or None."""
    boot = reading.boot
    if boot.row:
        return None
    if boot.value.unreadable is not None:
        return Status.UNKNOWN, boot.value.unreadable
    if boot.value.text is not None and _suffices(setting, reading, boot.value.text):
        return None
    fault = boot.value.problem or f"{boot.source} sets {boot.value.text or EMPTY}"
    return (Status.OVERRIDDEN if boot.foreign else Status.DRIFTED), f"boot: {fault}"


def _suffices(setting: Setting, reading: Reading, text: str) -> bool:
    if reading.want is None:  # `auto` left to the agent
        return True
    # It brings exactly what is declared, whatever number that is in the next boot.
    if reading.boot.source == AGENT_UNIT:
        return True
    if not setting.raise_only or setting.want is None:  # that of each device is in the reading
        return values.same(text, reading.want)
    return values.reaches(setting.want or "", text)


def waits_for_boot(rows: Sequence[Row]) -> bool:
    """True if something takes effect only after a reboot; of a check, if the run that it predicts ends so."""
    return any(
        row.status is Status.PENDING_REBOOT
        or (row.status is Status.DRIFTED and row.reading.at_boot and differs(row.reading))
        for row in rows
    )
