# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits that a login gets from /etc/security, by the rules of limits.conf(5) and the source of pam_limits.

limits.conf is read first, then limits.d in the order of names. For the same domain the later line counts. A
user's line beats a group's, and a group's beats the line for everybody, whatever their order. A file in /etc
hides the file of the same name in the vendor's folder.
"""

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
#: Folders of service files; the first folder that has the file counts, and the third is SUSE's
#: (_PAM_VENDORDIR)
SERVICES = ("/etc/pam.d", "/usr/lib/pam.d", "/usr/etc/pam.d")
#: Folders of modules, by architecture and distribution (DEFAULT_MODULE_PATH)
_MODULES = ("/lib*/security", "/lib/*/security", "/usr/lib*/security", "/usr/lib/*/security")
#: The vendor's folder, as compiled into the module with --enable-vendordir, by SUSE for example:
#: LIMITS_CONF_GLOB and VENDOR_LIMITS_CONF_GLOB
_COMPILED = regex(rb"(/[\w./+-]+)/limits\.d/\*\.conf\0")
_USES = regex(r"^[^#\n]*\bpam_limits\.so\b", re.MULTILINE)

#: Words for no limit; of a number, only the digits at the beginning count (strtoull(3))
_ENDLESS = ("-1", "-", "unlimited", "infinity")
_INFINITY = (1 << 64) - 1
_DIGITS = regex(r"\+?([0-9]{1,40})", re.ASCII)
#: FIRST:LAST of user ids, FIRST: without end, and :ID of a single one
_RANGE = regex(r"([0-9]{0,10}):([0-9]{0,10})\Z", re.ASCII)
_NUMBER = regex(r"[0-9]{1,10}\Z", re.ASCII)
#: Domains of root alone, to whom lines for * do not apply
_ROOT = ("root", ":0", "0:0")

#: Shown for the other limit if a line sets only one of the two
INHERITED = "inherited"


class Line(NamedTuple):
    """A complete line. type: soft, hard or -. item: empty if the line exempts a domain from all limits."""

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
        """Its number in the unit of the kernel; None if pam_limits rejects it."""
        if self.value in _ENDLESS:
            return UNLIMITED
        match = _DIGITS.match(self.value)
        if not match or self.item not in LIMITS:
            return None
        number = int(match.group(1)) << (10 if LIMITS[self.item].in_bytes else 0)
        return str(number) if number < _INFINITY else UNLIMITED


class Found(NamedTuple):
    """Limits of a domain. lines: those that decide. exempt: the line that exempts it from all limits."""

    soft: str = ""
    hard: str = ""
    lines: tuple[Line, ...] = ()
    exempt: Line | None = None

    def __str__(self) -> str:
        soft, hard = self.soft or INHERITED, self.hard or INHERITED
        return soft if soft == hard else f"{soft}:{hard}"


@dataclass(frozen=True)
class Limits:
    """All lines in order of precedence. unused: why no login uses them. users: name → number."""

    lines: tuple[Line, ...]
    unreadable: str = ""
    unused: str = ""
    users: Mapping[str, int] = field(default_factory=dict)

    def login_limits(self, domain: str, item: str) -> Found:
        """Limits of the logins of a domain that no more specific line concerns."""
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
        """More specific lines that override the domain's lines for some of its logins: lines for users,
        ranges of user ids, and groups. Ranges are included if the user's id is unknown, as they may contain
        it.
        """
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
    """True if a line's domain is this one, or a range of user ids with its user."""
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
    """Name → number of each user in this node's own files."""
    rows = (row.split(":") for row in host.text("/etc/passwd").split("\n"))
    return {"root": 0, **{row[0]: int(row[2]) for row in rows if len(row) > 2 and _NUMBER.match(row[2])}}


def load(host: Host) -> Limits:
    """Never raises: the result lists anything that cannot be read."""
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
    """Folders that pam_limits reads; files of an earlier one hide their namesakes. All known folders for a
    tree without the module. Raises HostError.
    """
    module = next((path for folder in _MODULES for path in host.matching(f"{folder}/{MODULE}")), "")
    folders = (
        [match.decode("ascii") for match in _COMPILED.findall(host.read_bytes(module))] if module else []
    )
    vendors = [folder for folder in folders if folder != _ETC] if _ETC in folders else [_VENDOR]
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
