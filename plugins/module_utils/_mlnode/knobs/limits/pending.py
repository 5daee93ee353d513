# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running daemon whose limits differ from its files: the same text for the kind limits and for the check of
lockable memory.
"""

from __future__ import annotations

from ...host.host import Host
from ...linux import systemd_conf
from ...model.errors import HostError
from . import login, units
from . import pam as limits_pam
from .parse import SERVICE_NAMES, UNLIMITED, Amount, Limit
from .units import Assigned


def words(process: str, unit: str, now: str, then: str) -> str:
    """Text that leaves the restart to the administrator, as jobs may die with the daemon."""
    return f"pending: {process} runs with {now}, and gets {then} from `systemctl restart {unit}`"


def next_start(host: Host, limit: Limit, process: str) -> tuple[str, Assigned]:
    """The unit of a daemon and its limit at the next start, from its own files or systemd's default.

    Empty if no known unit starts it. Raises HostError.
    """
    names = tuple(name for name, called in SERVICE_NAMES.items() if called == process)
    services, _missing = units.installed(host, names) if names else ([], [])
    if not services:
        return "", Assigned()
    assigned = units.effective(limit, systemd_conf.service(host, services[0].names, limit.key))
    if assigned.amount is None:
        assigned = units.effective(limit, systemd_conf.manager(host, f"Default{limit.key}"))
    return services[0].unit, assigned


def of_logins(host: Host, limit: Limit) -> tuple[Amount | None, str]:
    """The limit that PAM gives to every login over SSH, whatever sshd's own limit is, and its line. None if
    PAM sets none or it is unknown.
    """
    pam = limits_pam.load(host)
    limits = pam.login_limits("*", limit.name)
    if pam.unreadable or pam.unused or not limits.lines or not (limits.soft and limits.hard):
        return None, ""
    try:
        if login.sshd(host) is not None:
            return None, ""
    except HostError:
        return None, ""
    soft, hard = (None if text == UNLIMITED else int(text) for text in (limits.soft, limits.hard))
    return Amount(soft, hard), limits.lines[-1].where
