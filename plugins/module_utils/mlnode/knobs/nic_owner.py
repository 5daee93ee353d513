# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all other owners of a NIC's values share: what they say, what they may know an interface by, and the
spellings of their files."""

from __future__ import annotations

import errno
import fnmatch
import re
from dataclasses import dataclass, field
from typing import Iterator, Mapping, NamedTuple

from ..errors import HostError, printable
from ..host import Host

_NETS = "/sys/class/net"
_BLANK = " \t\r\n"

#: Where a link below TARGET.wants or TARGET.requires starts a unit; generated ones too: systemd.unit(5)
_UNIT_FOLDERS = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/run/systemd/generator.early",
    "/run/systemd/generator",
    "/run/systemd/generator.late",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)

#: ARPHRD_* of include/uapi/linux/if_arp.h as systemd and its Type= spell them
_TYPES = {"1": "ether", "32": "infiniband", "772": "loopback"}

#: addr_assign_type and name_assign_type of include/uapi/linux/netdevice.h: NET_ADDR_PERM, NET_NAME_RENAMED
_PERMANENT = "0"
_RENAMED = "4"

_NUMBER = re.compile(r"(?:0x[0-9a-f]{1,8}|0|[1-9][0-9]{0,9})\Z", re.ASCII | re.IGNORECASE)


class Target(NamedTuple):
    """An interface. mac: the present address. path: udev's ID_PATH; empty to have it looked up."""

    name: str
    mac: str
    driver: str
    path: str = ""


class Word(NamedTuple):
    """One value that somebody else sets at boot.

    file: `mtu`, `tx_queue_len`, or below /ethtool/NIC; of a feature ethtool's name or the kernel's.
    value: a number, on, off, or `max`. source: `path:line`.
    """

    file: str
    value: str
    source: str
    owner: str


@dataclass(frozen=True)
class Found:
    """Interface → words, and what could not be read or told."""

    words: dict[str, list[Word]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def say(self, name: str, word: Word) -> None:
        self.words.setdefault(name, []).append(word)

    def doubt(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def text(self, host: Host, path: str) -> str:
        """A file; empty if there is none, and a problem if it cannot be read."""
        try:
            return host.text(path)
        except HostError as error:
            if error.errno != errno.EISDIR:
                self.doubt(printable(str(error)))
            return ""

    def names(self, host: Host, folder: str) -> list[str]:
        try:
            return host.names(folder)
        except HostError as error:
            self.doubt(printable(str(error)))
            return []


# -- the interface -------------------------------------------------------------------------


class Device(NamedTuple):
    """A target with what the files of an owner may ask of it. None: nobody can tell; empty: there is none.

    mac: the NIC's own, which a port of a bond does not show as its address. own_mac: whether that is sure.
    renamed: the kernel had another name for it. properties: udev's.
    link_file, network_file: what udev and systemd-networkd took for it last; empty if that is not known.
    """

    name: str
    mac: str
    own_mac: bool
    driver: str | None
    path: str | None
    type: str | None
    kind: str | None
    renamed: bool
    properties: Mapping[str, str] | None
    link_file: str
    network_file: str


def device(host: Host, target: Target) -> Device:
    net = f"{_NETS}/{target.name}"
    index = _first(host, f"{net}/ifindex")
    known = bool(_NUMBER.match(index))
    data = host.value(f"/run/udev/data/n{index}").text if known else None
    properties = None if data is None else _assignments(data, "E:")
    link = host.value(f"/run/systemd/netif/links/{index}").text if known else None
    own = _first(host, f"{net}/bonding_slave/perm_hwaddr")
    kernels = _assignments(host.value(f"{net}/uevent").text or "", "")
    number = _first(host, f"{net}/type")
    return Device(
        name=target.name,
        mac=mac(own or target.mac),
        own_mac=bool(own) or _first(host, f"{net}/addr_assign_type") == _PERMANENT,
        driver=_told(properties, "ID_NET_DRIVER", target.driver),
        path=target.path or _told(properties, "ID_PATH", ""),
        type=kernels.get("DEVTYPE") or _TYPES.get(number, number) or None,
        # A device of its own has no kind in the sense of rtnetlink(7); sysfs does not tell it of others.
        kind="" if host.exists(f"{net}/device") else None,
        renamed=_first(host, f"{net}/name_assign_type") == _RENAMED,
        properties=properties,
        link_file=(properties or {}).get("ID_NET_LINK_FILE", ""),
        network_file=_assignments(link or "", "").get("NETWORK_FILE", ""),
    )


def _told(properties: Mapping[str, str] | None, name: str, otherwise: str) -> str | None:
    """udev's word first; without it None, as what it would say is not known."""
    found = (properties or {}).get(name) or otherwise
    return None if properties is None and not found else found


def _first(host: Host, path: str) -> str:
    return (host.value(path).text or "").strip()


def _assignments(text: str, prefix: str) -> dict[str, str]:
    """Lines KEY=VALUE behind a prefix, as uevent, udev's data and networkd's state have them."""
    pairs = (line[len(prefix) :].partition("=") for line in text.split("\n") if line.startswith(prefix))
    return {key: value for key, equals, value in pairs if equals}


def starts(host: Host, unit: str) -> bool:
    """Whether something starts the unit at boot, or it runs. Raises HostError where nobody can tell."""
    for folder in ("/etc/systemd/system", "/run/systemd/system"):
        path = f"{folder}/{unit}"
        if host.link_target(path) == "/dev/null":
            return False
    for folder in _UNIT_FOLDERS:
        for name in host.names(folder):
            if name.endswith((".wants", ".requires")) and unit in host.names(f"{folder}/{name}"):
                return True
    groups = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd")
    return any(host.exists(f"{group}/system.slice/{unit}") for group in groups)


# -- spellings -----------------------------------------------------------------------------


class Entry(NamedTuple):
    """KEY = VALUE of a file with [SECTION]s."""

    section: str
    key: str
    value: str
    source: str


def entries(text: str, path: str, systemd: bool) -> list[Entry] | None:
    """In the manner of systemd.syntax(7), or of GLib's key files, in which no line is continued. None where
    systemd (shared/conf-parser.c: parse_line) or GLib refuses all of the file."""
    found: list[Entry] = []
    section = ""
    for number, line in _lines(text, "#;" if systemd else "#", systemd):
        key, equals, value = line.partition("=")
        if line.startswith("["):
            section = line[1:-1]
            if not line.endswith("]"):
                return None
        elif equals and section:
            found.append(Entry(section, key.rstrip(_BLANK), value.lstrip(_BLANK), source(path, number)))
        elif not systemd:
            return None
    return found


def _lines(text: str, comments: str, continued: bool) -> Iterator[tuple[int, str]]:
    """What is no comment, with the number of its first line. A comment may stand within a continued one."""
    begun, begin = "", 0
    for number, line in enumerate([*text.split("\n"), ""], start=1):
        if line.strip(_BLANK).startswith(tuple(comments)):
            continue
        begin = begin or number
        # An even number of backslashes stands for themselves.
        if continued and (len(line) - len(line.rstrip("\\"))) % 2:
            begun += line[:-1] + " "
            continue
        whole = (begun + line).strip(_BLANK)
        if whole:
            yield begin, whole
        begun, begin = "", 0


def source(path: str, line: int) -> str:
    return f"{printable(path)}:{line}"


def mac(text: str) -> str:
    """An address in the kernel's spelling, of 00-11-.. and 0011.2233.. too (systemd.link(5))."""
    digits = re.sub(r"[:.-]", "", text.strip().lower())
    return ":".join(digits[place : place + 2] for place in range(0, len(digits), 2))


def fits(pattern: str, text: str) -> bool:
    """As fnmatch(3)."""
    try:
        return fnmatch.fnmatchcase(text, pattern.replace("[^", "[!"))
    except re.error:  # such as [z-a], which Python 3.8 does not take for what matches nothing
        return False


def number(text: str) -> str:
    """In decimal; empty if it is none."""
    if not _NUMBER.match(text):
        return ""
    return str(int(text, 16 if text[:2] in ("0x", "0X") else 10))


#: basic/parse-util.c: parse_boolean of systemd; GLib's key files know true and false, 1 and 0 of these
_ON = ("1", "yes", "y", "true", "t", "on")
_OFF = ("0", "no", "n", "false", "f", "off")


def switch(text: str) -> str:
    """on or off; empty if it is neither."""
    word = text.lower()
    return "on" if word in _ON else "off" if word in _OFF else ""


def value(file: str, text: str) -> str:
    """What a text means for one of our files; empty if it means nothing."""
    group, _slash, name = file.rpartition("/")
    if group in ("feature", "pause", "private-flag") or name.startswith("adaptive-"):
        return switch(text)
    return number(text)
