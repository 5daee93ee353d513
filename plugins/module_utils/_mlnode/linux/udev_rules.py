# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of udev(7) that set a kernel file: ATTR{...}= of a disk, SYSCTL{...}=, and sysctl in RUN."""

from __future__ import annotations

import fnmatch
from typing import Iterator, Sequence

from ..host.host import Host
from ..model.record import NamedTuple, regex
from . import drop_ins, sysctl_d

_FOLDERS = tuple(f"{top}/udev/rules.d" for top in drop_ins.TOPS)

_TOKEN = regex(r"([A-Z]+)(?:\{([^}]*)\})?\s*([=!]=|[-+:]?=)\s*\"((?:[^\"\\]|\\.)*)\"")
_DISK = regex(r"(/sys/(?:class/)?block/([^/]+))/(queue/[a-z_]+)\Z")
_BDI = regex(r"(/sys/class/bdi/([^/]+))/([a-z_]+)\Z")
#: Other names of an attribute
_ALSO = {"queue/read_ahead_kb": "bdi/read_ahead_kb"}
#: Variables for the name of a device, which are not resolved (udev(7), substitutions)
_NAME = regex(r"\$(?:name|kernel|env\{[A-Z_]+\})|%[kE](?:\{[A-Z_]+\})?")
_SETS = regex(r"([A-Za-z0-9_./*${}%-]+)=(\S+)")


class Found(NamedTuple):
    """An assignment. value: empty if it is unknown. sure: False if other keys decide whether the rule is for
    this device."""

    where: str
    text: str
    value: str
    sure: bool


class _Token(NamedTuple):
    key: str
    attribute: str
    operator: str
    value: str

    @property
    def text(self) -> str:
        name = f"{self.key}{{{self.attribute}}}" if self.attribute else self.key
        return f'{name}{self.operator}"{self.value}"'


def sets(host: Host, path: str) -> list[Found]:
    """Every rule that sets a kernel file, in their order. Raises HostError."""
    rules = []
    for where, tokens in host.once("udev rules", lambda: [*_rules(host)]):
        for token in tokens:
            assignment = _sets(host, path, token, tokens)
            if assignment is not None:
                value, sure = assignment
                rules.append(Found(where, token.text, value, sure))
    return rules


def paths(host: Host) -> list[str]:
    """The effective files, in their order. Raises HostError."""
    return drop_ins.paths(host, _FOLDERS, (".rules",))


def _rules(host: Host) -> Iterator[tuple[str, list[_Token]]]:
    for path in paths(host):
        for number, text in drop_ins.wrapped(drop_ins.text(host, path), comment="#"):
            tokens = [_Token(*(part or "" for part in match.groups())) for match in _TOKEN.finditer(text)]
            sets = any(token.operator not in ("==", "!=") for token in tokens)
            if sets and not text.lstrip().startswith("#"):
                yield f"{path}:{number}", tokens


def _sets(host: Host, path: str, token: _Token, tokens: Sequence[_Token]) -> tuple[str, bool] | None:
    """The value that an assignment gives to a file, and whether that is sure; None if it sets another
    file."""
    if token.operator in ("==", "!="):
        return None
    if path.startswith("/proc/sys/"):
        return _sysctl(path[len("/proc/sys/") :], token)
    disk = _DISK.match(path) or _BDI.match(path)
    if disk is None or token.key != "ATTR" or token.attribute not in (disk[3], _ALSO.get(disk[3])):
        return None
    subsystem = "bdi" if "/bdi/" in disk[1] else "block"
    fits = [_fits(host, rule_token, disk[1], disk[2], subsystem) for rule_token in tokens]
    return None if False in fits else (token.value, None not in fits)


def _sysctl(key: str, token: _Token) -> tuple[str, bool] | None:
    if token.key == "SYSCTL":
        return (token.value, _is_plain(token.attribute)) if _same(token.attribute, key) else None
    if token.key != "RUN":
        return None
    if f"/proc/sys/{key}" in token.value:
        return "", False
    words = token.value.replace("'", " ").split()
    if not any(word.rpartition("/")[2] == "sysctl" for word in words):
        return None
    for match in _SETS.finditer(token.value.replace("'", " ")):
        if _same(match[1], key):
            return match[2], _is_plain(match[1])
    return None


def _same(name: str, key: str) -> bool:
    return fnmatch.fnmatchcase(key, sysctl_d.slashed(_NAME.sub("*", name)))


def _is_plain(name: str) -> bool:
    return _NAME.search(name) is None


def _fits(host: Host, token: _Token, device: str, name: str, subsystem: str) -> bool | None:
    """True if a match of a rule holds for a device; None if that is unknown."""
    if token.operator not in ("==", "!="):
        return True
    have = {"KERNEL": name, "SUBSYSTEM": subsystem}.get(token.key)
    if token.key == "ATTR":
        have = (host.value(f"{device}/{token.attribute}").text or "").strip()
    if token.key == "ACTION":
        return True
    if have is None:
        return None
    is_match = any(fnmatch.fnmatchcase(have, pattern) for pattern in token.value.split("|"))
    return is_match == (token.operator == "==")
