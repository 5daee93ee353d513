# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A unit as the next boot will load it: its file, all of its drop-ins, and the targets that start it.

By the rules of systemd.unit(5), bootup(7) and of systemd's sources (src/shared/dropin.c,
src/basic/unit-file.c, src/core/load-dropin.c), from files alone: a captured tree and an image answer as a
running node does.
"""

from __future__ import annotations

from typing import Iterator, Mapping, Sequence

from ..host.host import Host
from ..model.record import NamedTuple
from . import drop_ins, systemd_conf
from .systemd_conf import Line

#: systemd.unit(5), "Unit File Load Path": an earlier folder hides the same name in a later one. /lib counts
#: only where it is not a link to /usr/lib.
PLACES = (
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/run/systemd/generator.early",
    "/etc/systemd/system",
    "/etc/systemd/system.attached",
    "/run/systemd/system",
    "/run/systemd/system.attached",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator.late",
)

DEFAULT_TARGET = "default.target"
_GRAPHICAL, _MULTI_USER, _RESCUE = "graphical.target", "multi-user.target", "rescue.target"

#: What starts the units it names (systemd.unit(5)); Requisite= and PartOf= start nothing
_STARTING = ("Wants", "Requires", "BindsTo", "Upholds")
_FOLDERS = ("wants", "requires")

#: Words of the kernel command line that choose a target (systemd(1), kernel command line; src/core/main.c)
_WORDS = {
    **dict.fromkeys(("emergency", "-b"), "emergency.target"),
    **dict.fromkeys(("rescue", "single", "-s", "s", "S", "1"), _RESCUE),
    **dict.fromkeys(("2", "3", "4"), _MULTI_USER),
    "5": _GRAPHICAL,
}
_PARAMETER = "systemd.unit="

#: Links between names of targets; systemd itself gives up after as many (src/basic/unit-file.c: FOLLOW_MAX)
_MOST_LINKS = 8


class Unit(NamedTuple):
    """fragment: the file that makes it, empty where there is none. masked: that file keeps it from ever being
    started. lines: all assignments in the order in which they count."""

    name: str
    fragment: str
    masked: bool
    lines: tuple[Line, ...]

    def counting(self, section: str, key: str) -> list[Line]:
        """Those of a key that are left: an empty assignment takes back all before it."""
        lines: list[Line] = []
        for line in self.lines:
            if (line.section, line.key) == (section, key):
                lines = [*lines, line] if line.value else []
        return lines

    def conditions(self, begin: str) -> list[Line]:
        """Conditions of a start. begin: Condition or Assert. An empty one of any name takes back all
        before it (systemd.unit(5))."""
        lines: list[Line] = []
        for line in self.lines:
            if line.section == "[Unit]" and line.key.startswith(begin):
                lines = [*lines, line] if line.value else []
        return lines

    def last(self, section: str, keys: Sequence[str]) -> Line | None:
        """The last line that speaks of one of the keys, be it to take others back."""
        lines = [line for line in self.lines if line.section == section and line.key in keys]
        return lines[-1] if lines else None


def load(host: Host, name: str, more: Sequence[str] = ()) -> Unit:
    """more: drop-ins that systemd has read besides. Raises HostError."""
    fragment = next(iter(_paths(host, name)), "")
    if fragment and _is_nothing(host, fragment):
        return Unit(name, fragment, True, ())
    files = [fragment] if fragment else []
    known = _drop_ins(host, name)
    files += [*known, *(path for path in more if path not in known and host.exists(path))]
    return Unit(
        name, fragment, False, tuple(line for path in files for line in systemd_conf.assignments(host, path))
    )


def of_text(name: str, text: str) -> Unit:
    """A unit of which this is all. Its lines have no numbers."""
    lines: list[Line] = []
    section = ""
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if line.startswith("["):
            section = line
        elif equals and not line.startswith("#"):
            lines.append(Line(section, key, value, "", 0))
    return Unit(name, "", False, tuple(lines))


def _places(host: Host) -> Mapping[str, frozenset[str]]:
    """The names in each place. Raises HostError.

    Listed once for a run: most of what a unit may consist of is not there, and looking for each of its
    possible drop-ins and links took a hundred calls for a unit and a thousand for what starts it.
    """
    return host.once(
        "places of units",
        lambda: {place: frozenset(host.names(place)) for place in PLACES if drop_ins.counts(host, place)},
    )


def _paths(host: Host, name: str) -> list[str]:
    """Where the name is, the place that counts first. Raises HostError."""
    return [f"{place}/{name}" for place, names in _places(host).items() if name in names]


def _is_nothing(host: Host, path: str) -> bool:
    """An empty file or a link to /dev/null, which systemd takes for a mask."""
    if drop_ins.is_masked(host, path):
        return True
    return host.exists(path) and host.content(path) == b""


def _drop_ins(host: Host, name: str) -> list[str]:
    """In the order of their names. Of the same name the one of the unit itself counts, then that of a prefix
    of its name, then that for all units of its type."""
    stem, dot, kind = name.rpartition(".")
    prefixes = [name, *(f"{part}{dot}{kind}" for part in _prefixes(stem))]
    folders = [
        f"{place}/{one}.d"
        for place, names in _places(host).items()
        for one in prefixes
        if f"{one}.d" in names
    ]
    return drop_ins.paths(host, [*folders, *_paths(host, f"{kind}.d")])


def _prefixes(stem: str) -> Iterator[str]:
    """Of a-b-c: a-b- and a-."""
    parts = stem.split("-")
    for number in range(len(parts) - 1, 0, -1):
        yield "-".join(parts[:number]) + "-"


# -- what starts it ------------------------------------------------------------------------


class Start(NamedTuple):
    """Start of a unit at boot. by: the link or line, empty where nothing does. broken: a link of that
    name that starts something else, or nothing. target, where: the default target, and who says so."""

    by: str
    broken: str
    target: str
    where: str


def start(host: Host, name: str, first: str = "", running: bool = True) -> Start:
    """Follows the targets that the default one starts, or those of another first one. Raises HostError."""
    target, where = (first, "") if first else default_target(host, running)
    todo, seen, broken = [target], {target}, ""
    while todo:
        here = todo.pop(0)
        for path in _links(host, here).get(name, ()):
            if leads_to(host, path, name):
                return Start(path, broken, target, where)
            broken = broken or path
        wanted = _started(host, here)
        if name in wanted:
            return Start(here, broken, target, where)
        todo += [one for one in wanted if one.endswith(".target") and one not in seen]
        seen.update(wanted)
    return Start("", broken, target, where)


def default_target(host: Host, running: bool = True) -> tuple[str, str]:
    """Its name, and the file or parameter that chooses it. Raises HostError.

    The kernel command line is that of the running system, so that it counts only where that is meant. Where
    no file chooses one, as in a tree without /usr, it is what distributions have.
    """
    # A container shows that of its host, which its systemd does not go by (src/basic/proc-cmdline.c).
    own = running and host.systemd_runs() and not host.exists("/run/systemd/container")
    for word in reversed(host.text("/proc/cmdline").split() if own else []):
        chosen = word[len(_PARAMETER) :] if word.startswith(_PARAMETER) else _WORDS.get(word, "")
        if chosen:
            return chosen, f"the kernel command line has {word}"
    for path in _paths(host, DEFAULT_TARGET)[:1]:
        return _real_name(host, DEFAULT_TARGET), path
    return _GRAPHICAL, ""


def _real_name(host: Host, name: str) -> str:
    """The target that a name stands for: a link to one of another name is an alias of it."""
    for _link in range(_MOST_LINKS):
        path = next(iter(_paths(host, name)), "")
        other = systemd_conf.alias_of(host, path) if path else ""
        if not other:
            break
        name = other
    return name


def _links(host: Host, target: str) -> dict[str, list[str]]:
    """Name of a unit → the links by which a target wants or requires it. One in an earlier folder hides that
    of a later one, so that a link to /dev/null takes a unit away (src/shared/dropin.c). Raises HostError."""
    paths_of: dict[str, list[str]] = {}
    for kind in _FOLDERS:
        hiding: dict[str, str] = {}
        for folder in _paths(host, f"{target}.{kind}"):
            for name in host.names(folder):
                hiding.setdefault(name, f"{folder}/{name}")
        for name, path in hiding.items():
            paths_of.setdefault(name, []).append(path)
    return paths_of


def leads_to(host: Host, path: str, name: str) -> bool:
    """systemd takes the unit by the name of the link, unless it leads to a mask; one that leads to a file of
    another name was made by mistake, and it warns of it (load-dropin.c: process_deps)."""
    return host.link_target(path).rpartition("/")[2] == name


def _started(host: Host, target: str) -> Sequence[str]:
    """The names that a target wants or requires. Raises HostError."""
    return host.once(f"started by {target}", lambda: _read_started(host, target))


def _read_started(host: Host, target: str) -> list[str]:
    unit = load(host, target)
    names = [
        word for key in _STARTING for line in unit.counting("[Unit]", key) for word in line.value.split()
    ]
    for name, paths in _links(host, target).items():
        names += [name for path in paths[:1] if leads_to(host, path, name)]
    if target == _GRAPHICAL and not unit.fragment:  # a tree without /usr: bootup(7)
        names.append(_MULTI_USER)
    return list(dict.fromkeys(_real_name(host, one) if one.endswith(".target") else one for one in names))
