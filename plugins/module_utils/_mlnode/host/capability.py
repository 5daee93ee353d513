# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Permission of this root to configure the network, which in a container it often lacks: capabilities(7)."""

from __future__ import annotations

import re

from ..model.record import regex
from .host import Host

#: include/uapi/linux/capability.h
_NET_ADMIN = 12

_EFFECTIVE = regex(r"^CapEff:\s*([0-9a-f]{1,16})$", re.MULTILINE | re.ASCII)


def lacks_net_admin(host: Host, path: str) -> str:
    """Reason why not even root may set the value at a path; empty if it may, if we are not root, in a
    captured tree, or if that is unknown."""
    if not host.live or not host.is_superuser():
        return ""
    held = _EFFECTIVE.search(host.value("/proc/self/status").text or "")
    if not held or int(held.group(1), 16) >> _NET_ADMIN & 1:
        return ""
    return (
        f"{path} needs CAP_NET_ADMIN, which this root does not have: set it on the host, not in its container"
    )
