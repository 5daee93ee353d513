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

#: A name that declares, one of its settings, and what is allowed there
Other = Tuple[str, Any, Context]


def unique(settings: Iterable[Setting]) -> list[Setting]:
    """Raises DeclarationError where two rules have one name."""
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
        """One reading per setting. Raises DeclarationError where two rules want one file to be different."""
        if not context.runtime:
            return [self.unseen(item, context) for item in settings]
        readings = self.together(settings, [self.read_one(item, context) for item in settings], context)
        refuse_overlap(context, zip(settings, readings), of_others(context, self), self.read_one)
        return readings

    def unseen(self, setting: Any, context: Context) -> Reading:
        """Reading for an image, on which no device is inspected."""
        return Reading(setting.path, Value(), context.boot_by_agent(setting, None))

    def together(
        self, settings: Sequence[Setting], readings: list[Reading], context: Context
    ) -> list[Reading]:
        """The readings with what they mean for each other."""
        return readings


def lowers(parts: Iterable[KnobFile], why: str) -> str:
    """The numbers of devices that less is wanted of, and why; empty if of none."""
    pairs = []
    for part in parts:
        now, want = values.number(part.runtime), values.number(part.want)
        if now is not None and want is not None and want < now:
            pairs.append((part.runtime, part.named))
    return f"{', '.join(grouped(pairs))}, {why}" if pairs else ""


def of_others(context: Context, kind: Kind) -> list[Other]:
    """The settings of other declarations, with what is allowed there. Errors are reported by their run."""
    if not context.runtime:
        return []
    entries: list[Other] = []
    for declaration in declared.expected(context.host):
        if declaration.name == context.name or kind.KIND not in declaration.kinds:
            continue
        try:
            spec = declaration.of(kind.KIND, kind.OPTIONS)
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
    """Two rules that mean one device and want something else of it would undo each other at every run; one
    that wants a least number is content with more.

    others: as of_others(), which read() looks at. shared: files for which that cannot be. Raises
    DeclarationError.
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
                # What is there may be greater than the floor, and a device may have less.
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
