# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits that are never lowered: a declared limit is a minimum unless it is declared as exact.

A package may give its service more than is declared, and its jobs rely on it. Containers inherit the limits
of containerd, and a lower soft limit of files has crashed programs that never raise it (amazon-eks-ami, issue
1551). Each soft and hard limit is therefore the greater of two: the declared one, and the node's own without
mlnode's files.
"""

from __future__ import annotations

import re
from typing import Sequence

from ...host.host import Host
from ...linux import systemd_conf
from ...linux.systemd_conf import Line
from ...model.record import NamedTuple, regex
from . import units
from .pam import Found, Limits
from .parse import FILE, UNLIMITED, Amount, Limit, Wanted
from .units import Service

#: Placeholder for an unknown number, which decides nothing
_UNKNOWN = -1
NOTHING = Amount(_UNKNOWN, _UNKNOWN)

#: systemd's default before mlnode changed it, as no file shows it any more
_MARK = "# before: {} {}"
_MARKED = regex(r"^# before: ([a-z]+) (\S+)$", re.MULTILINE | re.ASCII)


class Floor(NamedTuple):
    """amount: the limit to reach. base: the limit without mlnode's files."""

    wanted: Wanted
    base: Amount

    @property
    def amount(self) -> Amount:
        least = self.wanted.amount
        if self.wanted.exact:
            return least
        return Amount(_greater(least.soft, self.base.soft), _greater(least.hard, self.base.hard))

    @property
    def kept(self) -> bool:
        """True if nothing has to be written, as the node's own limit is higher.

        An equal value is written all the same: it may be a systemd default that an earlier run has set.
        """
        return not self.wanted.exact and self.amount == self.base and self.amount != self.wanted.amount

    @property
    def kept_parts(self) -> tuple[bool, bool]:
        """The same for the soft and the hard limit, if each can be written alone."""
        if self.kept or self.wanted.exact:
            return self.kept, self.kept
        soft, hard = (
            now == base != least for now, base, least in zip(self.amount, self.base, self.wanted.amount)
        )
        return soft, hard

    @property
    def more(self) -> str:
        """The amount, if the node's own limit raises it above the declared one; else empty."""
        return "" if self.wanted.exact or self.amount == self.wanted.amount else str(self.amount)

    @property
    def lowers(self) -> str:
        """The value that an exact limit would lower; empty if there is none."""
        least = self.wanted.amount
        raised = Amount(_greater(least.soft, self.base.soft), _greater(least.hard, self.base.hard))
        return str(self.base) if self.wanted.exact and raised != least and _UNKNOWN not in self.base else ""

    def suffices(self, now: Amount) -> bool:
        """True if a limit is as declared, or higher if that is acceptable."""
        least = self.wanted.amount
        if self.wanted.exact:
            return now == least
        return Amount(_greater(least.soft, now.soft), _greater(least.hard, now.hard)) == now


def is_known(amount: Amount) -> bool:
    return _UNKNOWN not in amount


def _greater(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else max(first, second)


def of_manager(host: Host, limit: Limit, live: bool) -> Amount:
    """systemd's default for all services. live: systemd runs here; false on a build host."""
    assigned = systemd_conf.manager(host, f"Default{limit.key}")
    foreign = units.effective(limit, _foreign(assigned))
    if foreign.amount is not None:
        return foreign.amount
    for line in assigned:
        marked = dict(_MARKED.findall(host.text(line.file))).get(limit.name)
        if marked is not None:
            return units.amount(limit, marked) or NOTHING
    if assigned or not live:
        return NOTHING
    text = units.manager_now(host, limit).text
    return (units.amount(limit, text.replace(UNLIMITED, "infinity")) if text else None) or NOTHING


def mark(limit: Limit, base: Amount, wants: Sequence[Wanted]) -> list[str]:
    """The line of a file that records the original limit for later runs, if it exceeds the declared one."""
    matters = any(Floor(wanted, base).more for wanted in wants)
    return [_MARK.format(limit.name, base.in_systemd())] if matters and _UNKNOWN not in base else []


def of_service(host: Host, limit: Limit, service: Service, live: bool) -> Amount:
    """A service's own limit, or systemd's default."""
    lines = _foreign(systemd_conf.service(host, service.names, limit.key))
    return units.effective(limit, lines).amount or of_manager(host, limit, live)


def of_login(host: Host, pam: Limits, domain: str, limit: Limit, live: bool) -> Amount:
    """Limits that other lines give to logins; without a line, a login has systemd's default."""
    others = tuple(line for line in pam.lines if not is_ours(line.file))
    return _filled(
        Limits(others, users=pam.users).login_limits(domain, limit.name), of_manager(host, limit, live)
    )


def completed(login_limits: Found, floor: Floor) -> Amount:
    """Limits of the lines found, completed with the node's own limits that need no line."""
    soft, hard = floor.kept_parts
    return _filled(
        login_limits, Amount(floor.base.soft if soft else _UNKNOWN, floor.base.hard if hard else _UNKNOWN)
    )


def _filled(login_limits: Found, given: Amount) -> Amount:
    """Limits of lines; the others are inherited."""
    return Amount(
        _number(login_limits.soft) if login_limits.soft else given.soft,
        _number(login_limits.hard) if login_limits.hard else given.hard,
    )


def _number(text: str) -> int | None:
    return None if text == UNLIMITED else int(text)


def _foreign(lines: Sequence[Line]) -> list[Line]:
    return [line for line in lines if not is_ours(line.file)]


def is_ours(path: str) -> bool:
    return path.rpartition("/")[2].startswith(FILE)
