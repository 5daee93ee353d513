# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every file that mlnode owns, by its name alone: it shows that a node was tuned where no origin is left."""

from __future__ import annotations

from . import management
from .agent_files import LINKS, TEXTS
from .declared import FOLDER
from .host import Host
from .kind import AGENT_COMMAND
from .refresh import IRQBALANCE_POLICY

#: Pattern → who reads such files, a name of refresh.REFRESHES; in the order in which they can be removed:
#: first what starts the agent, which would else bring the rest back at a boot in between
PATTERNS = {
    **dict.fromkeys((*LINKS, *TEXTS), "units"),
    "/etc/sysctl.d/zz-mlnode-*.conf": "",
    "/etc/modules-load.d/mlnode-*.conf": "",
    "/etc/security/limits.d/zz-mlnode-*.conf": "",
    "/etc/systemd/system.conf.d/zz-mlnode-*.conf": "units",
    "/etc/systemd/system/*.d/zz-mlnode-*.conf": "units",
    "/etc/default/grub.d/zz-mlnode-*.cfg": "boot loader",
    "/etc/mlnode/irqbalance.d/*": "irqbalance",
    IRQBALANCE_POLICY: "irqbalance",
    management.RECORD: "",
    f"{FOLDER}/*.json": "",
    AGENT_COMMAND: "",
}


def present(host: Host) -> dict[str, str]:
    """Path → who reads it, of those that are there. Raises HostError."""
    return {
        path: reader
        for pattern, reader in PATTERNS.items()
        for path in ([pattern] if "*" not in pattern else host.matching(pattern))
        if _is_ours(host, path)
    }


def _is_ours(host: Host, path: str) -> bool:
    """Not what an administrator has put there to keep us away: a unit linked to /dev/null, say."""
    if path in LINKS:
        return host.link_target(path) == LINKS[path]
    return not host.is_link(path) and host.exists(path)
