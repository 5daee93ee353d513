# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real paths of files below /sys, as most names in sysfs are links, and the areas that set them."""

from __future__ import annotations

import posixpath

from ...host.host import Host
from ...model.errors import HostError
from ...model.record import regex

TOP = "/sys"

#: Links on a path before the kernel gives up (fs/namei.c: MAXSYMLINKS)
_MOST_LINKS = 40

#: Files of other areas, by the path below /sys: only those can check, boot and revert them
_AREAS = tuple(
    (regex(pattern + r"\Z"), area)
    for pattern, area in (
        (r"kernel/mm/transparent_hugepage/.*", "thp"),
        (r"(kernel/mm|devices/system/node/node\d+)/hugepages/.*", "sysctl"),
        (r"devices/system/cpu/(cpufreq|cpuidle|cpu\d+/(cpufreq|cpuidle)|intel_pstate|amd_pstate)/.*", "cpu"),
        (r"devices/system/cpu/cpu\d+/power/pm_qos_.*", "cpu"),
        (r".*/queue/(scheduler|read_ahead_kb)", "storage"),
        (r".*/bdi/[^/]*/read_ahead_kb", "storage"),
        (r".*/net/[^/]+/queues/[^/]+/[rx]ps_.*", "irq"),
    )
)


def area(path: str) -> str:
    """Area that sets a file; empty if there is none."""
    return next((name for pattern, name in _AREAS if pattern.match(path[len(TOP) + 1 :])), "")


def real(host: Host, path: str) -> str:
    """The path without links. Raises HostError if a link cannot be read, or links lead in circles."""
    pending, resolved, links = path.strip("/").split("/"), "", 0
    while pending:
        name = pending.pop(0)
        if name in ("", "."):
            continue
        if name == "..":
            resolved = posixpath.dirname(resolved).rstrip("/")
            continue
        target = host.link_target(f"{resolved}/{name}")
        if not target:
            resolved = f"{resolved}/{name}"
            continue
        links += 1
        if links > _MOST_LINKS:
            raise HostError("follow", path, None, f"more than {_MOST_LINKS} links")
        resolved = "" if target.startswith("/") else resolved
        pending = target.strip("/").split("/") + pending
    return resolved
