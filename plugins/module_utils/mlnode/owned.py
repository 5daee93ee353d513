# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every file that mlnode owns, by its name alone: it shows that a node was tuned where no origin is left."""

from __future__ import annotations

from . import places
from .host import Host

_SYSTEMD = "/etc/systemd/system"
_WANTS = f"{_SYSTEMD}/multi-user.target.wants"
_UNITS = ("mlnode-apply.service", "mlnode-nic.service", "mlnode-nic.path")

#: Pattern → who reads such files, a name of refresh.REFRESHES; in the order in which they can be removed:
#: first what starts the agent, which would else bring the rest back at a boot in between. By name, as every
#: module looks here; a test holds them against the constants of those who write them.
PATTERNS = {
    **{f"{_WANTS}/{unit}": "units" for unit in _UNITS},
    **{f"{_SYSTEMD}/{unit}": "units" for unit in _UNITS},
    "/etc/udev/rules.d/90-mlnode.rules": "units",
    "/etc/systemd/system-preset/50-mlnode.preset": "units",
    "/etc/sysctl.d/zz-mlnode-*.conf": "",
    "/etc/modules-load.d/mlnode-*.conf": "",
    "/etc/security/limits.d/zz-mlnode-*.conf": "",
    "/etc/systemd/system.conf.d/zz-mlnode-*.conf": "units",
    f"{_SYSTEMD}/*.d/zz-mlnode-*.conf": "units",
    "/etc/default/grub.d/zz-mlnode-*.cfg": "boot loader",
    "/etc/mlnode/irqbalance.d/*": "irqbalance",
    "/etc/mlnode/irqbalance-policy": "irqbalance",
    "/etc/mlnode/management.json": "",
    "/etc/mlnode/declared.d/*.json": "",
    "/usr/local/bin/mlnode": "",
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
    if path.startswith(_WANTS):
        return places.is_own(host.link_target(path))
    return not host.is_link(path) and host.exists(path)
