# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits that cannot be given.

A number that is too large locks out all users, as pam_limits denies a login whose limits it cannot set.
Debian's pam_limits lets them in with their previous limit.
"""

from __future__ import annotations

import re

from ...host.host import Host
from ...linux import sysctl_values
from ...linux.sysctl_d import BootConfig
from ...model import values
from ...model.errors import HostError
from ...model.record import dataclass, regex
from . import units
from .parse import Amount, Limit, is_within

_NR_OPEN = "/proc/sys/fs/nr_open"
_RELEASE = "/proc/sys/kernel/osrelease"
#: The kernel's default (fs/file.c: sysctl_nr_open)
_NR_OPEN_DEFAULT = 1 << 20

#: include/uapi/linux/capability.h
_SYS_RESOURCE = 24
_BOUNDING = regex(r"^CapBnd:\s*([0-9a-f]{1,16})$", re.MULTILINE | re.ASCII)
#: The user ids of the initial namespace, and no others (user_namespaces(7))
_ALL_USERS = ["0", "0", "4294967295"]

_INIT = "/proc/1/limits"


@dataclass(frozen=True)
class Guards:
    """files: the highest limit that fs.nr_open allows, and its source. bound: even root may raise no limit
    here. unknown: why fs.nr_open at boot is not known.
    """

    host: Host
    files: int
    source: str
    bound: bool
    unknown: str = ""

    def refusal(self, limit: Limit, want: Amount) -> str:
        """Reason why the limit would lock users out; empty if it would not."""
        if limit.name != "nofile" or (not self.unknown and is_within(want.hard, self.files)):
            return ""
        number = f"{self.files} ({self.source})"
        if is_within(want.hard, self.files):
            number = f"unknown at boot ({self.unknown})"
        return (
            f"fs.nr_open is {number}, and most versions of pam_limits deny every login "
            f"that they cannot give its limits: declare fs.nr_open of at least {want.hard} first; until then "
            "mlnode apply, as at boot, leaves it out of our files"
        )

    def ceiling(self, limit: Limit, want: Amount) -> str:
        """Reason why that much cannot be given here; empty if it can."""
        if not self.bound:
            return ""
        try:
            most = units.of_process(self.host, limit, _INIT)
        except HostError:
            return ""  # Every other process shows it, so there is no evidence
        if most is None or is_within(want.hard, most.hard):
            return ""
        return (
            f"this container may not raise its limits, and has {limit.name} {most}: raise it when you "
            "start the container (--ulimit)"
        )


def look(host: Host, runtime: bool, config: BootConfig) -> Guards:
    """Guards of this node. runtime: false on a build host. Raises HostError."""
    release = host.value(_RELEASE).text or "" if runtime else ""
    at_boot, where, unknown = _at_boot(config, release)
    here = values.number(host.value(_NR_OPEN).text) if runtime else None
    known = [(here, _NR_OPEN), (at_boot, where)]
    least = min(((most, where) for most, where in known if most is not None), default=None)
    files, source = least or (_NR_OPEN_DEFAULT, "the kernel's own default")
    return Guards(host, files, source, runtime and _is_bound(host), unknown)


def _at_boot(config: BootConfig, release: str) -> tuple[int | None, str, str]:
    """Result of the files of sysctl.d for fs.nr_open: the number, its line, and why it is unknown."""
    decision = config.decided("fs/nr_open", sysctl_values.writes(release=release))
    if decision is None or decision.line.value is None or decision.effect.refused:
        return None, "", ""
    where, effect = decision.line.where, decision.effect
    unknown = f"{where} sets {decision.line.value!r}: {effect.unknown}" if effect.unknown else ""
    return values.number(effect.text), where, unknown


def _is_bound(host: Host) -> bool:
    """True in a container whose root cannot raise limits, as this requires the capability in the initial user
    namespace (kernel/sys.c: do_prlimit).
    """
    users = host.value("/proc/1/uid_map").text
    if users is not None and users.split() != _ALL_USERS:
        return True
    match = _BOUNDING.search(host.value("/proc/1/status").text or "")
    return match is not None and not int(match.group(1), 16) >> _SYS_RESOURCE & 1
