# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian's ifupdown: interfaces(5), what the package ethtool's script makes of its options, and the commands
that people write there."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Iterable, Iterator, NamedTuple, Sequence

from ..errors import HostError, printable
from ..host import Host
from . import nic_owner, nic_owner_commands
from .nic_owner import Device, Found, Word, fits, source

OWNER = "ifupdown"
_UNIT = "networking.service"
_PROGRAMS = ("/usr/sbin/ifup", "/sbin/ifup")
_FILE = "/etc/network/interfaces"
_SCRIPT = "/etc/network/if-up.d/ethtool"

#: More than anybody has, and far from the depth at which Python gives up on files that source each other
_FILES = 200

#: What `source-directory` takes: interfaces(5)
_SOURCED = re.compile(r"[A-Za-z0-9_-]+\Z", re.ASCII)

#: What ends the stanza of an interface, beside another
_ENDS = ("auto", "no-scripts", "mapping", "rename", "no-auto-down", "source", "source-directory")

#: In the order in which ifup comes to them: commands before the interface is up, options and scripts, and the
#: commands after
_PRE_UP = ("pre-up",)
_POST_UP = ("up", "post-up")

#: Beginnings of options that the script gives to ethtool → the group of our files
_OPTIONS = {
    "ethernet-pause-": "pause",
    "hardware-irq-coalesce-": "coalesce",
    "hardware-dma-ring-": "ring",
    "offload-": "feature",
}


class _Line(NamedTuple):
    """One statement: a word and what follows it."""

    word: str
    rest: str
    source: str


class _Interface(NamedTuple):
    """mac: empty where it is none of ours."""

    name: str
    mac: str


@dataclass(eq=False)
class _Stanza:
    name: str
    inherits: str
    options: list[_Line] = field(default_factory=list)


@dataclass
class _Config:
    """started: names and patterns of `auto` and `allow-...`; silent: those whose scripts are not run."""

    stanzas: list[_Stanza] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)


def read(host: Host, devices: Sequence[Device], found: Found) -> None:
    """Raises HostError where nobody can tell whether ifupdown is there."""
    if not any(host.exists(path) for path in _PROGRAMS) and not nic_owner.starts(host, _UNIT):
        return
    config = _config(_lines(host, found, _FILE, set()))
    script = host.exists(_SCRIPT)
    # A stanza's commands may be meant for another interface, such as the ports of its bond.
    interfaces = {device.name: _Interface(device.name, device.mac) for device in devices}
    for stanza in config.stanzas:
        interfaces.setdefault(stanza.name, _Interface(stanza.name, ""))
    known = {device.name for device in devices}
    for interface in interfaces.values():
        for name, word in _words(config, interface, script):
            if name in known:
                found.say(name, word)


# -- what is said for an interface ---------------------------------------------------------


def _words(config: _Config, interface: _Interface, script: bool) -> Iterator[tuple[str, Word]]:
    logical = _logical(config, interface)
    if not logical:
        return
    options = [
        option for stanza in config.stanzas if stanza.name == logical for option in _inherited(config, stanza)
    ]
    heard = script and not any(_means(pattern, interface) for pattern in config.silent)
    yield from _commanded(options, _PRE_UP, interface)
    for option in options:
        yield from ((interface.name, word) for word in _optional(option, heard))
    yield from _commanded(options, _POST_UP, interface)


def _logical(config: _Config, interface: _Interface) -> str:
    """The name of the stanza with which it is brought up; empty if nothing does that."""
    for pattern in config.started:
        if _means(pattern, interface):
            return pattern.partition("=")[2] or interface.name
    return ""


def _means(pattern: str, interface: _Interface) -> bool:
    """A name, or [VARIABLE]/VALUE[/[NUMBER]][=LOGICAL]. Other variables than mac are files below /sys."""
    pattern = pattern.partition("=")[0]
    if "/" not in pattern:
        return pattern == interface.name
    variable, value = pattern.split("/")[:2]
    if variable == "mac":
        return fits(value.lower(), interface.mac)
    return not variable and fits(value, interface.name)


def _inherited(config: _Config, stanza: _Stanza) -> list[_Line]:
    """The options of the template first, so that its own come later and win. ifup takes the first stanza of
    that name."""
    chain: list[_Stanza] = []
    following: _Stanza | None = stanza
    while following is not None and following not in chain:
        chain.append(following)
        name = following.inherits
        following = next((other for other in config.stanzas if name and other.name == name), None)
    return [option for link in reversed(chain) for option in link.options]


def _optional(option: _Line, script: bool) -> Iterator[Word]:
    if option.word == "mtu":
        size = nic_owner.number(option.rest)
        if size:
            yield Word("mtu", size, option.source, OWNER)
        return
    for begin, group in _OPTIONS.items():
        # The script turns _ and capitals of the environment into this spelling again.
        name = option.word.lower().replace("_", "-")
        if script and name.startswith(begin):
            for file, value in nic_owner_commands.fields(group, (name[len(begin) :], option.rest)):
                yield Word(file, value, option.source, OWNER)


def _commanded(
    options: Iterable[_Line], phases: Sequence[str], interface: _Interface
) -> Iterator[tuple[str, Word]]:
    for option in options:
        if option.word in phases:
            for said in nic_owner_commands.said(option.rest, {"IFACE": interface.name}):
                yield said.interface, Word(said.file, said.value, option.source, OWNER)


# -- the files -----------------------------------------------------------------------------


def _config(lines: Iterable[_Line]) -> _Config:
    config = _Config()
    stanza: _Stanza | None = None
    for line in lines:
        words = line.rest.split()
        if line.word == "iface":
            inherits = words[words.index("inherits") + 1 :] if "inherits" in words else []
            stanza = _Stanza(words[0] if words else "", inherits[0] if inherits else "")
            config.stanzas.append(stanza)
        elif line.word == "auto" or line.word.startswith("allow-"):
            config.started += words
        elif line.word == "no-scripts":
            config.silent += words
        elif stanza is not None and line.word not in _ENDS:
            stanza.options.append(line)
        if line.word in _ENDS or line.word.startswith("allow-"):
            stanza = None
    return config


def _lines(host: Host, found: Found, path: str, seen: set[str]) -> Iterator[_Line]:
    """With those of the files that are sourced, each read once: two may source each other."""
    if path in seen:
        return
    if len(seen) == _FILES:
        found.doubt(f"{printable(path)} is not read: it is one of more than {_FILES} that are sourced")
        return
    seen.add(path)
    for number, text in _joined(found.text(host, path)):
        word, _blank, rest = text.partition(" ")
        if word in ("source", "source-directory"):
            yield _Line(word, "", "")  # which ends a stanza, and so does the end of what is sourced
            for other in _sourced(host, found, path, word, rest.strip()):
                yield from _lines(host, found, other, seen)
                yield _Line(word, "", "")
        else:
            yield _Line(word, rest.strip(), source(path, number))


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Statements with the number of their first line; a backslash at the end takes the next line in, but not
    after a comment."""
    begun, begin = "", 0
    for number, line in enumerate(text.split("\n"), start=1):
        if not begun and line.lstrip().startswith("#"):
            continue
        begin = begin or number
        begun += line
        if begun.endswith("\\"):
            begun = begun[:-1]
            continue
        statement = begun.replace("\t", " ").strip()
        if statement:
            yield begin, statement
        begun, begin = "", 0


def _sourced(host: Host, found: Found, path: str, word: str, pattern: str) -> list[str]:
    if not pattern.startswith("/"):
        pattern = f"{path.rpartition('/')[0]}/{pattern}"
    try:
        paths = host.matching(pattern)
        if word == "source":
            return paths
        return [f"{folder}/{name}" for folder in paths for name in host.names(folder) if _SOURCED.match(name)]
    # Python 3.8 has no [z-a], and no path has a byte of 0.
    except (re.error, ValueError, HostError) as error:
        words = f"{path} sources {pattern}, which cannot be looked for: {error}"
        found.doubt(printable(words))
        return []
