# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cause of a drift, as far as the node shows it: a file and its line, tuned, a reloaded driver, a reboot. The
kernel does not record the writer of a value, so any other cause is `unknown`.

Its label is the same on all affected nodes: one cause on many nodes becomes one alert.
"""

from __future__ import annotations

import re
from typing import Mapping

from ..engine.kind import AGENT_KIND, Row
from ..host import places
from ..host.host import Host
from ..linux import sysctl_d, tuned
from ..model import values
from ..model.cause import SET, Cause, placed
from ..model.errors import HostError, MlnodeError
from ..model.record import NamedTuple, regex
from ..model.setting import Layer, Status

REBOOT, DRIVER_RELOAD, PENDING, REFUSED = "reboot", "driver reload", "waits for a reboot", "guard"
UNREADABLE, AGENT, UNKNOWN, TUNED = "unreadable", "agent", "unknown", "tuned"

#: A machine ID (machine-id(5)) or UUID in the name of a file, such as an entry of the boot loader
_IDENTITY = regex(
    r"(?<![0-9a-f])(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![0-9a-f])",
    re.ASCII | re.IGNORECASE,
)


#: A path, or the end of one with blanks, and the number of a line of it
_NUMBERED = regex(r"([^\s:]*[/.][^\s:]*):[0-9]+(?=\Z|[\s,;:)])", re.ASCII)


class Origin(NamedTuple):
    """Cause of a drift for people, and without numbers of lines and identities, in which nodes that are
    configured alike differ."""

    words: str
    label: str


class Seen(NamedTuple):
    """State at an earlier check. boot: the ID of its boot. indexes: NIC → its interface index, which changes
    when its driver is reloaded."""

    boot: str = ""
    indexes: Mapping[str, str] = {}


def find_cause(host: Host, row: Row, before: Seen, now: Seen) -> Origin:
    """The cause of a row that drifted since `before`. Never raises."""
    known = {
        Status.PENDING_REBOOT: PENDING,
        Status.REFUSED: REFUSED,
        Status.UNKNOWN: UNREADABLE,
    }.get(row.status)
    if not known and row.setting.kind == AGENT_KIND:
        known = AGENT
    if known:
        return Origin(known, known)
    try:
        cause = _line(host, row)
        event = "" if cause else _event(row, before, now)
    except MlnodeError:
        cause, event = None, ""
    return origin(cause) if cause else Origin(event or UNKNOWN, event or UNKNOWN)


def origin(cause: Cause) -> Origin:
    """A place, as it is kept and reported."""
    prefix = f"{TUNED}: " if cause.code == TUNED else ""
    words = f"{prefix}{cause}"
    # In the path of the cause there may be any character.
    label = re.sub(rf"{re.escape(cause.file)}:{cause.line}(?![0-9])", lambda _match: cause.file, words)
    return Origin(words, _IDENTITY.sub("*", _NUMBERED.sub(r"\1", label)))


def _line(host: Host, row: Row) -> Cause | None:
    """File and line that override it at boot or have set the current value."""
    boot, runtime = row.reading.boot, row.reading.runtime.text
    for cause in row.causes:
        if cause.code == SET:
            return cause._replace(text="")
    if boot.foreign and boot.source:
        return placed(Layer.BOOT, str(Status.OVERRIDDEN), boot.source)
    if runtime is None:
        return None
    kind, key = row.setting.kind, row.setting.key
    line = tuned.sets(host, kind, key)
    if line and line.value is not None and values.same(line.value, runtime):
        return placed(Layer.RUNTIME, TUNED, line.where)
    if kind != "sysctl":
        return None
    for statement in reversed(sysctl_d.load(host).statements(sysctl_d.slashed(key))):
        if values.same(statement.value or "", runtime) and not places.is_own(statement.file):
            return Cause(Layer.RUNTIME, SET, statement.file, statement.number)
    return None


def _event(row: Row, before: Seen, now: Seen) -> str:
    if before.boot and before.boot != now.boot:
        return REBOOT
    parts = [part.path for part in row.reading.parts if part.differs]
    for name, index in before.indexes.items():
        renewed = now.indexes.get(name, index) != index
        if renewed and any(name in path.split("/") for path in parts):
            return DRIVER_RELOAD
    return ""


def seen(host: Host) -> Seen:
    """The present state. Never raises."""
    try:
        boot = host.text("/proc/sys/kernel/random/boot_id").strip()
        names = host.names("/sys/class/net")
        nics = [name for name in names if host.exists(f"/sys/class/net/{name}/device")]
        return Seen(boot, {name: host.text(f"/sys/class/net/{name}/ifindex").strip() for name in nics})
    except HostError:
        return Seen()
