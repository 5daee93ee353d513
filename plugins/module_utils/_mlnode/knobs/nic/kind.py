# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind nic: rings, channels, interrupt coalescing, offloads, pause frames, private flags, FEC, MTU and
queue length of NICs (ethtool(8), ip-link(8)).

A NIC loses these values at every boot and driver load, and no system file covers them all. The agent
re-applies the rules at boot and when a NIC appears.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ...drivers import ethtool
from ...engine.kind import Context, Facts, Row
from ...host.host import Host, Mounts
from ...model.schema import Checked
from ...model.setting import EXACTLY, KnobFile, Reading, Setting, Write
from ...model.values import reaches, same
from .. import rules
from ..nics import owners
from ..nics import rules as nic_rules
from ..nics import targets as nic_targets
from ..summary import Files, Summary, grouped
from . import commands as nic_commands
from . import exclusive
from . import files as nic_files
from . import parse as nic_parse
from . import schema as own
from .guards import Guards
from .parse import NicSetting

# -- one setting ---------------------------------------------------------------------------


#: Groups of numbers that may be higher, at the cost of memory
_CAPACITIES = ("ring", "channels", "mtu", "tx_queue_len")


def _lowers(setting: NicSetting, reading: Reading) -> str:
    if setting.group not in _CAPACITIES:
        return ""
    word = setting.amount.word if setting.amount else ""
    why = {"auto": "as auto counts the cores near a NIC", "at_most": f"as {setting.amount} is declared"}
    return rules.lowers(reading.parts, why.get(word, EXACTLY))


def _excluded(host: Host, reading: Reading, wants: Mapping[str, str]) -> Reading:
    parts: list[KnobFile] = []
    mistakes: list[str] = []
    notes: list[tuple[str, str]] = []
    for part in reading.parts:
        nic = part.path.split("/")[2]
        exclusion = exclusive.look(host, nic, part, wants) if part.path.startswith(ethtool.TOP) else _NOTHING
        mistakes += [f"{nic}: {exclusion.declared}"] if exclusion.declared else []
        words = exclusion.ignored or ("" if part.differs else exclusion.state)
        notes += [(words, nic)] if words else []
        parts.append(part._replace(answer=exclusion.state) if exclusion.state and part.differs else part)
    return reading._replace(
        parts=tuple(parts),
        invalid=reading.invalid or "; ".join(mistakes),
        note="; ".join(filter(None, [reading.note, *grouped(notes)])),
    )


_NOTHING = exclusive.Excluded()


def _guarded(files: Files, setting: NicSetting, guards: Guards) -> Files:
    files.parts = [guards.guarded(setting, files.target, part) for part in files.parts]
    return files


# -- other owners --------------------------------------------------------------------------


def _others(setting: NicSetting, all_files: Sequence[Files], host: Host) -> list[owners.Other]:
    """Lines with another value than the wanted one, each with its NIC."""
    words = owners.interface_words(host, owners.of_machine(host))
    lines = (
        (device.label, word)
        for device in all_files
        for part in device.parts
        for word in words.get(device.label, ())
        if owners.means(word, setting.group, part.path.rpartition("/")[2])
        and not _suffices(setting, _number(host, word, part), part.want)
    )
    return [*dict.fromkeys(lines)]  # Once for all features of a family


def _suffices(setting: NicSetting, number: str, want: str) -> bool:
    """True if a line has the wanted value, or at least a wanted minimum."""
    if setting.raise_only and setting.amount is not None:
        return reaches(str(setting.amount.number) if setting.floor else want, number)
    return same(number, want)


def _number(host: Host, word: owners.Word, part: KnobFile) -> str:
    """The value of a line in the kernel's spelling."""
    if word.value != "max":
        return word.value
    folder, _slash, name = part.path.rpartition("/")
    return host.value(f"{folder}/max/{name}").text or word.value


def _undone_together(readings: Sequence[Reading]) -> list[Reading]:
    """Readings whose values are restored together if one write sets them.

    Separate writes would each be a reset. Kinds of channels one by one could leave a NIC without a queue, and
    some PHYs accept pause frames only for both directions.
    """
    together: dict[str, dict[str, str]] = {}
    for reading in readings:
        for part in reading.parts:
            if part.joined:
                together.setdefault(part.joined, {})[part.path.rpartition("/")[2]] = part.runtime
    return [
        reading._replace(parts=tuple(_undone(part, together.get(part.joined, {})) for part in reading.parts))
        for reading in readings
    ]


def _undone(part: KnobFile, fields: Mapping[str, str]) -> KnobFile:
    if len(fields) < 2:
        return part
    return part._replace(undo=(Write(f"{part.joined}/{','.join(fields)}", " ".join(fields.values())),))


class NicKind(nic_rules.NicKind):
    KIND = nic_parse.KIND
    OPTIONS = own.OPTIONS
    MOUNTS: Mounts = {ethtool.TOP: ethtool.driver}

    def parse(self, given: Checked, facts: Facts | None) -> list[Setting]:
        return nic_parse.parse(given)

    def read_one(self, setting: NicSetting, context: Context) -> Reading:
        host = context.host
        targets = nic_targets.find(host, setting.rule.nics, setting.group)
        if not targets.targets:
            return nic_rules.unread(setting, targets.found, context)
        guards = Guards(host, context.allow, nic_parse.limit(context.spec))
        all_files = [
            _guarded(nic_files.target_files(host, setting, target), setting, guards)
            for target in targets.targets
        ]
        row = Summary(all_files)
        others = _others(setting, all_files, context.host)
        boot = owners.boot(host, others, context.boot_by_agent(setting, row.want))
        notes = [*grouped((note, device.label) for device in all_files for note in device.notes), *row.notes]
        notes += owners.notes(others)
        reading = row.reading(setting.path, boot, context.origins, [*notes, targets.found.note])
        return reading._replace(lowers=_lowers(setting, reading))

    def together(
        self, settings: Sequence[Setting], readings: list[Reading], context: Context
    ) -> list[Reading]:
        wants = {part.path: part.want for reading in readings for part in reading.parts}
        readings = [_excluded(context.host, reading, wants) for reading in readings]
        exclusive.refuse(context.host, readings)
        return _undone_together(readings)

    def facts(self, host: Host, rows: Sequence[Row]) -> dict[str, Any]:
        """Commands with the same effect."""
        return {"commands": nic_commands.command_lines(rows)}

    def boot_sources(self, key: str, host: Host) -> list[str]:
        """Other sources that set the value for any NIC at boot, unreadable files, and programs that manage
        NICs.
        """
        _kind, _rule, group, *names = key.split(".")
        here = owners.of_machine(host)
        files = (f"{group}/{'.'.join(names)}",) if names else (group, f"{group}/")
        return [*owners.lines(host, files), *owners.problems(host, here), *owners.advice(host, here)]


kind = NicKind()
