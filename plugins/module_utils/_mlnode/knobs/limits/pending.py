# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""State of a daemon that runs with other limits than its files give it: one judgement for the rows of
the kind limits and for the check of the memory that jobs may lock."""

from __future__ import annotations

from ...host.host import Host
from ...linux import systemd_conf
from ...model.errors import HostError
from . import login, units
from . import pam as limits_pam
from .parse import SERVICE_NAMES, UNLIMITED, Amount, Limit
from .units import Assigned


def words(process: str, unit: str, now: str, then: str) -> str:
    """Only the administrator restarts it, as its jobs may die with it."""
    return f"pending: {process} runs with {now}, and gets {then} from `systemctl restart {unit}`"


def next_start(host: Host, limit: Limit, process: str) -> tuple[str, Assigned]:
    """The unit of a daemon, and what it gets when it is started again: by files of its own, or as every
    service. Empty where no unit that is known here starts it. Raises HostError."""
    names = tuple(name for name, called in SERVICE_NAMES.items() if called == process)
    services, _missing = units.installed(host, names) if names else ([], [])
    if not services:
        return "", Assigned()
    assigned = units.effective(limit, systemd_conf.service(host, services[0].names, limit.key))
    if assigned.amount is None:
        assigned = units.effective(limit, systemd_conf.manager(host, f"Default{limit.key}"))
    return services[0].unit, assigned


def of_logins(host: Host, limit: Limit) -> tuple[Amount | None, str]:
    """The limit that PAM gives to every login over SSH, whatever sshd itself runs with, and its line; None if
    it gives none, or that is unknown."""
    pam = limits_pam.load(host)
    limits = pam.of("*", limit.name)
    if pam.unreadable or pam.unused or not limits.lines or not (limits.soft and limits.hard):
        return None, ""
    try:
        if login.sshd(host) is not None:
            return None, ""
    except HostError:
        return None, ""
    soft, hard = (None if text == UNLIMITED else int(text) for text in (limits.soft, limits.hard))
    return Amount(soft, hard), limits.lines[-1].where
