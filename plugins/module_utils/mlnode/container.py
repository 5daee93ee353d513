# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The container that this is, from the files by which its runtime says so (systemd: src/basic/virt.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from .errors import HostError

if TYPE_CHECKING:
    from .host import Host

#: Readable by root alone; for others it says nothing.
ENVIRON = "/proc/1/environ"


def of(host: Host, note: Callable[[str, str], None] = lambda _path, _words: None) -> str:
    """docker, podman, lxc ...: the runtime of this container; empty outside of one.

    note: called with the path of what could not be looked at, and why.
    """
    try:
        named = host.text("/run/systemd/container").strip()
        if named:
            return named
    except HostError as error:
        note("/run/systemd/container", str(error))
    for path, name in (("/run/.containerenv", "podman"), ("/.dockerenv", "docker")):
        try:
            if host.exists(path):
                return name
        except HostError as error:
            note(path, str(error))
    try:
        entries = host.text(ENVIRON).split("\0")
    except HostError:
        return ""
    given = next((entry[len("container=") :] for entry in entries if entry.startswith("container=")), "")
    if given:
        return given
    return "kubernetes" if any(entry.startswith("KUBERNETES_SERVICE_HOST=") for entry in entries) else ""
