# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind services: other programs that tune declared settings, to be left alone or stopped.

A stopped service keeps its unit and its links. A drop-in adds a condition that cannot be met while the
declaration exists. It keeps systemd from starting the service at boot, by D-Bus or by hand, and leaves no
trace when removed. irqbalance is not included, as it can be configured to agree, see knobs/irq/irqbalance.py.
"""

from __future__ import annotations

from typing import Iterator, Sequence

from ...drivers import services as service_files
from ...drivers.services import STOPPED
from ...engine import declared, unit_drop_in
from ...engine.kind import Context, Facts, Info, Kind, Row
from ...host.host import Host, Mounts
from ...linux import systemd_unit
from ...model import schema
from ...model.errors import DeclarationError, HostError
from ...model.schema import Checked
from ...model.setting import Boot, BootFile, KnobFile, Reading, Setting, Value, Write
from . import competing, known
from . import schema as own
from .known import SERVICES, Service

KIND = "services"

#: Declared word → value of the setting
_WANTS = {"leave": "left", "stop": STOPPED}

_MASK = "/dev/null"
_BEGIN = "zz-mlnode-stopped."


def _setting(name: str, choice: str) -> Setting:
    if name not in SERVICES:
        raise DeclarationError(f"services.{name}: {_unknown(name)}")
    switch = SERVICES[name].switch
    if switch is not None and _WANTS[choice] == STOPPED:
        todo = f"declare leave, and set {switch.words}"
        raise DeclarationError(f"services.{name}: stop would take {switch.other} along; {todo}")
    return Setting(
        KIND, f"service.{name}", service_files.file_of(SERVICES[name].unit), _WANTS[choice], choice
    )


def _unknown(name: str) -> str:
    if name == "irqbalance":
        return "is declared with irq_affinity, which can make it agree"
    return f"unknown; {schema.hint(name, SERVICES)}"


def service_of(key: str) -> Service:
    """The service of a setting."""
    return SERVICES[key.partition(".")[2]]


def drop_in(unit: str, name: str) -> str:
    """Path of a drop-in. It sorts after foreign ones, as a later empty assignment would cancel all
    conditions. No declaration's name has a dot, so this is never a file of the kind limits.
    """
    return f"/etc/systemd/system/{unit}.d/{_BEGIN}{name}.conf"


def _content(name: str) -> bytes:
    path = declared.path_of(name)
    return (
        f"# Written by mlnode.tuning: this service is declared to be stopped, in {path}.\n"
        f"[Unit]\nConditionPathExists=!{path}\n"
    ).encode("ascii")


# -- reading -------------------------------------------------------------------------------


def _file(path: str, now: str) -> KnobFile:
    """Written late: the drop-in must be gone first, as its condition keeps systemd from starting it."""
    return KnobFile(0, path, now, STOPPED, (Write(path, now),), late=True)


def _boot(unit: str, fragment: str, context: Context) -> Boot:
    """State at boot: stopped, or the source that can start it again."""
    host, path = context.host, drop_in(unit, context.name)
    if is_masked(host, fragment):
        return Boot(Value(text=STOPPED), fragment)
    if host.content(path) == _content(context.name):
        lifted = _lifted_by(host, unit, path)
        if lifted:
            reason = f"{lifted} takes the condition of {path} back: take that line out"
            return Boot(Value(absent=reason), lifted, foreign=True)
        return Boot(Value(text=STOPPED), path)
    starter = next(starters(host, unit), "")
    reason = f"{starter} starts it" if starter else "nothing keeps others from starting it, as by D-Bus"
    return Boot(Value(absent=reason), starter)


def _lifted_by(host: Host, unit: str, path: str) -> str:
    """The line that cancels a drop-in of mlnode; empty if there is none. An empty condition of any name
    cancels all earlier ones (systemd.unit(5)). Raises HostError.
    """
    loaded_unit = systemd_unit.load(host, unit)
    if any(line.file == path for line in loaded_unit.conditions("Condition")):
        return ""
    empty = [
        line.where for line in loaded_unit.lines
        if line.section == "[Unit]" and line.key.startswith("Condition") and not line.value
    ]  # fmt: skip
    return empty[-1] if empty else f"{unit}.d"


def is_masked(host: Host, fragment: str) -> bool:
    """True if a unit is masked. Raises HostError."""
    return host.link_target(fragment) == _MASK


def starters(host: Host, unit: str) -> Iterator[str]:
    """Links that start a unit at boot: links of `systemctl enable` and packages, and of System V if systemd
    generates the unit only from these. Raises HostError.
    """
    for folder in service_files.FOLDERS:
        if folder.startswith("/lib/") and host.is_link("/lib"):
            continue
        for kind in ("wants", "requires"):
            yield from _links(host, f"{folder}/*.{kind}/{unit}")
    if service_files.fragment(host, unit).startswith("/etc/init.d/"):
        yield from _links(host, f"/etc/rc[2-5].d/S[0-9][0-9]{unit[: -len('.service')]}")


def _links(host: Host, pattern: str) -> Iterator[str]:
    """Links of a pattern, also dangling ones, as in the root of a system that is not mounted."""
    folder, _slash, name = pattern.rpartition("/")
    for path in host.matching(folder):
        if "*" in name or "[" in name:
            yield from host.matching(f"{path}/{name}")
        elif host.is_link(f"{path}/{name}"):
            yield f"{path}/{name}"


def _is_off(host: Host, service: Service) -> Value:
    """Words if its tuning part is switched off, empty if not, or why that is unknown."""
    try:
        off = service.switch is not None and competing.is_off(host, service.switch)
    except HostError as error:
        return Value(unreadable=str(error))
    return Value(text="its tuning part is switched off" if off else "")


def acts(host: Host, service: Service) -> str:
    """Cause of a change: the running service, or the source that starts it at boot.

    Empty if nothing starts it, or its tuning part is switched off. Raises HostError.
    """
    unit = service.unit
    fragment = service_files.fragment(host, unit)
    if not fragment or (service.switch is not None and competing.is_off(host, service.switch)):
        return ""
    if service_files.is_running(host, unit):
        return f"{unit} runs"
    return "" if is_masked(host, fragment) or stopped_by(host, unit) else next(starters(host, unit), "")


def stopped_by(host: Host, unit: str) -> str:
    """A drop-in of any declaration that keeps it stopped; empty if there is none. Raises HostError."""
    for path in host.matching(drop_in(unit, "*")):
        name = path.rpartition(f"/{_BEGIN}")[2][: -len(".conf")]
        right = host.content(path) == _content(name) and host.exists(declared.path_of(name))
        if right and not _lifted_by(host, unit, path):
            return path
    return ""


def _left(setting: Setting, context: Context) -> Reading:
    """Reading of `leave`, which is never a deviation; a note reports if the service changes declared
    settings.
    """
    host, service, right = context.host, service_of(setting.key), Value(text=setting.want)
    off = _is_off(host, service)
    if off.unreadable is not None:
        return Reading(setting.path, right, Boot(off, service.unit), setting.want)
    if off.text or not acts(host, service):
        why = off.text or "nothing starts it"
        return Reading(setting.path, right, Boot(right, why), setting.want, note=why)
    rivalry = competing.look(host, service)
    boot = Boot(right, service.unit)
    if rivalry.problem:
        boot = Boot(Value(unreadable=rivalry.problem), service.unit)
    elif rivalry.words:
        boot = Boot(Value(absent=rivalry.words), service.unit, foreign=True)
    return Reading(setting.path, right, boot, setting.want, note=rivalry.note)


class ServicesKind(Kind):
    KIND = KIND
    OPTIONS = own.OPTIONS
    MOUNTS: Mounts = {service_files.TOP: lambda: service_files}

    def parse(self, given: Checked, facts: Facts | None) -> list[Setting]:
        return [_setting(name, choice) for name, choice in given.get("services", {}).items()]

    def read_one(self, setting: Setting, context: Context) -> Reading:
        host, unit, want = context.host, service_of(setting.key).unit, setting.want or ""
        right = Value(text=want)
        fragment = service_files.fragment(host, unit)
        if not fragment:
            note = f"{unit} is not installed"
            return Reading(setting.path, right, Boot(right, "nothing starts it"), want, note=note)
        if want != STOPPED:
            return _left(setting, context)
        now = host.value(setting.path) if context.runtime else Value()
        return Reading(
            path=setting.path,
            runtime=now,
            boot=_boot(unit, fragment, context),
            want=STOPPED,
            parts=() if now.text is None else (_file(setting.path, now.text),),
        )

    def boot_files(self, name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
        """A drop-in for each service to stop; removed once it is no longer declared."""
        stopped = [service_of(row.setting.key).unit for row in rows if row.setting.want == STOPPED]
        wanted = {unit for unit in stopped if service_files.fragment(context.host, unit)}
        return [
            unit_drop_in.drop_in(
                context, unit, drop_in(unit, name), _content(name) if unit in wanted else None
            )
            for unit in known.UNITS
        ]

    def boot_sources(self, key: str, host: Host) -> list[str]:
        """Files that start it or keep it stopped, and tuned's profile."""
        service = service_of(key)
        sources = [f"{path} starts it" for path in starters(host, service.unit)]
        kept = stopped_by(host, service.unit)
        sources += [f"{kept} keeps it stopped"] if kept else []
        return sources + competing.boot_sources(host, service)

    def info(self, key: str, runtime: Value) -> Info:
        """Severity and reason; a stopped service costs nothing."""
        service = service_of(key)
        return Info(service.severity, service.reason, service.source)


kind = ServicesKind()
