# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits that a login gets from /etc/security, by the rules of limits.conf(5), read in the source of
pam_limits: limits.conf first, then limits.d in the order of the names. Of equal domains the later line
counts; a user's beats a group's, and a group's that of everybody, wherever they stand. Each file of /etc
hides the one of its name in the vendor's folder."""

from __future__ import annotations

import re
from typing import Iterator, Mapping

from ...host.host import Host
from ...linux import drop_ins
from ...model.errors import HostError
from ...model.record import NamedTuple, dataclass, field, regex
from .parse import LIMITS, UNLIMITED

_ETC, _VENDOR = "/etc/security", "/usr/etc/security"
FOLDER = f"{_ETC}/limits.d"

MODULE = "pam_limits.so"
#: Of the files of services; the first that has one counts, and the third is SUSE's (_PAM_VENDORDIR)
SERVICES = ("/etc/pam.d", "/usr/lib/pam.d", "/usr/etc/pam.d")
#: Where modules are, by architecture and distribution (DEFAULT_MODULE_PATH)
_MODULES = ("/lib*/security", "/lib/*/security", "/usr/lib*/security", "/usr/lib/*/security")
#: The vendor's folder is compiled into the module (--enable-vendordir, as SUSE has it), beside that of /etc:
#: LIMITS_CONF_GLOB and VENDOR_LIMITS_CONF_GLOB
_COMPILED = regex(rb"(/[\w./+-]+)/limits\.d/\*\.conf\0")
_USES = regex(r"^[^#\n]*\bpam_limits\.so\b", re.MULTILINE)

#: What stands for no limit; of numbers the digits at the beginning count (strtoull(3))
_ENDLESS = ("-1", "-", "unlimited", "infinity")
_INFINITY = (1 << 64) - 1
_DIGITS = regex(r"\+?([0-9]{1,40})", re.ASCII)
#: FIRST:LAST of user ids, FIRST: without end, and :ID of one alone
_RANGE = regex(r"([0-9]{0,10}):([0-9]{0,10})\Z", re.ASCII)
_NUMBER = regex(r"[0-9]{1,10}\Z", re.ASCII)
#: Those of root alone, whom the lines of * are not for
_ROOT = ("root", ":0", "0:0")

#: Where a line sets only one of the two limits
INHERITED = "inherited"


class Line(NamedTuple):
    """A complete line. type: soft, hard or -. item: empty where a domain is freed of all limits."""

    domain: str
    type: str
    item: str
    value: str
    file: str
    number: int

    @property
    def where(self) -> str:
        return f"{self.file}:{self.number}"

    @property
    def text(self) -> str:
        return " ".join(word for word in (self.domain, self.type, self.item, self.value) if word)

    @property
    def amount(self) -> str | None:
        """Its number in the unit of the kernel; None where pam_limits does not take it."""
        if self.value in _ENDLESS:
            return UNLIMITED
        match = _DIGITS.match(self.value)
        if not match or self.item not in LIMITS:
            return None
        number = int(match.group(1)) << (10 if LIMITS[self.item].in_bytes else 0)
        return str(number) if number < _INFINITY else UNLIMITED


class Found(NamedTuple):
    """Limits of a domain. lines: those that decide. exempt: the line that takes all limits from it."""

    soft: str = ""
    hard: str = ""
    lines: tuple[Line, ...] = ()
    exempt: Line | None = None

    def __str__(self) -> str:
        soft, hard = self.soft or INHERITED, self.hard or INHERITED
        return soft if soft == hard else f"{soft}:{hard}"


@dataclass(frozen=True)
class Limits:
    """All lines in the order in which they count. unused: why no login asks for them. users: name →
    number."""

    lines: tuple[Line, ...]
    unreadable: str = ""
    unused: str = ""
    users: Mapping[str, int] = field(default_factory=dict)

    def of(self, domain: str, item: str) -> Found:
        """Limits of those logins of the domain to which no other line is closer."""
        soft: Line | None = None
        hard: Line | None = None
        for line in self.lines:
            if not _covers(line.domain, domain, self.users):
                continue
            if not line.item:
                if domain != "*":
                    return Found(exempt=line)
                continue
            if line.item != item or line.amount is None:
                continue
            soft = line if line.type in ("soft", "-") else soft
            hard = line if line.type in ("hard", "-") else hard
        lines = [line for line in (soft, hard) if line is not None]
        return Found(
            (soft.amount if soft else "") or "",
            (hard.amount if hard else "") or "",
            tuple(dict.fromkeys(lines)),
        )

    def closer(self, domain: str, item: str) -> list[Line]:
        """Lines for some of those whom the domain stands for, which beat it: of users, ranges of user ids and
        groups. Of a user whose number is not known here, ranges, as it may be in one."""
        others = [
            line
            for line in self.lines
            if line.item in ("", item)
            and line.domain not in ("*", domain, *_ROOT)
            and not line.domain.startswith("%")
        ]
        if domain == "*":
            return others
        ranges = [line for line in others if ":" in line.domain]
        if domain.startswith("@"):
            return [line for line in others if line in ranges or not line.domain.startswith("@")]
        unknown = domain != "root" and domain not in self.users
        return [line for line in ranges if unknown and not line.domain.startswith("@")]


def _covers(name: str, domain: str, users: Mapping[str, int]) -> bool:
    """True if a line's domain is this one, or a range of user ids that its user is in."""
    if name == domain:
        return True
    number = users.get(domain)
    match = _RANGE.match(name)
    if match is None or number is None or name == ":":
        return False
    first, last = match.groups()
    if not first:
        return number == int(last)
    return int(first) <= number and (not last or number <= int(last))


def _users(host: Host) -> dict[str, int]:
    """Name → number, of those that are kept on this node."""
    rows = (row.split(":") for row in host.text("/etc/passwd").split("\n"))
    return {"root": 0, **{row[0]: int(row[2]) for row in rows if len(row) > 2 and _NUMBER.match(row[2])}}


def load(host: Host) -> Limits:
    """Never raises: what cannot be read is named in the result."""
    try:
        folders = read_by_module(host)
        mains = [path for path in (f"{folder}/limits.conf" for folder in folders) if host.exists(path)]
        paths = [*mains[:1], *drop_ins.paths(host, [f"{folder}/limits.d" for folder in folders])]
        lines = tuple(line for path in paths for line in _lines(drop_ins.text(host, path), path))
        used = _is_used(host)
        users = _users(host)
    except HostError as error:
        return Limits((), unreadable=str(error))
    unused = (
        "" if used else f"no file in {' or '.join(SERVICES)} uses {MODULE}: logins get their limits elsewhere"
    )
    return Limits(lines, unused=unused, users=users)


def read_by_module(host: Host) -> list[str]:
    """The folders that pam_limits reads, the one that hides names of the others first; of a tree without the
    module, all that are known. Raises HostError."""
    module = next((path for folder in _MODULES for path in host.matching(f"{folder}/{MODULE}")), "")
    found = [match.decode("ascii") for match in _COMPILED.findall(host.read_bytes(module))] if module else []
    vendors = [folder for folder in found if folder != _ETC] if _ETC in found else [_VENDOR]
    return [_ETC, *vendors]


def _lines(text: str, path: str) -> Iterator[Line]:
    for number, raw in enumerate(text.split("\n"), start=1):
        words = raw.partition("#")[0].split()
        if len(words) >= 4:
            domain, kind, item, value = words[0], *(word.lower() for word in words[1:4])
            if kind in ("soft", "hard", "-"):
                yield Line(domain, kind, item, value, path, number)
        elif len(words) == 2 and words[1].startswith("-"):
            yield Line(words[0], "-", "", "", path, number)


def _is_used(host: Host) -> bool:
    """True if a service uses pam_limits. Raises HostError."""
    return any(_USES.search(host.text(path)) for path in drop_ins.paths(host, SERVICES, ("",)))
