# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declared keys in the containers of this node."""

from __future__ import annotations

from ...host.host import Host
from ...linux import sysctl_reach
from ...linux.sysctl_reach import Reach

_DEVCONF = "/proc/sys/net/core/devconf_inherit_init_net"
_RELEASE = "/proc/sys/kernel/osrelease"

UNKNOWN = "not known for this kernel"

#: Behind the value of a key that does not reach containers
_REMEDY = "; set it for the container, or use the host's network"
_REMEDY_IPC = "; set it for the container, or use the host's IPC namespace"


def reach(host: Host, key: str) -> Reach | None:
    """The reach of a key with the running kernel and its present values; None if it is not known."""
    return sysctl_reach.reach(key, host.value(_RELEASE).text or "", devconf(host))


def devconf(host: Host) -> str:
    """For sysctl_reach.reach(); empty if it is not known."""
    value = host.value(_DEVCONF)
    return "0" if value.absent else value.text or ""


def words(host: Host, key: str) -> str:
    """One line for people."""
    kind = reach(host, key)
    if kind is None:
        return UNKNOWN
    if kind is not Reach.OWN:
        return str(kind)
    return f"{kind}{_REMEDY_IPC if sysctl_reach.namespace(key) == 'ipc' else _REMEDY}"
