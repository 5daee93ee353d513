# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind gpu: persistence mode, in which NVIDIA's driver keeps an unused GPU awake.

If nvidia-persistenced is installed, it runs as NVIDIA intends and keeps the mode; else the driver does. The
agent sets both again at boot.
"""

from __future__ import annotations

from typing import Sequence

from ...drivers import services as service_files
from ...drivers.gpu import nvidia_smi as nvidia
from ...drivers.gpu.nvidia_smi import OFF, ON
from ...drivers.services import RUNNING
from ...engine.kind import Context, Facts, Kind
from ...host.host import Host, Mounts
from ...linux import systemd_conf
from ...model import values
from ...model.errors import HostError
from ...model.schema import Checked
from ...model.setting import Boot, KnobFile, Reading, Setting, Value, Write
from ...topology import hardware
from ...topology.model import Gpu
from ..services import kind as services
from ..summary import Files, Summary, ValueOf
from . import schema as own

KEY = "gpu.persistence"

DAEMON = "nvidia-persistenced.service"
#: With this the daemon runs and leaves all GPUs as they are, as Ubuntu starts it
_LEAVES = "--no-persistence-mode"

_VENDOR = "NVIDIA"
_CONTAINER = "the driver belongs to the container's host: declare it there"


#: The number of the daemon's part, which no GPU has
_DAEMON_NUMBER = -1


def _summary(parts: Sequence[KnobFile], value: ValueOf) -> str:
    """The GPUs by number; the daemon is listed only if it is stopped."""
    states = {part.number: value(part) for part in parts}
    stopped = states.pop(_DAEMON_NUMBER, RUNNING) != RUNNING
    text = values.grouped(states)
    return f"{text}; nvidia-persistenced is stopped" if stopped else text


# -- what there is -------------------------------------------------------------------------


def _look(host: Host, want: str) -> Files:
    """The files of all GPUs, or the reason why none can be set."""
    gpus = hardware.topology(host).gpus
    chosen = [gpu for gpu in gpus if gpu.vendor == _VENDOR]
    if not chosen:
        others = ", ".join(dict.fromkeys(gpu.vendor for gpu in gpus))
        reason = f"GPUs of {others} have no such mode" if others else "there is no GPU of NVIDIA here"
        return Files(lacking=reason)
    driver = host.value(nvidia.DRIVER)
    if driver.absent is not None:
        return Files(lacking=f"{nvidia.DRIVER} does not exist: NVIDIA's driver is not loaded")
    try:
        modes = nvidia.persistence(host)
        files = Files(parts=_daemon(host, want))
    except HostError as error:
        if error.absent:
            return Files(lacking=f"{nvidia.TOOL}, which sets it, is not installed")
        return Files(problems=[str(error)])
    for number, gpu in enumerate(chosen):
        _add(files, number, gpu, modes, want)
    if not files.problems and not any(part.number != _DAEMON_NUMBER for part in files.parts):
        files.lacking = "; ".join(files.notes)
    if files.problems or files.lacking:
        files.parts.clear()
    return files


def _add(files: Files, number: int, gpu: Gpu, modes: dict[str, str], want: str) -> None:
    mode = modes.get(gpu.address)
    if mode is None and gpu.driver not in (None, "nvidia"):
        files.notes.append(f"GPU {gpu.address} belongs to {gpu.driver}")
    elif mode is None:
        problem = f"{nvidia.TOOL} does not show GPU {gpu.address}: it may have failed (look for Xid in dmesg)"
        files.problems = [problem]
    elif mode in nvidia.NOT_THERE:
        files.notes.append(f"GPU {gpu.address} has no persistence mode")
    else:
        path = nvidia.file_of(gpu.address)
        files.parts.append(KnobFile(number, path, mode, want, (Write(path, mode),), owner=nvidia.DRIVER))


def _daemon(host: Host, want: str) -> list[KnobFile]:
    """The part that starts the daemon, if it is installed. Raises HostError."""
    fragment = service_files.fragment(host, DAEMON)
    if want != ON or not fragment or not host.systemd_runs() or services.is_masked(host, fragment):
        return []
    path = service_files.file_of(DAEMON)
    now = host.value(path)
    if now.text is None:
        raise HostError("read", path, None, now.problem)
    return [KnobFile(_DAEMON_NUMBER, path, now.text, RUNNING, (Write(path, now.text),))]


# -- the next boot -------------------------------------------------------------------------


def _boot(setting: Setting, context: Context) -> Boot:
    """The daemon sets `on` by itself, unless configured otherwise; else the agent does."""
    try:
        starter = _native(context.host)
    except HostError as error:
        return Boot(Value(unreadable=str(error)))
    if not starter:
        return context.boot_by_agent(setting, setting.want)
    # The agent does not wait for the daemon, so which of the two runs last is unknown.
    return Boot(Value(text=ON), starter, foreign=setting.want != ON)


def _native(host: Host) -> str:
    """The starter, at boot, of a daemon that keeps GPUs awake; empty if none does. Raises HostError."""
    fragment = service_files.fragment(host, DAEMON)
    if not fragment or services.is_masked(host, fragment):
        return ""
    commands = systemd_conf.service(host, [DAEMON], "ExecStart")
    # An empty one takes back those before it: systemd.service(5).
    if not commands or _LEAVES in commands[-1].value.split():
        return ""
    return next(services.starters(host, DAEMON), "")


class GpuKind(Kind):
    KIND = "gpu"
    OPTIONS = own.OPTIONS
    MOUNTS: Mounts = {nvidia.TOP: lambda: nvidia, **services.kind.MOUNTS, **hardware.MOUNTS}

    def parse(self, given: Checked, facts: Facts | None) -> list[Setting]:
        if not given:
            return []
        want = ON if given["persistence"] else OFF
        return [Setting(self.KIND, KEY, nvidia.TOP, want, want)]

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
        """Files and lines that start the daemon."""
        sources = [f"{path} starts it" for path in services.starters(host, DAEMON)]
        return sources + [
            f"{line.where}: ExecStart={line.value}"
            for line in systemd_conf.service(host, [DAEMON], "ExecStart")
        ]


kind = GpuKind()
