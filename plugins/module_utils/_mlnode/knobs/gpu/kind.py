# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind gpu: whether the driver keeps an unused GPU awake.

If the vendor has a daemon for it and it is installed, the daemon runs as the vendor intends and keeps the
mode; else the driver does. The agent sets both again at boot.
"""

from __future__ import annotations

from typing import Mapping, Sequence

from ...drivers import services as service_files
from ...drivers.gpu import awake as gpu_awake
from ...drivers.gpu.awake import OFF, ON, Awake, GpuAwake
from ...drivers.services import RUNNING
from ...engine.kind import Context, Facts, Kind
from ...host.host import Host, Mounts
from ...linux import systemd_conf
from ...model import values
from ...model.check import Nothing
from ...model.errors import HostError
from ...model.schema import Checked
from ...model.setting import Boot, KnobFile, Reading, Setting, Value, Write
from ...topology import hardware
from ..services import kind as services
from ..summary import Files, Summary, ValueOf
from . import schema as own

KEY = "gpu.persistence"

_CONTAINER = "the driver belongs to the container's host: declare it there"

#: The number of a daemon's part, which no GPU has
_DAEMON_NUMBER = -1
#: Word of a kernel file → word of a declaration
_WORDS = {"auto": OFF}


def _summary(parts: Sequence[KnobFile], value: ValueOf) -> str:
    """The GPUs by number; a daemon is listed only if it is stopped."""
    states = {part.number: value(part) for part in parts if part.number != _DAEMON_NUMBER}
    daemons = [part for part in parts if part.number == _DAEMON_NUMBER and value(part) != RUNNING]
    text = values.grouped({number: _WORDS.get(word, word) for number, word in states.items()})
    return "; ".join([text, *(f"{part.place} is stopped" for part in daemons)])


# -- what there is -------------------------------------------------------------------------


def _look(host: Host, want: str) -> Files:
    """The files of all GPUs, or the reason why none can be set."""
    gpus = hardware.topology(host).gpus
    drivers = _drivers(host)
    if not drivers:
        others = ", ".join(dict.fromkeys(gpu.vendor for gpu in gpus))
        reason = f"no way to keep GPUs of {others} awake is known" if others else "there is no GPU here"
        return Files(lacking=reason)
    files = Files()
    vendors = {driver.VENDOR for driver in drivers}
    numbers = {gpu.address: number for number, gpu in enumerate(gpu for gpu in gpus if gpu.vendor in vendors)}
    for driver in drivers:
        cards = [gpu for gpu in gpus if gpu.vendor == driver.VENDOR]
        try:
            driver.require(host)
            files.parts += _daemon(host, driver, want)
            _add(files, driver, driver.awake(host, cards), numbers, want)
        except Nothing as nothing:
            files.notes.append(str(nothing))
        except HostError as error:
            files.problems.append(str(error))
    if not files.problems and not any(part.number != _DAEMON_NUMBER for part in files.parts):
        files.lacking = "; ".join(files.notes)
    if files.problems or files.lacking:
        files.parts.clear()
    return files


def _drivers(host: Host) -> list[GpuAwake]:
    vendors = {gpu.vendor for gpu in hardware.topology(host).gpus}
    return [driver for driver in gpu_awake.ALL if driver.VENDOR in vendors]


def _add(
    files: Files, driver: GpuAwake, states: Mapping[str, Awake], numbers: Mapping[str, int], want: str
) -> None:
    for address, state in states.items():
        if state.problem:
            files.problems.append(state.problem)
            return
        elif state.lacks:
            files.notes.append(f"GPU {address} {state.lacks}")
        else:
            word = state.on if want == ON else state.off
            undo = (Write(state.path, state.now),)
            files.parts.append(
                KnobFile(numbers[address], state.path, state.now, word, undo, owner=driver.LOADED)
            )


def _daemon(host: Host, driver: GpuAwake, want: str) -> list[KnobFile]:
    """The part that starts the daemon, if it is installed. Raises HostError."""
    unit = driver.DAEMON
    fragment = service_files.fragment(host, unit) if unit and want == ON else ""
    if not fragment or not host.systemd_runs() or services.is_masked(host, fragment):
        return []
    path = service_files.file_of(unit)
    now = host.value(path)
    if now.text is None:
        raise HostError("read", path, None, now.problem)
    name = unit.partition(".")[0]
    return [KnobFile(_DAEMON_NUMBER, path, now.text, RUNNING, (Write(path, now.text),), place=name)]


# -- the next boot -------------------------------------------------------------------------


def _boot(setting: Setting, context: Context) -> Boot:
    """The daemon sets `on` by itself, unless configured otherwise; else the agent does."""
    try:
        starters = [_native(context.host, driver) for driver in _drivers(context.host)]
    except HostError as error:
        return Boot(Value(unreadable=str(error)))
    is_daemons = all(starters) if setting.want == ON else any(starters)
    if not starters or not is_daemons:  # a daemon keeps the GPUs of its vendor alone
        return context.boot_by_agent(setting, setting.want)
    # The agent does not wait for the daemon, so which of the two runs last is unknown.
    return Boot(Value(text=ON), next(filter(None, starters)), foreign=setting.want != ON)


def _native(host: Host, driver: GpuAwake) -> str:
    """The starter, at boot, of a daemon that keeps GPUs awake; empty if none does. Raises HostError."""
    fragment = service_files.fragment(host, driver.DAEMON) if driver.DAEMON else ""
    if not fragment or services.is_masked(host, fragment):
        return ""
    commands = systemd_conf.service(host, [driver.DAEMON], "ExecStart")
    # An empty one takes back those before it: systemd.service(5).
    if not commands or driver.DAEMON_LEAVES in commands[-1].value.split():
        return ""
    return next(services.starters(host, driver.DAEMON), "")


class GpuKind(Kind):
    KIND = "gpu"
    OPTIONS = own.OPTIONS
    MOUNTS: Mounts = {**gpu_awake.MOUNTS, **services.kind.MOUNTS, **hardware.MOUNTS}

    def parse(self, given: Checked, facts: Facts | None) -> list[Setting]:
        if not given:
            return []
        want = ON if given["persistence"] else OFF
        return [Setting(self.KIND, KEY, gpu_awake.TOP, want, want)]

    def read_one(self, setting: Setting, context: Context) -> Reading:
        want = setting.want or ""
        if not context.runtime:
            return Reading(setting.path, Value(), context.boot_by_agent(setting, None))
        files = _look(context.host, want)
        if hardware.topology(context.host).machine.kind == "container":
            files.blocked = _CONTAINER
        boot = _boot(setting, context) if files.parts else context.boot_by_agent(setting, want)
        notes = files.notes if files.parts else ()
        reading = Summary([files], _summary).reading(setting.path, boot, context.origins, notes)
        return reading._replace(want=setting.want)  # also without a GPU that has the mode

    def boot_sources(self, key: str, host: Host) -> list[str]:
        """Files and lines that start a daemon."""
        units = [driver.DAEMON for driver in _drivers(host) if driver.DAEMON]
        sources = [f"{path} starts it" for unit in units for path in services.starters(host, unit)]
        return sources + [
            f"{line.where}: ExecStart={line.value}"
            for unit in units
            for line in systemd_conf.service(host, [unit], "ExecStart")
        ]


kind = GpuKind()
