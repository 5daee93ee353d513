# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`mlnode metrics --watch`: values that change within a job, as a file for node_exporter, every minute.

The kernel announces no change of a governor: there is no uevent, and inotify shows only writes through the
same mount of sysfs, neither writes from a container with its own network nor the kernel's. So values are
compared.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Mapping

from ..host import places
from ..host.host import Host
from ..linux import jobs, node_exporter
from ..model import strict_json
from ..model.errors import HostError, MlnodeError
from ..model.record import NamedTuple
from ..report.metrics import GAUGE, Family, Sample, render
from . import output, ports
from .arguments import OK, USAGE

if TYPE_CHECKING:
    import argparse

FORMAT = 1

_GOVERNORS = "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor"

#: Policies have changed to different governors
MIXED = "mixed"


class Watched(NamedTuple):
    """State of one reading. uptime: its time in seconds since the boot. governors: path → value. changed:
    Unix time of the last change while a job ran, 0 without one; to: the governor since then."""

    uptime: float = 0.0
    governors: Mapping[str, str] = {}
    changed: float = 0.0
    to: str = ""


class Result(NamedTuple):
    """text: the metrics. watched: state for the next reading."""

    text: str
    watched: Watched


def load(host: Host) -> Watched:
    """State of the last reading in this boot. It decides nothing: a damaged one is ignored. Never raises."""
    try:
        document = strict_json.document(host.read_bytes(places.WATCHED), places.WATCHED, FORMAT)
        governors = {str(path): str(value) for path, value in document["governors"].items()}
        return Watched(float(document["uptime"]), governors, float(document["changed"]), str(document["to"]))
    except (MlnodeError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return Watched()


def look(host: Host) -> Result:
    """Compare with the last reading. Raises HostError."""
    begun, before = time.time(), load(host)
    watched = _governors(host, before, begun)
    families = (
        *_change(watched),
        *ports.counters(host),
        # The time comes last, as in a check: half a file has none.
        Family(
            "mlnode_watch_timestamp_seconds",
            GAUGE,
            "When the node was last watched, as Unix time.",
            (Sample(begun),),
        ),
    )
    return Result(render(families), watched)


def export(host: Host) -> bool:
    """Write the file, and keep the state for the next reading; False before the first check. Raises
    HostError."""
    if not host.is_superuser():
        raise HostError("write", places.WATCHED, None, "root is needed; --print shows the metrics")
    result = look(host)
    if not node_exporter.write_watch(host, result.text):
        return False
    content = {"format": FORMAT, **result.watched._asdict()}
    host.write_file(places.WATCHED, json.dumps(content).encode("ascii") + b"\n", mode=0o644)
    return True


def _governors(host: Host, before: Watched, at: float) -> Watched:
    uptime = float(host.read("/proc/uptime").split()[0])
    read = {path: _value(host, path) or before.governors.get(path) for path in host.matching(_GOVERNORS)}
    now = {path: value for path, value in read.items() if value}
    # A CPU that was plugged in, or a driver that was loaded, has begun and has not changed.
    new = {value for path, value in now.items() if before.governors.get(path, value) != value}
    watched = before._replace(uptime=uptime, governors=now)
    if not new or not _ran(host, before.uptime):
        return watched
    return watched._replace(changed=at, to=new.pop() if len(new) == 1 else MIXED)


def _ran(host: Host, uptime: float) -> bool:
    """True if a current job ran at the last reading already: a prolog sets the governor before its job."""
    since = jobs.since(host)
    return since is not None and since <= uptime


def _value(host: Host, path: str) -> str:
    """A value, or "" if the kernel does not show it, as while its CPUs go offline."""
    return (host.value(path).text or "").strip()


def _change(watched: Watched) -> tuple[Family, ...]:
    """None on a node without governors, such as most virtual machines."""
    if not watched.governors:
        return ()
    labels = {"governor": watched.to} if watched.changed else {}
    return (
        Family(
            "mlnode_governor_changed_during_job_timestamp_seconds",
            GAUGE,
            "When a CPU governor last changed while a job ran, as Unix time; 0: not since the boot.",
            (Sample(watched.changed, labels),),
        ),
    )


def command(host: Host, options: argparse.Namespace) -> int:
    """`mlnode metrics --watch`, and its exit status."""
    if options.json:
        output.complain("--watch: expected no --json, got it; use --print")
        return USAGE
    if options.print or not host.live:
        output.say(look(host).text.rstrip("\n"))
    elif not export(host):
        output.say("No check has written metrics yet: run mlnode metrics first.")
    return OK
