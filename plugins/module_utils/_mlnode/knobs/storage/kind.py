# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind storage: read-ahead of block devices and NFS mounts, and schedulers of block devices.

Device and mount numbers change at each boot. The rule is therefore declared, and the agent re-applies it at
boot, as no system file can carry it. Sources: ABI/stable/sysfs-block, ABI/testing/sysfs-class-bdi.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ...engine.kind import Context, Facts
from ...host.host import Host
from ...linux import drop_ins, setters, udev_rules
from ...linux import mounts as mount_tables
from ...model import schema, values
from ...model.errors import DeclarationError, HostError
from ...model.record import NamedTuple, dataclass
from ...model.schema import Checked, Option
from ...model.setting import EXACTLY, KnobFile, Reading, Setting, Value, Write
from ...topology import machine
from ...topology.sysfs import Reader
from .. import rules
from ..summary import Files, Summary, Target, grouped
from . import schema as own
from .schema import OPTIONS

KIND = "storage"

BLOCK, BDI = "/sys/block", "/sys/class/bdi"
_CONTAINER = "block devices and mounts belong to the container's host: declare them there"


class Devices(NamedTuple):
    """Choice of block devices: a device must match each given list."""

    names: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    rotational: bool | None = None

    def __str__(self) -> str:
        parts = [", ".join(self.names), ", ".join(self.types)]
        if self.rotational is not None:
            parts.append("rotational" if self.rotational else "not rotational")
        return "; ".join(filter(None, parts)) or "all disks"


class Rule(NamedTuple):
    """One declared rule. nfs: mount points instead of devices; empty for all NFS mounts."""

    name: str = ""
    devices: Devices = Devices()
    nfs: tuple[str, ...] | None = None

    def __str__(self) -> str:
        if self.nfs is None:
            return str(self.devices)
        return f"nfs {', '.join(self.nfs)}" if self.nfs else "all NFS mounts"


@dataclass(frozen=True)
class RuleSetting(Setting):
    """A setting with its rule. value: the number or word for each device, or the least number."""

    rule: Rule = Rule()
    value: str = ""

    @property
    def topic(self) -> str:
        return self.key.rpartition(".")[2]


# -- what is declared ----------------------------------------------------------------------

#: Settings of NFS mounts; all others are for block devices only
_OF_NFS = ("read_ahead_kb",)
_KB = Option("int", least=0, most=own.MOST_KB)
_POINTS = Option("list", elements="str", form=own.MOUNT_POINT, entries=(1, 1000))
#: The greatest page of a kernel on arm64 and POWER, in KiB: a number is rounded down to whole pages
_PAGE_KB = 64
#: Schedulers of Linux 4.19 to 7.3 (block/*.c: elevator_name). If this kernel lacks one, another may have it.
_SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq", "noop", "deadline", "cfq")


def _settings(given: Mapping[str, Any]) -> list[Setting]:
    where, rule = f"{KIND}.{given['name']}", _rule(given)
    settings: list[Setting] = []
    for name, option in OPTIONS["rules"].suboptions.items():
        if not option.file or name not in given:
            continue
        if rule.nfs is not None and name not in _OF_NFS:
            raise DeclarationError(f"{where}.{name}: an NFS mount has none; declare it for devices")
        at_least, value = False, str(given[name])
        if name == "read_ahead_kb":
            at_least, value = _read_ahead(f"{where}.{name}", given[name])
        settings.append(_setting(rule, option.file, value, at_least))
    return settings


def _rule(given: Mapping[str, Any]) -> Rule:
    where, chosen = f"{KIND}.{given['name']}", given.get("devices", {})
    devices = Devices(
        tuple(sorted({*chosen.get("names", ())})),
        tuple(name for name in own.TYPES if name in chosen.get("types", ())),
        chosen.get("rotational"),
    )
    raw = given.get("nfs")
    if raw is None or raw is False:
        return Rule(given["name"], devices)
    if chosen:
        raise DeclarationError(f"{where}: give it devices or nfs; two rules can have the same value")
    points = () if raw is True else tuple(sorted({*schema.value(f"{where}.nfs", _POINTS, raw)}))
    return Rule(given["name"], devices, points)


def _read_ahead(where: str, raw: Any) -> tuple[bool, str]:
    """True for a floor, and the number of KiB."""
    at_least = isinstance(raw, Mapping) and [*raw] == ["at_least"]
    number: int = schema.value(where, _KB, raw["at_least"] if at_least else raw)
    if number % _PAGE_KB:
        raise DeclarationError(
            f"{where}: {number} is not a multiple of {_PAGE_KB}, and a kernel with pages of {_PAGE_KB} KiB "
            f"rounds it down: write {number // _PAGE_KB * _PAGE_KB}"
        )
    return at_least, str(number)


def _setting(rule: Rule, file: str, value: str, at_least: bool) -> Setting:
    name = file.rpartition("/")[2]
    key, path = f"{KIND}.{rule.name}.{name}", f"{BLOCK}/*/{file}" if rule.nfs is None else f"{BDI}/*/{name}"
    claim = f"{'>= ' if at_least else ''}{value} ({rule})"
    floor = value if at_least else ""
    return RuleSetting(KIND, key, path, None, claim, at_least, floor=floor, rule=rule, value=value)


# -- the devices of a rule -----------------------------------------------------------------


class _Device(NamedTuple):
    """A device with its own files.

    folder: folder of the files. home: folder that disappears with the device. part: the larger device that it
    belongs to, such as a RAID; then it holds no file system directly.
    """

    name: str
    folder: str
    home: str
    part: str = ""


def _devices(host: Host, rule: Rule) -> tuple[list[_Device], Value, str]:
    """Devices that match a rule, why there are none, and which named devices are missing.

    Raises HostError if sysfs cannot be read.
    """
    if rule.nfs is not None:
        return _mounts(host, rule.nfs)
    here = host.names(BLOCK)
    names = [name for name in here if is_meant(host, name, rule.devices)]
    lacking = [name for name in rule.devices.names if name not in here]
    if not names:
        known = ", ".join(f"{name} ({bus(host, name)})" for name in here if bus(host, name))
        return [], Value(absent=f"no block device here matches {rule}; here are: {known or 'none'}"), ""
    note = f"no {', '.join(lacking)} in {BLOCK}" if lacking else ""
    return [_device(host, name) for name in names], Value(), note


def _device(host: Host, name: str) -> _Device:
    home = f"{BLOCK}/{name}"
    # Include the holders of partitions: a RAID or volume group often uses one, next to the firmware's
    # partition.
    paths = host.matching(f"{home}/{name}*/holders/*")
    holders = dict.fromkeys([*host.names(f"{home}/holders"), *(path.rpartition("/")[2] for path in paths)])
    # A hidden device is one path of a multipath namespace (nvme/multipath.c).
    hidden = host.value(f"{home}/hidden").text == "1"
    return _Device(name, f"{home}/queue", home, ", ".join(holders) or ("a namespace" if hidden else ""))


def is_meant(host: Host, name: str, devices: Devices) -> bool:
    """True if the choice matches a block device. A removable one matches only by name."""
    if devices.names and name not in devices.names:
        return False
    kind = bus(host, name)
    if devices.types and kind not in devices.types:
        return False
    if not (devices.names or devices.types) and kind not in own.DISKS:
        return False
    if not devices.names and host.value(f"{BLOCK}/{name}/removable").text == "1":
        return False
    if devices.rotational is None:
        return True
    turns = host.value(f"{BLOCK}/{name}/queue/rotational").text
    return turns == ("1" if devices.rotational else "0")


def bus(host: Host, name: str) -> str:
    """Bus of the hardware as in own.DISKS, or dm or md; empty if there is neither."""
    made = next((kind for kind in ("dm", "md") if host.exists(f"{BLOCK}/{name}/{kind}")), "")
    hardware = host.link_target(f"{BLOCK}/{name}/device/subsystem").rpartition("/")[2]
    # nvme-subsystem is the bus of a multipath namespace.
    return made or ("nvme" if hardware == "nvme-subsystem" else hardware)


def _mounts(host: Host, points: Sequence[str]) -> tuple[list[_Device], Value, str]:
    """NFS mounts. Several mounts of one export share a device and its value."""
    mounts_by_device = mount_tables.nfs(mount_tables.table(host))
    mounts = {number: [mount.point for mount in alike] for number, alike in mounts_by_device.items()}
    lacking = [point for point in points if not any(point in seen for seen in mounts.values())]
    devices = [
        _Device(", ".join(seen), f"{BDI}/{number}", f"{BDI}/{number}")
        for number, seen in mounts.items()
        if not points or not {*points}.isdisjoint(seen)
    ]
    note = f"no NFS is mounted on {', '.join(lacking)}" if lacking else ""
    return devices, Value(absent=note or "no NFS is mounted") if not devices else Value(), note


# -- the files of a device -----------------------------------------------------------------


def _of_device(host: Host, setting: RuleSetting, device: _Device) -> Files:
    files, path = Files(Target(device.name)), f"{device.folder}/{setting.topic}"
    if device.part and setting.topic == "read_ahead_kb":
        files.lacking = f"left alone, as it is a part of {device.part}, which reads ahead"
        return files
    now = host.value(path)
    number = values.number(now.text)
    if not now.text or (setting.value.isdigit() and number is None):
        return _without(files, path, now)
    if number is None:
        _add_word(files, path, now.text, setting.value, device)
    else:
        want = max(number, int(setting.value)) if setting.raise_only else int(setting.value)
        _add(files, path, str(number), str(want), device)
    return files


def _add_word(files: Files, path: str, now: str, want: str, device: _Device) -> None:
    offered = values.choices(now)
    if not offered and want == now.strip():
        files.kept = f"{want} [fixed]"
    elif not offered:
        files.lacking = "hands its requests on to others, and has no scheduler to choose"
    else:
        lack = f"{path} does not offer {want!r}, but {', '.join(offered)}; if it is a module, load it first"
        if want not in (*offered, *_SCHEDULERS):
            files.invalid = f"{lack}; no kernel has a scheduler of this name"
        _add(files, path, values.chosen(now), want, device, "" if want in offered else lack)


def _without(files: Files, path: str, now: Value) -> Files:
    if now.absent is not None:
        files.lacking = now.absent
    else:
        files.problems = [now.unreadable or f"{path} says {now.text!r}"]
    return files


def _add(files: Files, path: str, now: str, want: str, device: _Device, answer: str = "") -> None:
    # A number is rounded down to whole pages.
    rounds = now.isdigit()
    part = KnobFile(0, path, now, want, (Write(path, now),), device=device.home, rounds=rounds)
    files.parts = [part._replace(answer=answer, place=device.name)]


class StorageKind(rules.RuleKind):
    KIND = KIND
    OPTIONS = OPTIONS

    def parse(self, given: Checked, facts: Facts | None) -> list[Setting]:
        return rules.unique(item for raw in given.get("rules", ()) for item in _settings(raw))

    def read_one(self, setting: RuleSetting, context: Context) -> Reading:
        host = context.host
        all_files: list[Files] = []
        try:
            devices, problem, lacking = _devices(host, setting.rule)
            all_files += [_of_device(host, setting, device) for device in devices]
        except HostError as error:
            all_files, problem, lacking = [], Value(unreadable=str(error)), ""
        if not all_files:
            # A named device must exist. A missing kind of device is normal: it only distinguishes kinds of
            # nodes.
            named = bool(setting.rule.devices.names or setting.rule.nfs) and problem.absent is not None
            return Reading(setting.path, problem, context.boot_by_agent(setting, None), missing=named)
        container = machine.read(Reader(host)).kind == "container"
        for files in all_files:
            files.blocked = (
                _CONTAINER if container else host.blocked(files.parts[0].path) if files.parts else ""
            )
        row = Summary(all_files)
        notes = [
            *grouped((note, files.label) for files in all_files for note in files.notes),
            *row.notes,
            lacking,
        ]
        boot = context.boot_by_agent(setting, row.want)
        reading = row.reading(setting.path, boot, context.origins, notes)
        return setters.named(host, reading._replace(lowers=rules.lowers(reading.parts, EXACTLY)))

    def boot_sources(self, key: str, host: Host) -> list[str]:
        """Lines of udev rules that set the same file of any device; the agent runs after them."""
        name = key.rpartition(".")[2]
        lines = []
        for path in udev_rules.paths(host):
            for number, line in enumerate(drop_ins.text(host, path).split("\n"), start=1):
                if f"{name}}}" in line and not line.lstrip().startswith("#"):
                    lines.append(f"{path}:{number}: {line.strip()}")
        return lines


kind = StorageKind()
