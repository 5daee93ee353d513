# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of a node about the agent itself: whether the next boot and the arrival of a NIC run it.

One cause is one row: a setting that only the agent sets at boot refers to agent.boot instead of drifting as
well. A node without any part of the agent has no such row, and each setting reports that nothing restores it.
"""

from __future__ import annotations

from typing import Collection, Sequence

from ..engine import boot_service, lasting
from ..engine.boot_manager import Fault
from ..engine.kind import AGENT_FILE, AGENT_KIND, AGENT_ROW, Info, Row
from ..engine.units import LINKS, NIC_PATH_FILE, TEXTS, UDEV_FILE
from ..host import places
from ..host.host import Host
from ..host.places import AGENT_COMMAND
from ..linux import initramfs, sysctl_d
from ..model.cause import SEE, Cause
from ..model.errors import HostError
from ..model.setting import Boot, Layer, Reading, Setting, Severity, Status, Value
from .registry import ON_ARRIVAL

KIND = AGENT_KIND

#: The row about what notices NICs
NICS_ROW = "agent.nics"

#: The row about values that left the declaration, and may be in an initramfs
COPIES_ROW = "agent.initramfs"

_RUNS = "runs"
_CURRENT = "current"

#: High: settings without a drop-in are lost with the next boot. Medium: only a NIC that arrives or renews its
#: queues deviates from its declaration, until the next boot or run.
_BOOT = Info(
    Severity.HIGH,
    "applies, at each boot, the settings that no file of the system carries",
    "docs/guide/operations.md, Files on the node",
)
_NICS = Info(
    Severity.MEDIUM,
    "applies the declared NIC settings again when a NIC arrives or renews its queues",
    "docs/guide/operations.md, Files on the node",
)

_COPIES = Info(
    Severity.MEDIUM,
    "an initramfs with a copy of sysctl.d sets values at boot that are no longer declared",
    "dracut(8), update-initramfs(8)",
)


def rows(host: Host, kinds: Collection[str]) -> list[Row]:
    """kinds: declared on the node; the arrival of a NIC matters only to some of them."""
    try:
        if not boot_service.installed(host):
            return []
    except HostError as error:
        return [_unknown(AGENT_ROW, AGENT_FILE, _BOOT, error)]
    agent_rows = [_row(host, AGENT_ROW, AGENT_FILE, _BOOT), *_copies(host)]
    if any(kind in ON_ARRIVAL for kind in kinds):
        agent_rows.append(_row(host, NICS_ROW, NIC_PATH_FILE, _NICS))
    return agent_rows


def _copies(host: Host) -> list[Row]:
    """The row about values that left the declaration and that an initramfs may bring back; none if none may.
    Whether it was made while they stood in the files is not known."""
    path = places.pattern(places.LEFT_SYSCTLS)
    try:
        files = {file: host.changed(file) for file in host.matching(path)}
        keys = [line.text for file in files for line in sysctl_d.parse(host.text(file), file)]
        images = [image for made in files.values() for image in initramfs.images(host, made)]
        problem = initramfs.words(host, [*dict.fromkeys(images)], keys) if keys else ""
    except HostError as error:
        boot = Boot(Value(unreadable=str(error)))
        return [_made(COPIES_ROW, path, _COPIES, boot, Status.UNKNOWN, str(error), want=_CURRENT)]
    if not problem:
        return []
    boot = Boot(Value(unreadable=problem), path)
    return [_made(COPIES_ROW, path, _COPIES, boot, Status.UNKNOWN, problem, want=_CURRENT)]


def idle(host: Host) -> list[Row]:
    """The row of NICs if no unit waits for them after a run that had to start it. Raises HostError."""
    return [_row(host, NICS_ROW, NIC_PATH_FILE, _NICS)] if boot_service.is_idle(host) else []


def boot_sources(host: Host) -> list[str]:
    """The agent's files, with a mark for missing ones."""
    paths = (AGENT_COMMAND, *TEXTS, *LINKS)
    return [path if host.is_link(path) or host.exists(path) else f"{path} (missing)" for path in paths]


def _row(host: Host, key: str, path: str, info: Info) -> Row:
    look = boot_service.boot_faults if key == AGENT_ROW else boot_service.nic_faults
    try:
        faults: Sequence[Fault] = look(host)
    except HostError as error:
        return _unknown(key, path, info, error)
    if not faults and key != AGENT_ROW and _is_stopped(host):
        boot = Boot(Value(absent="the agent does not run"), row=AGENT_ROW)
        return _made(key, path, info, boot, Status.OK, f"see {AGENT_ROW}", SEE)
    value = next(filter(None, (lasting.lost(host, agent_file) for agent_file in lasting.agent())), None)
    if not faults and key == AGENT_ROW and value is not None:
        status = Status.DRIFTED if value.absent is not None else Status.UNKNOWN
        return _made(key, path, info, Boot(value, path), status, value.problem)
    if not faults:
        source = path if key == AGENT_ROW else f"{path}, {UDEV_FILE}"
        return _made(key, path, info, Boot(Value(text=_RUNS), source), Status.OK, "")
    problem = "; ".join(map(str, faults))
    judged = [fault for fault in faults if fault.judged]
    # It may run all the same, with files that are not as they were installed.
    value = Value(absent=problem) if any(fault.stops for fault in judged) else Value(text=_RUNS)
    if len(judged) < len(faults) and value.text:
        value = Value(unreadable=problem)
    status = Status.DRIFTED if judged else Status.UNKNOWN
    return _made(key, path, info, Boot(value, path), status, problem)


def _is_stopped(host: Host) -> bool:
    """True also if that is unknown: its own row reports it."""
    try:
        return bool(boot_service.stopped(host))
    except HostError:
        return True


def _unknown(key: str, path: str, info: Info, error: HostError) -> Row:
    boot = Boot(Value(unreadable=str(error)))
    return _made(key, path, info, boot, Status.UNKNOWN, str(error))


def _made(
    key: str, path: str, info: Info, boot: Boot, status: Status, text: str, code: str = "", want: str = _RUNS
) -> Row:
    setting = Setting(KIND, key, path, want, want)
    causes = (Cause(Layer.BOOT, code or str(status), text=text),) if text else ()
    return Row(setting, Reading(path, Value(), boot, want), status, causes, info)
