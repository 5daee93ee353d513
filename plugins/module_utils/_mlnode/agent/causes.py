# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cause of a drift, as far as the node shows it: a file and its line, tuned, a driver that was loaded once
more, a reboot. The kernel does not record the writer of a value, so that the rest is `unknown`.

label() makes a cause the same on all nodes that have it: one cause on many nodes becomes one alert.
"""

from __future__ import annotations

import re
from typing import Mapping

from ..engine.kind import AGENT_ROW, Row
from ..host import places
from ..host.host import Host
from ..linux import tuned
from ..model import values
from ..model.errors import HostError, MlnodeError
from ..model.record import NamedTuple, regex
from ..model.setting import Status
from .registry import KINDS

REBOOT, DRIVER_RELOAD, PENDING, REFUSED = "reboot", "driver reload", "waits for a reboot", "guard"
UNREADABLE, AGENT, UNKNOWN = "unreadable", "agent", "unknown"

#: Areas whose files name the value that they set, as `path:line: key = value`
_LISTED = ("sysctl",)

#: The number of a line behind its file
_LINE = regex(r":[0-9]+(?=\Z|[ ,;)])", re.ASCII)
#: A machine ID (machine-id(5)) or UUID in the name of a file, such as an entry of the boot loader
_IDENTITY = regex(
    r"(?<![0-9a-f])(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![0-9a-f])",
    re.ASCII | re.IGNORECASE,
)


class Seen(NamedTuple):
    """State at an earlier check. boot: its boot. indexes: NIC → its number, which is another
    one after its driver was loaded again."""

    boot: str = ""
    indexes: Mapping[str, str] = {}


def of(host: Host, row: Row, before: Seen, now: Seen) -> str:
    """The cause of a row that drifted since `before`. Never raises."""
    known = {
        Status.PENDING_REBOOT: PENDING,
        Status.REFUSED: REFUSED,
        Status.UNKNOWN: UNREADABLE,
    }.get(row.status)
    if known:
        return known
    if row.setting.kind == AGENT_ROW.partition(".")[0]:
        return AGENT
    try:
        return _line(host, row) or _event(row, before, now) or UNKNOWN
    except MlnodeError:
        return UNKNOWN


def label(cause: str) -> str:
    """The cause without the line number and identities, in which equally configured nodes differ."""
    return _IDENTITY.sub("*", _LINE.sub("", cause))


def _line(host: Host, row: Row) -> str:
    """File and line, of what overrides it at boot or has set what the kernel shows now."""
    boot, runtime = row.reading.boot, row.reading.runtime.text
    if row.reading.cause is not None and row.reading.cause.sure:
        return row.reading.cause.where
    if boot.foreign and boot.source:
        return boot.source
    if runtime is None:
        return ""
    kind, key = row.setting.kind, row.setting.key
    line = tuned.sets(host, kind, key)
    if line and line.value is not None and values.same(line.value, runtime):
        return f"tuned: {line.where}"
    for source in reversed(KINDS[kind].boot_sources(key, host) if kind in _LISTED else []):
        where, _colon, text = source.partition(": ")
        path = where.rpartition(":")[0]
        if values.same(text.partition("=")[2].strip(), runtime) and not places.is_own(path):
            return where
    return ""


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
