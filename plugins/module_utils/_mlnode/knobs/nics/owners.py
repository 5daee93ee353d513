# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other programs that set values of a NIC at boot.

The state below /run shows the program that manages an interface. A plain search of its files finds the lines
for an interface and a value.
"""

from __future__ import annotations

import errno
import re
from typing import Callable, Iterable, Iterator, Mapping, Sequence, Tuple, TypeVar

from ...drivers.ethtool import words as ethtool_words
from ...host.host import Host
from ...linux import networkd
from ...model.errors import HostError, paragraphs, printable
from ...model.record import NamedTuple, dataclass, field, regex
from ...model.setting import Boot, Value
from ...model.values import by_key
from ...topology import hardware
from ..summary import grouped
from . import owner_lines
from .owner_lines import Known, Line, Target, source

T = TypeVar("T")

_UNSURE = "; whether it takes effect here, a plain search does not resolve"
LINK, NETWORKD, MANAGER = "systemd .link", "systemd-networkd", "NetworkManager"
SCRIPTS, IFUPDOWN, NETPLAN = "network-scripts", "ifupdown", "netplan"

#: Folders with links below TARGET.wants that start a unit, generated ones too: systemd.unit(5)
_UNITS = (
    *("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system"),
    *("/run/systemd/generator", "/run/systemd/generator.late"),
)
_GROUPS = ("/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice")

#: systemd.link(5) and systemd.network(5): files of an earlier folder hide their namesakes in later ones
_SYSTEMD = tuple(f"{top}/systemd/network" for top in ("/etc", "/run", "/usr/local/lib", "/usr/lib"))
_PROFILES = tuple(f"{top}/NetworkManager/system-connections" for top in ("/usr/lib", "/etc", "/run"))
_IFCFG = "/etc/sysconfig/network-scripts"
#: Hidden, or left by editors and packages: neither NetworkManager nor initscripts read these files
_SKIPPED = regex(r"\.|.*(?:~|\.(?:bak|orig|old|rpmsave|rpmorig|rpmnew|tmp|nmmeta))\Z", re.DOTALL)

_INTERFACES = "/etc/network/interfaces"
_IFUP = ("/usr/sbin/ifup", "/sbin/ifup")
#: interfaces(5): keywords that end the stanza of an interface
_ENDS = ("auto", "allow-", "no-scripts", "mapping", "rename", "no-auto-down", "source")

_YAML = ("/etc/netplan", "/run/netplan", "/usr/lib/netplan")
_YAML_KEY = regex(r"\s*[\"']?([^\s\"':{]+)[\"']?\s*:")
_KEY = regex(r"(?<![\w.-])(mtu|[a-z0-9-]+-offload)[\"']?\s*:\s*[\"']?(\w+)", re.ASCII)
#: netplan's output at each boot, for the two programs that act on it: netplan(5)
_MADE = ("/run/systemd/network/10-netplan-", "/run/NetworkManager/system-connections/netplan-")

_FROM = " (made from /etc/netplan)"

#: Files for the values of an interface, by the program that manages it
_PLACES = {
    NETWORKD: "MTUBytes= in its .network file, the rest in a .link file: systemd.link(5)",
    MANAGER: "nmcli connection modify PROFILE 802-3-ethernet.mtu, ethtool.ring-rx and the like",
    IFUPDOWN: f"mtu, hardware-dma-ring-rx and the like in its stanza of {_INTERFACES}",
    NETPLAN: "mtu: and the offloads of netplan-yaml(5) in /etc/netplan/*.yaml",
}


class Word(NamedTuple):
    """A line that sets a value.

    file: `mtu`, `tx_queue_len`, or below /ethtool/NIC; a feature by ethtool's or the kernel's name. sure:
    false if it may be for other interfaces. source: `path:line`.
    """

    file: str
    value: str
    source: str
    owner: str
    sure: bool = True


#: A NIC, and a line of another program's file
Other = Tuple[str, Word]


@dataclass(frozen=True)
class _Search:
    """Interface → words, and errors of unreadable files. link_problems: the first of them, in the search of
    .link files."""

    host: Host
    targets: Mapping[str, Known]
    words: dict[str, list[Word]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    link_problems: list[str] = field(default_factory=list)

    def add(self, names: Iterable[str], line: Line, owner: str, sure: bool = True) -> None:
        file = owner_lines.file_of(line)
        value = printable(owner_lines.value_of(file, line.value, line.key)) if file else ""
        for name in names if value else ():
            self.words.setdefault(name, []).append(Word(file, value, line.source, owner, sure))

    def text(self, path: str) -> str:
        """Text of a file, fit for a terminal; empty if it does not exist."""
        return paragraphs(self.tried(self.host.text, path, ""))

    def paths(self, *folders: str, begin: str = "", end: str = "") -> Iterator[str]:
        none: list[str] = []
        for folder in folders:
            for name in self.tried(self.host.names, folder, none):
                if name.startswith(begin) and name.endswith(end) and not _SKIPPED.match(name):
                    yield f"{folder}/{name}"

    def tried(self, look: Callable[[str], T], path: str, otherwise: T) -> T:
        try:
            return look(path)
        except HostError as error:
            problem = printable(str(error))
            if error.errno != errno.EISDIR and problem not in self.problems:
                self.problems.append(problem)
            return otherwise


def interface_words(host: Host, targets: Sequence[Target]) -> Mapping[str, list[Word]]:
    """Interface → lines that set one of its values."""
    return _search(host, targets).words


def problems(host: Host, targets: Sequence[Target], links: bool = False) -> list[str]:
    """Unreadable files, which may have more lines than interface_words() returns. links: only .link files."""
    search = _search(host, targets)
    return search.link_problems if links else search.problems


def of_machine(host: Host) -> list[Target]:
    """All interfaces of this machine."""
    return [Target(nic.name, nic.mac, nic.driver or "") for nic in hardware.topology(host).nics]


def boot(host: Host, others: Iterable[Other], otherwise: Boot, links: bool = False) -> Boot:
    """The boot layer of a setting. others: lines with another value: such a program wins when it next raises
    the interface. An unreadable file may have such a line. links: only a .link file can set it."""
    for label, word in others:
        if word.sure:
            source = f"{word.source} ({word.owner})"
            return Boot(Value(text=f"{label}: {word.value}"), source, foreign=True)
    unread = problems(host, of_machine(host), links)
    return otherwise._replace(value=Value(unreadable=unread[0])) if unread else otherwise


def notes(others: Iterable[Other]) -> list[str]:
    """Lines that may be for other interfaces."""
    return grouped(
        (f"{word.source} ({word.owner}) may set {word.value}", label)
        for label, word in others
        if not word.sure
    )


def lines(host: Host, files: Sequence[str]) -> list[str]:
    """Lines for any interface that set one of these files or groups of files, such as `mtu` or `ring/`."""
    return [
        f"{word.source}: {interface} {word.file} {word.value} ({word.owner}){'' if word.sure else _UNSURE}"
        for interface, words in interface_words(host, of_machine(host)).items()
        for word in words
        if any(word.file == file or (file.endswith("/") and word.file.startswith(file)) for file in files)
    ]


def means(word: Word, group: str, name: str) -> bool:
    """True if a word concerns the file GROUP/NAME; `feature/tso` concerns all features of its family."""
    where, _slash, what = word.file.rpartition("/")
    if where == "feature" == group:
        return bool(ethtool_words.members(what, (name,)))
    return what == name and where in (group, "")


def _search(host: Host, targets: Sequence[Target]) -> _Search:
    return host.once(f"owners of {list(targets)}", lambda: _read(host, targets))


def _read(host: Host, targets: Sequence[Target]) -> _Search:
    """Lines in the order in which their owners act at boot. A program that nothing starts has none."""
    search = _Search(host, {target.name: owner_lines.known(host, target) for target in targets})
    _systemd(search, ".link", LINK)
    search.link_problems.extend(search.problems)
    networkd, manager, scripts = (
        search.tried(lambda unit: _starts(host, unit), f"{name}.service", False)
        for name in (NETWORKD, MANAGER, "network")
    )
    if any(search.tried(host.exists, path, False) for path in _IFUP):
        _ifupdown(search)
    if networkd:
        _systemd(search, ".network", NETWORKD)
    profiles = [*search.paths(*_PROFILES)] if manager else []
    profiles += search.paths(_IFCFG, begin="ifcfg-") if manager or scripts else ()
    for path in profiles:
        _file(search, [path], MANAGER if manager else SCRIPTS, dict.fromkeys(search.targets, True))
    _netplan(search)
    return search


def _starts(host: Host, unit: str) -> bool:
    """True if a unit runs, or something starts it at boot. Raises HostError."""
    if any(host.link_target(f"{folder}/{unit}") == "/dev/null" for folder in _UNITS[:2]):
        return False
    wants = [path for folder in _UNITS for path in host.matching(f"{folder}/*.wants")]
    return any(unit in host.names(path) for path in wants) or any(
        host.exists(f"{group}/{unit}") for group in _GROUPS
    )


def _systemd(search: _Search, suffix: str, owner: str) -> None:
    """Read the files of systemd: for each interface, only the first by name counts. After one that may be for
    it, no other is sure."""
    left: Mapping[str, bool] = dict.fromkeys(search.targets, True)
    for path in _unhidden(search, "", suffix):
        if search.text(path):  # An empty file is a mask
            paths = [path, *_unhidden(search, f"/{path.rpartition('/')[2]}.d", ".conf")]
            answers = _file(search, paths, owner, left)
            left = {name: sure and answers[name] is False for name, sure in left.items() if not answers[name]}


def _unhidden(search: _Search, below: str, suffix: str) -> list[str]:
    files: dict[str, str] = {}
    for path in search.paths(*(folder + below for folder in _SYSTEMD), end=suffix):
        files.setdefault(path.rpartition("/")[2], path)
    return [files[name] for name in sorted(files)]


def _file(
    search: _Search, paths: Sequence[str], owner: str, names: Mapping[str, bool]
) -> Mapping[str, bool | None]:
    """Search a file and its drop-ins; return whether it is for each interface. names: with False for an
    interface to which another file may apply instead."""
    read = owner_lines.systemd_lines if owner in (LINK, NETWORKD) else owner_lines.lines
    lines = [line for path in paths for line in read(search.text(path), path)]
    answers = {name: owner_lines.concerns(lines, search.targets[name]) for name in names}
    # The last one counts. networkd sets only the MTU.
    last: dict[tuple[str, str], Line] = {}
    for line in lines:
        before = last.get((line.section, line.key))
        if before is not None and line.value and owner_lines.file_of(line) in owner_lines.SETS:
            line = line._replace(value=f"{before.value} {line.value}")
        if owner != NETWORKD or line.key == "MTUBytes":
            last[line.section, line.key] = line
    if paths[0].startswith(_MADE):
        owner = NETPLAN
        last = {key: line._replace(source=line.source + _FROM) for key, line in last.items()}
    for name, answer in answers.items():
        for line in last.values() if answer is not False else ():
            known = _is_known(search, line)
            if known is not False:
                # NetworkManager sets priorities only with a flag for each kind, by a program of lldpad.
                search.add(
                    [name], line, owner, bool(answer and known and names[name]) and line.section != "dcb"
                )
            if line.key == "ETHTOOL_OPTS":
                _commands(search, line, name, [name], owner)
    return answers


def _is_known(search: _Search, line: Line) -> bool | None:
    """False if this systemd ignores a line, as it is older than its option; None if its version is
    unknown."""
    since = owner_lines.SINCE.get(owner_lines.file_of(line), 0)
    version = search.tried(lambda _what: networkd.version(search.host), "", None) if since else 0
    return None if version is None else version >= since


def _commands(search: _Search, line: Line, own: str, names: Iterable[str], owner: str) -> None:
    for name in names:
        for file, value in owner_lines.commands(line.value, own, name):
            search.words.setdefault(name, []).append(Word(file, value, line.source, owner))


def _ifupdown(search: _Search) -> None:
    paths = [_INTERFACES]
    for path in paths:  # It grows by the files that others name
        stanza = ""
        for number, text in enumerate(search.text(path).split("\n"), start=1):
            option, rest = [*text.strip().split(None, 1), "", ""][:2]
            line = Line("iface", option.lower().replace("_", "-"), rest, source(path, number))
            if option == "iface":
                stanza = [*rest.split(), ""][0]
            elif option.startswith(_ENDS):
                stanza = ""
                paths += [name for name in _sourced(search, option, rest) if name not in paths]
            elif option in (
                "pre-up",
                "up",
                "post-up",
            ):  # It may be for another interface, such as a port of a bond
                _commands(search, line, stanza, search.targets, IFUPDOWN)
            elif stanza in search.targets:
                search.add([stanza], line, IFUPDOWN)


def _sourced(search: _Search, option: str, pattern: str) -> Sequence[str]:
    """Files of `source` and `source-directory` in interfaces(5)."""
    if not pattern or option not in ("source", "source-directory"):
        return ()
    pattern = f"{pattern.rstrip('/')}/*" if option == "source-directory" else pattern
    absolute = pattern if pattern.startswith("/") else f"{_INTERFACES.rpartition('/')[0]}/{pattern}"
    none: list[str] = []
    matches = search.tried(search.host.matching, absolute, none)
    return [path for path in matches if not path.rpartition("/")[2].startswith(".")]


def _netplan(search: _Search) -> None:
    """The lines from which netplan has made others, and those that it has not applied yet, as before its
    first run or after a change. Only netplan can resolve the interfaces of the latter.
    """
    for path in search.paths(*_YAML, end=".yaml"):
        text = search.text(path)
        names = [name for name in search.targets if name in text or "match" in text]
        above: list[tuple[int, str]] = []
        for number, raw in enumerate(text.split("\n"), start=1):
            plain = re.split(r"(?:^|\s)#", raw)[0].rstrip()
            if not plain:
                continue
            indent = len(plain) - len(plain.lstrip())
            above = [(column, key) for column, key in above if column < indent]
            above += [(indent, match[1]) for match in [_YAML_KEY.match(plain)] if match]
            stanzas = {key for _column, key in above}
            for key, value in _KEY.findall(plain):
                line = Line("netplan", key, value, source(path, number))
                here = [name for name in names if name in stanzas]
                made = _made(search, line, here or names)
                left = [name for name in here if name not in made] if here or made else names
                search.add(left, line, NETPLAN, sure=False)


def _made(search: _Search, line: Line, names: Sequence[str]) -> set[str]:
    """Interfaces for which netplan has made a line from this one; that line gets its place."""
    file = owner_lines.file_of(line)
    value = printable(owner_lines.value_of(file, line.value))
    made = set()
    for name in search.targets:
        for place, word in enumerate(search.words.get(name, ())):
            if (word.owner, word.file, word.value) == (NETPLAN, file, value) and word.sure:
                made.add(name)
                if name in names and not word.source.startswith(_YAML):
                    search.words[name][place] = word._replace(
                        source=f"{line.source}, {word.source[: -len(_FROM)]}"
                    )
    return made


def advice(host: Host, targets: Sequence[Target]) -> list[str]:
    """Programs that manage interfaces, and the files from which they take values. Raises HostError."""
    managed = by_key((_manager(host, target.name), target.name) for target in targets)
    return [
        f"{', '.join(names)}: managed by {owner}; there it is set with {_PLACES[owner]}"
        for owner, names in managed.items()
        if owner
    ]


def _manager(host: Host, name: str) -> str:
    """The program that manages an interface now; empty if it is not one of these. Raises HostError."""
    index = owner_lines.index(host, name)
    state = host.text(f"/run/systemd/netif/links/{index}")
    if re.search(r"^ADMIN_STATE=(?!unmanaged)", state, re.MULTILINE):
        return NETPLAN if f"NETWORK_FILE={_MADE[0]}" in state else NETWORKD
    if "managed=true" in host.text(f"/run/NetworkManager/devices/{index}").split():
        return MANAGER
    return IFUPDOWN if f"\n{name}=" in f"\n{host.text('/run/network/ifstate')}" else ""
