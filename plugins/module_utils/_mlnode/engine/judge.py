# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one status of a setting, from its wanted and its read values. Pure, except for with_bar()."""

from __future__ import annotations

from typing import Sequence

from ..host import mountinfo
from ..model import cause as why
from ..model import values
from ..model.cause import Cause
from ..model.setting import Layer, Reading, Setting, Status
from .kind import AGENT_UNIT, Context, Row

#: An empty value, visible to people
EMPTY = '""'


def judge(setting: Setting, reading: Reading, context: Context) -> tuple[Status, tuple[Cause, ...]]:
    """The present status of a setting, and its causes."""
    if context.runtime:
        if reading.runtime.absent is not None:
            return _alone(Status.DRIFTED if reading.missing else Status.UNSUPPORTED, reading.runtime.absent)
        if reading.runtime.text is None:
            return _alone(Status.UNKNOWN, reading.runtime.problem)
        if reading.invalid:
            return _alone(Status.REFUSED, reading.invalid)
        if reading.managed:
            return _alone(Status.MANAGED, reading.managed)
        if differs(reading):
            if reading.blocked:
                return _alone(Status.UNSUPPORTED, reading.blocked)
            if reading.refusal:
                return _alone(Status.REFUSED, reading.refusal)
            if reading.at_boot:
                return _waiting(setting, reading, context)
            return Status.DRIFTED, _drift(setting, reading, context)
    elif reading.refusal:
        return _alone(Status.REFUSED, reading.refusal)
    elif reading.boot.value.absent is not None and reading.boot.value == reading.runtime:
        # One reason for both layers: nothing on this node could have it.
        return _alone(Status.UNSUPPORTED, reading.boot.value.absent)
    if context.boot:
        fault = _boot_fault(setting, reading)
        if fault:
            return fault[0], (fault[1],)
    kept = more_than_declared(setting, reading) if context.runtime else ""
    beside = (*_said(why.MORE, kept), *_said(why.NOTE, reading.note), *_elsewhere(reading, context))
    if reading.clamped and context.runtime:
        return Status.CLAMPED, (*_said(str(Status.CLAMPED), reading.clamped), *beside)
    return Status.OK, beside


def _alone(status: Status, text: str) -> tuple[Status, tuple[Cause, ...]]:
    return status, _said(str(status), text)


def _said(code: str, text: str) -> tuple[Cause, ...]:
    return (Cause(Layer.RUNTIME, code, text=text),) if text else ()


def _elsewhere(reading: Reading, context: Context) -> tuple[Cause, ...]:
    """Reference to the row that judges the boot layer, if there is another one."""
    row = reading.boot.row if context.boot else ""
    return (Cause(Layer.BOOT, why.SEE, text=f"see {row}"),) if row else ()


def more_than_declared(setting: Setting, reading: Reading) -> str:
    """Message about the higher values that a raise-only setting keeps; empty if no value is higher."""
    floor = setting.floor or setting.want
    if not setting.raise_only or not floor:
        return ""
    parts = (part.runtime for part in reading.parts)
    more = [text for text in parts if values.reaches(floor, text) and not values.same(floor, text)]
    return f"{', '.join(dict.fromkeys(more))} is more than declared" if more else ""


def _waiting(setting: Setting, reading: Reading, context: Context) -> tuple[Status, tuple[Cause, ...]]:
    """Judge a value that only a boot can bring: the boot layer carries it, or must be repaired."""
    drift = (*_value(reading), *_lowered(reading))
    fault = _boot_fault(setting, reading)
    if fault:
        return fault[0], (*drift, fault[1])
    if reading.boot.row:
        return Status.DRIFTED, (*drift, *_elsewhere(reading, context))
    return Status.PENDING_REBOOT, (*drift, *_said(why.WAITS, f"the next boot brings {reading.want or EMPTY}"))


def _drift(setting: Setting, reading: Reading, context: Context) -> tuple[Cause, ...]:
    fault = _boot_fault(setting, reading) if context.boot else None
    causes = [*_value(reading), *([reading.setter] if reading.setter else [])]
    causes += [*_lowered(reading), *_said(why.BARRED, reading.barred)]
    causes += [fault[1]] if fault else _elsewhere(reading, context)
    known = any(reading.note in cause.text for cause in causes)
    return (*causes, *(() if known else _said(why.NOTE, reading.note)))


def _value(reading: Reading) -> tuple[Cause, ...]:
    return _said(why.DIFFERS, f"runtime is {reading.runtime.text or EMPTY}")


def _lowered(reading: Reading) -> tuple[Cause, ...]:
    return _said(why.LOWERS, f"lowers {reading.lowers}" if reading.lowers else "")


def with_bar(reading: Reading, context: Context) -> Reading:
    """The reading with the reason why a file to be written cannot be."""
    if not context.runtime or reading.blocked or not differs(reading):
        return reading
    paths = [part.path for part in reading.parts if part.differs] or [reading.path]
    bars = (mountinfo.barred(context.host, path) for path in paths)
    return reading._replace(barred=reading.barred or next(filter(None, bars), ""))


def differs(reading: Reading) -> bool:
    """True if the kernel's present value differs from the wanted one."""
    if reading.want is None:
        return False
    if reading.parts:  # even if one of many could not be read
        return any(part.differs for part in reading.parts)
    runtime = reading.runtime.text
    return runtime is not None and not values.same(runtime, reading.want)


def _boot_fault(setting: Setting, reading: Reading) -> tuple[Status, Cause] | None:
    """Fault of the boot layer, or None."""
    boot = reading.boot
    if boot.row:
        return None
    if boot.value.unreadable is not None:
        return Status.UNKNOWN, Cause(Layer.BOOT, str(Status.UNKNOWN), text=boot.value.unreadable)
    if boot.value.text is not None and _suffices(setting, reading, boot.value.text):
        return None
    status = Status.OVERRIDDEN if boot.foreign else Status.DRIFTED
    if boot.value.problem:
        return status, why.told(Layer.BOOT, str(status), boot.source, boot.value.problem)
    return status, why.placed(Layer.BOOT, str(status), boot.source, f"sets {boot.value.text or EMPTY}")


def _suffices(setting: Setting, reading: Reading, text: str) -> bool:
    if reading.want is None:  # `auto` left to the agent
        return True
    # The agent brings exactly the declared value, resolved at the next boot.
    if reading.boot.source == AGENT_UNIT:
        return True
    if not setting.raise_only or setting.want is None:  # the reading has each device's value
        return values.same(text, reading.want)
    return values.reaches(setting.want or "", text)


def waits_for_boot(rows: Sequence[Row]) -> bool:
    """True if something takes effect only after a reboot; for a check, if the predicted run ends so."""
    return any(
        row.status is Status.PENDING_REBOOT
        or (row.status is Status.DRIFTED and row.reading.at_boot and differs(row.reading))
        for row in rows
    )
