# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts common to all kinds whose rules are for NICs."""

from __future__ import annotations

from typing import Callable, Sequence

from ...engine.kind import Context, Info, Row
from ...model.setting import BootFile, Reading, Setting, Severity, Value
from ...topology import management
from ..rules import RuleKind
from .ports import Found


class NicKind(RuleKind):
    """A kind whose rules are for NICs."""

    def read(self, settings: Sequence[Setting], context: Context) -> list[Reading]:
        return report_once(settings, super().read(settings, context), self.info)

    def boot_files(self, name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
        """Interfaces over which the node is managed, for a boot that has no route yet."""
        content = management.record(context.host) if rows and context.runtime else None
        return [BootFile(management.RECORD, content)] if content is not None else []


def unread(setting: Setting, selected: Found, context: Context) -> Reading:
    """Reading of a setting whose rule has no NIC. If none matches, it refers to itself; see report_once()."""
    boot = context.boot_by_agent(setting, None)
    refers = setting.key if selected.nowhere else ""
    return Reading(
        setting.path,
        selected.problem,
        boot,
        refers=refers,
        missing=selected.missing,
        elsewhere=selected.elsewhere,
    )


def report_once(
    settings: Sequence[Setting], readings: Sequence[Reading], info: Callable[[str, Value], Info]
) -> list[Reading]:
    """Let only one setting of a rule report that no NIC matches, and the others refer to it. It is one of the
    most severe, as it stands for all.
    """
    order = [*Severity]
    bearers: dict[str, tuple[int, str]] = {}
    for setting, reading in zip(settings, readings):
        if reading.refers:
            rank = (order.index(info(setting.key, reading.runtime).severity), setting.key)
            first = bearers.setdefault(rule_of(setting), rank)
            bearers[rule_of(setting)] = first if first[0] <= rank[0] else rank
    results = []
    for setting, reading in zip(settings, readings):
        key = bearers[rule_of(setting)][1] if reading.refers else ""
        if key and key != setting.key:
            reason = f"the rule {rule_of(setting)} means no NIC here: see {key}"
            results.append(reading._replace(runtime=Value(absent=reason), refers=key, missing=False))
        else:
            results.append(reading._replace(refers=""))
    return results


def rule_of(setting: Setting) -> str:
    """Name of a setting's rule. Keys are KIND.RULE, with or without a further word."""
    return setting.key.split(".")[1]
