# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs inside a guest, from standard input: prints all that a revert has to bring back, as JSON.

files: path → mode and digest, or target of a link. values: kernel file → content.
"""

from __future__ import annotations

import hashlib
import json
import os

FOLDERS = ("/etc", "/usr/local", "/var/lib/mlnode")
KERNEL = (
    "/proc/sys",
    "/sys/kernel/mm/transparent_hugepage",
    "/sys/kernel/mm/hugepages",
    "/sys/kernel/debug/sched",
    "/sys/devices/system/node",
    "/sys/block/vda/queue",
)

#: Written by the kernel itself, other at every boot, or a command rather than a value
MOVING = (
    "/proc/sys/kernel/ns_last_pid",
    "/proc/sys/kernel/random/",
    "/proc/sys/kernel/tainted",
    "/proc/sys/net/ipv4/tcp_fastopen_key",
    "/proc/sys/net/core/netdev_rss_key",
)


def files() -> dict[str, str]:
    found = {}
    for top in FOLDERS:
        for folder, folders, names in os.walk(top):
            for name in folders + names:
                path = os.path.join(folder, name)
                mode = format(os.lstat(path).st_mode, "o")
                if os.path.islink(path):
                    found[path] = "-> " + os.readlink(path)
                elif os.path.isfile(path):
                    with open(path, "rb") as stream:
                        found[path] = mode + " " + hashlib.sha256(stream.read()).hexdigest()
                else:
                    found[path] = mode
    return found


def values() -> dict[str, str]:
    found = {}
    for top in KERNEL:
        for folder, _folders, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                if path.startswith(MOVING) or os.lstat(path).st_mode & 0o600 != 0o600:
                    continue
                try:
                    with open(path, "rb") as stream:
                        found[path] = stream.read(65536).decode("utf-8", "replace").strip()
                except OSError as error:
                    found[path] = f"errno {error.errno}"
    return found


print(json.dumps({"files": files(), "values": values()}))
