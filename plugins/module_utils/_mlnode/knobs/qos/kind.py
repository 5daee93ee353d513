# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind qos: lossless priorities for RoCE, and congestion signals (dcb(8), IEEE 802.1Q).

Covers trust, priorities of DSCPs, PFC, transmission selection, receive buffers, ECN, congestion
notifications, and headers of RDMA packets. A NIC loses these values at every boot and driver load. The agent
re-applies the rules at boot and when a NIC appears.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

from ...drivers.dcb import tools
from ...drivers.roce import registry
from ...engine.kind import Context, Facts, Row
from ...host.host import Host
from ...model.errors import HostError
from ...model.schema import Checked, Option
from ...model.setting import KnobFile, Reading, Setting
from ..nic import parse as nic_parse
from ..nics import owners
from ..nics import rules as nic_rules
from ..nics import targets as nic_targets
from ..nics.rules import NicKind
from ..summary import Files, Summary, grouped
from . import files as qos_files
from . import guards as qos_guards
from . import parse as qos_parse
from . import schema as own
from . import switch as qos_switch
from .guards import QosGuards
from .parse import QosSetting

#: Made by `systemctl enable lldpad`
_LLDPAD = "/etc/systemd/system/multi-user.target.wants/lldpad.service"


# -- one setting ---------------------------------------------------------------------------


def _guarded(files: Files, setting: QosSetting, guards: QosGuards) -> Files:
    files.parts = [guards.protected(setting, files.target, part) for part in files.parts]
    return files


def _contradicted(setting: QosSetting, all_files: Sequence[Files], host: Host) -> Iterable[str]:
    """Conflicts with another kind's declaration for the same NICs."""
    wants_none = setting.value if setting.group == "pfc" else setting.text == "off"
    if setting.group not in ("pfc", "global_pause") or not wants_none:
        return
    pausing = qos_guards.wants_pause(host)
    for device in all_files:
        if device.label in pausing:
            yield f"{device.label}: {pausing[device.label]} wants global pause on: remove one of the two"


#: Setting → the group of an owner's line, see nics/owner_lines.py
_OWNED = {"global_pause": "pause", "pfc": "dcb", "ets": "dcb"}


def _others(host: Host, setting: QosSetting, all_files: Sequence[Files]) -> list[owners.Other]:
    """Lines of other programs with another value."""
    words = owners.interface_words(host, owners.of_machine(host)) if setting.group in _OWNED else {}
    return [
        (device.label, word)
        for device in all_files
        for file, want in _wants(setting, device.parts)
        for word in words.get(device.label, ())
        if word.file == f"{_OWNED[setting.group]}/{file}" and word.value != want
    ]


def _wants(setting: QosSetting, parts: Sequence[KnobFile]) -> Iterator[tuple[str, str]]:
    """Files below the group of an owner's line, each with its wanted value."""
    pause = setting.group == "global_pause"
    files = [part.path.rpartition("/")[2] if pause else setting.group for part in parts]
    yield from zip(files, (part.want for part in parts))
    # The parts omit negotiation that is off now. Switched on, it could bring pause frames back.
    if pause and parts and setting.text == "off" and "autoneg" not in files:
        yield "autoneg", "off"


def _notes(host: Host, setting: QosSetting, all_files: Sequence[Files]) -> list[str]:
    notes: list[str] = []
    if setting.group == "pfc" and setting.value:
        notes.append(f"switches must match: {qos_switch.pfc(setting.value, {})}")
    if setting.path.startswith("/dcb/"):
        notes += [*_tool(host), *_lldpad(host)]
        notes += grouped(
            (_negotiates(host, device), device.label) for device in all_files if _negotiates(host, device)
        )
    return notes


def _lldpad(host: Host) -> list[str]:
    """Warning about lldpad, which sets priorities at boot."""
    try:
        enabled = host.is_link(_LLDPAD)
    except HostError as error:
        return [str(error)]
    return [f"{_LLDPAD}: lldpad negotiates priorities with the switch, which may differ"] if enabled else []


def _tool(host: Host) -> list[str]:
    try:
        return list(filter(None, [tools.remark(host)]))
    except HostError as error:
        return [str(error)]


def _remarks(host: Host, setting: QosSetting, all_files: Sequence[Files]) -> list[str]:
    """Remarks of drivers, such as on a setting that concerns more than this NIC and priority."""
    pairs = ((_remark(host, setting, device), device.label) for device in all_files if device.parts)
    return grouped(pair for pair in pairs if pair[0])


def _remark(host: Host, setting: QosSetting, device: Files) -> str:
    nic = qos_files.roce_nic(host, device.target)
    try:
        return registry.named(device.target.driver).remark(host, nic, setting.group)
    except HostError as error:
        return str(error)


def _managed(reading: Reading, all_files: Sequence[Files]) -> Reading:
    """The reading of a setting that the firmware of all its NICs keeps to itself."""
    owned = [device for device in all_files if device.managed]
    if not owned or reading.parts or reading.runtime.text is None:
        return reading
    notes = grouped((note, device.label) for device in owned for note in device.notes)
    return reading._replace(managed="; ".join(notes))


def _negotiates(host: Host, device: Files) -> str:
    """Another source of these values, as far as the driver reports it."""
    path = f"/dcb/{device.label}/dcbx/mode"
    mode = host.once(path, lambda: host.value(path).text) if device.parts else None
    if mode is None or "host" in mode.split():
        return ""
    return f"its firmware negotiates with the switch (DCBX {mode}), and may set something else"


def _text(parts: Sequence[KnobFile], value: Callable[[KnobFile], str]) -> str:
    """The common value of a NIC's files, or each with its name; DSCPs always have theirs."""
    texts = list(dict.fromkeys(value(part) for part in parts))
    if "/dscp-prio/" in parts[0].path:
        return " ".join(f"{part.path.rpartition('/')[2]}:{value(part)}" for part in parts)
    if len(texts) == 1:
        return texts[0]
    return ", ".join(f"{_name(part.path)} {value(part)}" for part in parts)


#: Files that each port of a NIC has, one for each setting
_OF_PORTS = ("cm-tos", "traffic-class")


def _name(path: str) -> str:
    """The part of a path that differs from the others of its setting."""
    pieces = path.strip("/").split("/")
    if pieces[0] == "roce":
        return f"{pieces[1]}/{pieces[2]}" if pieces[3] in _OF_PORTS else f"{pieces[1]} {pieces[3]}"
    return f"{pieces[-3]}/{pieces[-1]}" if pieces[-2] == "enable" else pieces[-1]


def _with_the_rest(reading: Reading, rule: str, stopped: Mapping[tuple[str, str], str]) -> Reading:
    """Reading of a rule that is refused on some NICs. stopped: rule and NIC → the refused setting."""
    parts = []
    for part in reading.parts:
        key = stopped.get((rule, part.named))
        reason = f"{part.named}: goes together with {key}, which is refused"
        parts.append(part._replace(refusal=reason) if key and part.differs and not part.refusal else part)
    refusals = (part.refusal for part in parts if part.refusal)
    return reading._replace(parts=tuple(parts), refusal=reading.refusal or next(refusals, ""))


class QosKind(NicKind):
    KIND = qos_parse.KIND
    OPTIONS = own.OPTIONS
    MOUNTS = qos_files.MOUNTS

    def parse(self, given: Checked, facts: Facts | None) -> list[Setting]:
        return qos_parse.parse(given)

    def read_one(self, setting: QosSetting, context: Context) -> Reading:
        host = context.host
        targets = nic_targets.find(host, setting.rule.nics, "pause")
        if not targets.targets:
            return nic_rules.unread(setting, targets.found, context)
        guards = QosGuards(host, context.allow, nic_parse.limit(context.spec))
        all_files = [
            _guarded(qos_files.target_files(host, setting, target), setting, guards)
            for target in targets.targets
        ]
        row = Summary(all_files, _text)
        others = _others(host, setting, all_files)
        boot = context.boot_by_agent(setting, row.want)
        boot = owners.boot(host, others, boot) if setting.group in _OWNED else boot
        notes = [
            *row.notes,
            *grouped((note, device.label) for device in all_files for note in device.notes),
            *_remarks(host, setting, all_files),
            *_notes(host, setting, all_files),
            *owners.notes(others),
            targets.found.note,
        ]
        reading = row.reading(
            setting.path,
            boot,
            context.origins,
            notes,
            _contradicted(setting, all_files, host),
        )
        return _managed(reading, all_files)

    def unseen(self, setting: QosSetting, context: Context) -> Reading:
        reading = super().unseen(setting, context)
        return reading._replace(refusal=qos_guards.several(setting, context.allow))

    def together(
        self, settings: Sequence[Setting], readings: list[Reading], context: Context
    ) -> list[Reading]:
        """Set a rule as a whole or not at all on each NIC: RoCE in a priority without PFC is worse than
        before.
        """
        stopped: dict[tuple[str, str], str] = {}
        for setting, reading in zip(settings, readings):
            for part in reading.parts:
                if part.refusal:
                    stopped.setdefault((nic_rules.rule_of(setting), part.named), setting.key)
        return [
            _with_the_rest(reading, nic_rules.rule_of(setting), stopped)
            for setting, reading in zip(settings, readings)
        ]

    def facts(self, host: Host, rows: Sequence[Row]) -> dict[str, Any]:
        """Commands with the same effect, and the matching requirements for switches."""
        return {"commands": qos_switch.commands(host, rows), "switch": qos_switch.words(rows)}

    def boot_sources(self, key: str, host: Host) -> list[str]:
        """Other sources that set the value for any NIC at boot, and unreadable files."""
        group = _OWNED.get(key.rpartition(".")[2], "")
        lines = owners.lines(host, [f"{group}/"]) if group else []
        problems = owners.problems(host, owners.of_machine(host)) if group else []
        return [*_lldpad(host), *lines, *problems]

    def option(self, key: str) -> Option:
        rule, _dot, group = key.rpartition(".")  # A rule may be called cnp_fast
        return super().option(f"{rule}.{group.replace('cnp_', 'cnp.')}")


kind = QosKind()
