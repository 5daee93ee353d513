# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resource limits as they are declared, as PAM and systemd write them, and as the kernel shows them."""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping

from ...engine.kind import Spec
from ...model import schema, strict_json
from ...model.errors import DeclarationError
from ...model.record import NamedTuple, regex
from ...model.schema import Checked, Option
from ...model.setting import Setting
from ...model.values import by_key
from .schema import AUTO, DOMAINS

KIND = "limits"

UNLIMITED = "unlimited"


class Limit(NamedTuple):
    """row, unit: as in /proc/PID/limits. least: a lower value would break programs, or the login to correct
    it; 0 if any number makes sense. automatic: it may depend on the hardware. exact: the declared number is
    not a minimum, as more is not as good.
    """

    name: str
    row: str
    unit: str
    least: int = 0
    why: str = ""
    automatic: bool = False
    exact: bool = False

    @property
    def in_bytes(self) -> bool:
        return self.unit == "bytes"

    @property
    def key(self) -> str:
        """systemd's name in units, and after Default in system.conf."""
        return f"Limit{self.name.upper()}"


#: The minimums are the limits of the kernel's first process: INR_OPEN_CUR of uapi/linux/fs.h and _STK_LIM of
#: uapi/asm-generic/resource.h. Processes have none; 1024 suffices for a login and the threads of a shell, a
#: compiler and a debugger.
LIMITS = {
    limit.name: limit
    for limit in (
        Limit("nofile", "Max open files", "files", 1024, "the kernel's own default"),
        Limit("memlock", "Max locked memory", "bytes", automatic=True),
        Limit("stack", "Max stack size", "bytes", 8 << 20, "the kernel's own default"),
        # 0 keeps crashes from filling a disk.
        Limit("core", "Max core file size", "bytes", exact=True),
        Limit("nproc", "Max processes", "processes", 1024, "room to log in and work"),
    )
}

#: Scopes of a rule
LOGIN, MANAGER, SERVICES = "login", "systemd", "services"

#: Service → name of its process. Services that start jobs, containers or logins.
SERVICE_NAMES = {
    "slurmd": "slurmd",
    "containerd": "containerd",
    "docker": "dockerd",
    "kubelet": "kubelet",
    "crio": "crio",
    "ssh": "sshd",
    "sshd": "sshd",
}
#: Folders of our files; each gets one of the same name
FOLDERS = {
    LOGIN: "/etc/security/limits.d",
    MANAGER: "/etc/systemd/system.conf.d",
    SERVICES: "/etc/systemd/system/*.service.d",
}
#: Sorts after the usual last names of people and packages, except names that begin with zz
FILE = "zz-mlnode-"

#: Scopes that may have their own amount, as may each service named here
SCOPES = (LOGIN, MANAGER, SERVICES, *SERVICE_NAMES)
#: Key of the amount for everything without its own
ALL = ""

_NUMBER = regex(r"[0-9]{1,19}\Z", re.ASCII)
#: At most 62 bits, far below the kernel's number for no limit (RLIM_INFINITY)
_MOST = (1 << 62) - 1
_TEXT = Option("str")

#: An amount is a minimum, or exact
AT_LEAST, EXACTLY = "at_least", "exactly"
_FORMS = ({AT_LEAST}, {EXACTLY})


class Amount(NamedTuple):
    """Soft and hard limit; None is unlimited."""

    soft: int | None
    hard: int | None

    def __str__(self) -> str:
        return _pair(_word(self.soft), _word(self.hard))

    def in_systemd(self) -> str:
        return str(self).replace(UNLIMITED, "infinity")

    def in_pam(self, limit: Limit) -> list[tuple[str, str]]:
        """Type and value of each line of limits.conf(5)."""
        (_soft, soft), (_hard, hard) = lines = self.lines(limit)
        return [("-", soft)] if soft == hard else lines

    def lines(self, limit: Limit) -> list[tuple[str, str]]:
        """The same, with one line for each of the two limits. Memory is in KiB there."""
        soft, hard = (
            _word(None if number is None else number // 1024 if limit.in_bytes else number)
            for number in (self.soft, self.hard)
        )
        return [("soft", soft), ("hard", hard)]


class Wanted(NamedTuple):
    """A declared amount. exact: higher limits are lowered."""

    amount: Amount
    exact: bool = False


def words(amount: Amount) -> tuple[str, str]:
    """Soft and hard limit, each as a word."""
    return _word(amount.soft), _word(amount.hard)


def _word(number: int | None) -> str:
    return UNLIMITED if number is None else str(number)


def _pair(soft: str, hard: str) -> str:
    return soft if soft == hard else f"{soft}:{hard}"


def file_of(name: str) -> str:
    """Name of the files of a declaration."""
    return f"{FILE}{name}.conf"


def shown(texts: Mapping[str, str]) -> str:
    """Amounts by service as one text: `1024:1048576; 65536:1048576 (slurmd)`."""
    return named((text, name) for name, text in texts.items() if not name or text != texts.get(ALL))


def named(pairs: Iterable[tuple[str, str]]) -> str:
    """Texts, each with the names that it concerns."""
    names_by_text = by_key(pairs)
    return "; ".join(
        f"{text} ({', '.join(names)})" if names != [ALL] else text for text, names in names_by_text.items()
    )


def wanted(limit: Limit, text: str) -> Wanted:
    """The amount of a text from declared(); `auto` has found a device. Raises DeclarationError."""
    form, _blank, rest = text.rpartition(" ")
    wanted_amount = Amount(None, None) if rest == AUTO else amount(limit, rest)
    return Wanted(wanted_amount, form == EXACTLY or (limit.exact and form != AT_LEAST))


def is_within(number: int | None, most: int | None) -> bool:
    """True if a number is at most another; None is unlimited."""
    return most is None or (number is not None and number <= most)


# -- declarations --------------------------------------------------------------------------


def parse(given: Checked) -> list[Setting]:
    """Settings of a declaration, pure. Raises DeclarationError."""
    domains, chosen = dict.fromkeys(given.get("domains", DOMAINS)), services(given)
    settings: list[Setting] = []
    for limit in LIMITS.values():
        if limit.name not in given:
            continue
        texts = {scope: declared(given, scope, limit) for scope in (LOGIN, MANAGER, SERVICES)}
        if texts[LOGIN]:
            logins = [f"{LOGIN}.{domain}.{limit.name}" for domain in domains]
            settings += [_setting(login, FOLDERS[LOGIN], texts[LOGIN]) for login in logins]
        if texts[MANAGER] and given.get("defaults", True):
            settings.append(_setting(f"{MANAGER}.{limit.name}", FOLDERS[MANAGER], texts[MANAGER]))
        if texts[SERVICES]:
            of_whom = () if chosen == (AUTO,) else chosen
            rest = f"{SERVICES}.{limit.name}"
            settings.append(_setting(rest, "/etc/systemd/system", texts[SERVICES], of_whom))
    return settings


def declared(spec: Spec, scope: str, limit: Limit) -> dict[str, str]:
    """Amounts of a scope as texts: for ALL, and for services that differ; empty if nothing is
    declared.

    Raises DeclarationError.
    """
    given, where = spec[limit.name], f"{KIND}.{limit.name}"
    if not isinstance(given, Mapping) or {*given} in _FORMS:
        given, text = {}, _spelled(where, limit, given)
        own = {ALL: text}
    else:
        schema.refuse_unknown(where, given, SCOPES)
        texts = {name: _spelled(f"{where}.{name}", limit, raw) for name, raw in given.items()}
        own = {ALL: texts[scope]} if scope in texts else {}
        if scope == SERVICES:
            own.update((name, texts[name]) for name in SERVICE_NAMES if name in texts)
    chosen = services(spec) if scope == SERVICES else (AUTO,)
    if chosen == (AUTO,):
        return own
    return {name: text for name, text in own.items() if chosen and name in (ALL, *chosen)}


def _spelled(where: str, limit: Limit, raw: Any) -> str:
    """Text such as `1024:1048576`, or `exactly 1024:1048576` if exact is not the default."""
    form = next(iter(raw)) if isinstance(raw, Mapping) and {*raw} in _FORMS else ""
    text: str = schema.value(where, _TEXT, raw[form] if form else raw)
    spelled = AUTO if limit.automatic and text == AUTO else str(amount(limit, text, where))
    usual = EXACTLY if limit.exact else AT_LEAST
    return f"{form} {spelled}" if form and form != usual else spelled


def _setting(rest: str, path: str, texts: Mapping[str, str], of_whom: tuple[str, ...] = ()) -> Setting:
    want = shown(texts)
    claim = f"{want} for {', '.join(of_whom)}" if of_whom else want
    automatic = any(text.endswith(AUTO) for text in texts.values())
    return Setting(KIND, f"{KIND}.{rest}", path, None if automatic else want, claim)


def taken_apart(key: str) -> tuple[str, str, Limit]:
    """Scope of a setting, its domain, and its limit."""
    rest, _dot, name = key[len(KIND) + 1 :].rpartition(".")
    scope, _dot, domain = rest.partition(".")
    return scope, domain, LIMITS[name]


def amount(limit: Limit, raw: str, where: str = "") -> Amount:
    """where: the place in the declaration. Raises DeclarationError."""
    where = where or f"{KIND}.{limit.name}"
    texts = raw.split(":")
    if len(texts) not in (1, 2) or not all(text == UNLIMITED or _NUMBER.match(text) for text in texts):
        raise DeclarationError(
            f"{where}: {strict_json.shown(raw)} is neither a number nor {UNLIMITED}, nor SOFT:HARD of these"
            f"{f', nor {AUTO}' if limit.automatic else ''}"
        )
    soft, hard = (None if text == UNLIMITED else int(text) for text in (texts[0], texts[-1]))
    if not is_within(soft, hard):
        raise DeclarationError(f"{where}: {raw!r}: the soft limit is above the hard one")
    for number in (soft, hard):
        _check(limit, number, where)
    return Amount(soft, hard)


def _check(limit: Limit, number: int | None, where: str) -> None:
    if number is None:
        if limit.name == "nofile":
            raise DeclarationError(
                f"{where}: the kernel has no unlimited number of files, only fs.nr_open: older versions of "
                "pam_limits would refuse every login, and programs that close all files they could have open "
                "would take minutes. Declare a number, such as 1048576"
            )
        return
    if number > _MOST:
        raise DeclarationError(f"{where}: {number} is too much; write {UNLIMITED}")
    if number < limit.least:
        raise DeclarationError(f"{where}: {number} is less than {limit.least}, {limit.why}")
    if limit.in_bytes and number % 1024:
        raise DeclarationError(f"{where}: {number} bytes are not a multiple of 1024, PAM's unit of memory")


def services(spec: Spec) -> tuple[str, ...]:
    """Names of services; only `auto` for the installed ones. Raises DeclarationError."""
    given = spec.get("services", [AUTO])
    if given == [AUTO]:
        return (AUTO,)
    names = [name.partition(".service")[0] if name.endswith(".service") else name for name in given]
    for name in names:
        if name not in SERVICE_NAMES:
            raise DeclarationError(
                f"limits.services: expected {', '.join(SERVICE_NAMES)} or {AUTO}, got {name!r}"
            )
    return tuple(dict.fromkeys(names))
