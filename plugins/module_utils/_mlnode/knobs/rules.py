# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts common to all kinds that declare rules, each for many devices: NICs, block devices, mounts."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Sequence, Tuple

from ..engine import declared
from ..engine.kind import Context, Kind, reasoned
from ..model import values
from ..model.errors import DeclarationError, MlnodeError
from ..model.schema import Option
from ..model.setting import KnobFile, Reading, Setting, Value
from .summary import grouped

#: Name of a declaration, one of its settings, and the context with its permissions
Other = Tuple[str, Any, Context]


def unique(settings: Iterable[Setting]) -> list[Setting]:
    """Settings with unique keys. Raises DeclarationError if two rules have the same name."""
    by_key: dict[str, Setting] = {}
    for setting in settings:
        if setting.key in by_key:
            raise DeclarationError(f"{setting.key} is declared by two rules: give each its own name")
        by_key[setting.key] = setting
    return list(by_key.values())


class RuleKind(Kind):
    """A kind whose settings come from rules, as its option `rules` has them. Keys are KIND.RULE.WORD."""

    def option(self, key: str) -> Option:
        return reasoned(self.OPTIONS["rules"].suboptions, key.split(".")[2:])

    def read(self, settings: Sequence[Setting], context: Context) -> list[Reading]:
        """One reading per setting. Raises DeclarationError if two rules want different values of a file."""
        if not context.runtime:
            return [self.unseen(item, context) for item in settings]
        readings = self.together(settings, [self.read_one(item, context) for item in settings], context)
        refuse_overlap(context, zip(settings, readings), of_others(context, self), self.read_one)
        return readings

    def unseen(self, setting: Any, context: Context) -> Reading:
        """Reading for an image build, which inspects no device."""
        return Reading(setting.path, Value(), context.boot_by_agent(setting, None))

    def together(
        self, settings: Sequence[Setting], readings: list[Reading], context: Context
    ) -> list[Reading]:
        """Readings, adjusted for their effect on each other."""
        return readings


def lowers(parts: Iterable[KnobFile], why: str) -> str:
    """Values that a write would lower, with their devices and the reason; empty if there are none."""
    pairs = []
    for part in parts:
        now, want = values.number(part.runtime), values.number(part.want)
        if now is not None and want is not None and want < now:
            pairs.append((part.runtime, part.named))
    return f"{', '.join(grouped(pairs))}, {why}" if pairs else ""


def of_others(context: Context, kind: Kind) -> list[Other]:
    """Settings of other declarations, with their permissions. Invalid declarations are skipped: their own run
    reports the error.
    """
    if not context.runtime:
        return []
    entries: list[Other] = []
    for declaration in declared.expected(context.host):
        if declaration.name == context.name or kind.KIND not in declaration.kinds:
            continue
        try:
            spec = declaration.checked_spec(kind.KIND, kind.OPTIONS)
            settings = kind.parse(spec, None)
        except MlnodeError:
            continue
        there = context._replace(allow=tuple(spec.get("allow", ())), spec=spec)
        entries += [(declaration.name, item, there) for item in settings]
    return entries


def refuse_overlap(
    context: Context,
    own: Iterable[tuple[Setting, Reading]],
    others: Iterable[Other],
    read: Callable[[Any, Context], Reading],
    shared: Sequence[str] = (),
) -> None:
    """Refuse rules that want different values for one device, as they would undo each other at every run.

    A floor does not conflict with a higher value. others: settings from of_others(), to be read by read().
    shared: files that are never in conflict. Raises DeclarationError.
    """
    reads = [(context.name, setting, reading) for setting, reading in own]
    reads += [(name, setting, read(setting, there)) for name, setting, there in others]
    wanted: dict[str, tuple[str, str]] = {}
    floors: list[tuple[str, str, str]] = []
    for where, setting, reading in reads:
        if reading.invalid or reading.refusal:
            continue
        for part in reading.parts:
            if part.path in shared:
                continue
            key = setting.key if where == context.name else f"{setting.key} (declared by {where})"
            if setting.raise_only:
                # The present value may exceed the floor, and a device may have a lower maximum.
                floors.append((part.path, key, min(setting.floor, part.want, key=_number)))
                continue
            first, value = wanted.setdefault(part.path, (key, part.want))
            if value != part.want:
                raise _overlap(part.path, first, value, key, part.want)
    for path, key, want in floors:
        first, value = wanted.get(path, (key, want))
        if not values.reaches(want, value):
            raise _overlap(path, first, value, key, f"{want} or more")


def _number(text: str) -> float:
    number = values.number(text)
    return float("inf") if number is None else number


def _overlap(path: str, first: str, value: str, second: str, want: str) -> DeclarationError:
    return DeclarationError(
        f"{first} and {second} both rule {path}, and one wants {value}, the other {want}: "
        "have them choose different devices"
    )
