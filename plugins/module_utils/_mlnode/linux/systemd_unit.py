# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A unit as the next boot will load it: its file, all of its drop-ins, and the targets that start it.

By the rules of systemd.unit(5), bootup(7) and systemd's sources (src/shared/dropin.c, src/basic/unit-file.c,
src/core/load-dropin.c), from files alone: a captured tree and an image give the same answers as a running
node.
"""

from __future__ import annotations

from typing import Iterator, Mapping, Sequence

from ..host.host import Host
from ..model.record import NamedTuple
from . import drop_ins, systemd_conf
from .kernel_line import KernelLine
from .systemd_conf import NO, Line

#: systemd.unit(5), "Unit File Load Path": an earlier folder hides the same name in a later one. /lib counts
#: unless it is a link to /usr/lib.
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

#: Folders of units from distributions
_SHIPPED = ("/usr/lib/", "/lib/")

DEFAULT_TARGET = "default.target"
_GRAPHICAL, _MULTI_USER = "graphical.target", "multi-user.target"

#: Options that start the named units (systemd.unit(5)); Requisite= and PartOf= start nothing
_STARTING = ("Wants", "Requires", "BindsTo", "Upholds")
_FOLDERS = ("wants", "requires")

#: An empty assignment resets none of these: a drop-in can only add to them (systemd.unit(5), Conflicts=;
#: src/core/load-fragment.c: config_parse_unit_deps)
_DEPENDENCIES = (*_STARTING, "After", "Before", "Conflicts", "Requisite", "PartOf", "OnFailure", "OnSuccess")

#: Signs before a command that say how it is run (systemd.service(5)), which systemd does not show
PREFIXES = "@-:+!|"

#: Types of units that a boot starts as a part of others
_KINDS = (".target", ".service", ".socket", ".timer", ".path", ".mount")

#: Links between names of targets; systemd itself gives up after as many (src/basic/unit-file.c: FOLLOW_MAX)
_MOST_LINKS = 8


class Unit(NamedTuple):
    """fragment: the unit's main file, empty if there is none. masked: that file prevents every start. lines:
    all assignments, in their effective order."""

    name: str
    fragment: str
    masked: bool
    lines: tuple[Line, ...]

    def counting(self, section: str, key: str) -> list[Line]:
        """Effective lines of a key: an empty assignment resets all before it, except for dependencies."""
        lines: list[Line] = []
        stays = section == "[Unit]" and key in _DEPENDENCIES
        for line in self.lines:
            if (line.section, line.key) == (section, key):
                lines = [*lines, line] if line.value else lines if stays else []
        return lines

    def words(self, key: str) -> list[str]:
        """The names in all lines of a dependency."""
        return [word for line in self.counting("[Unit]", key) for word in line.value.split()]

    def conditions(self, begin: str) -> list[Line]:
        """Conditions of a start. begin: Condition or Assert. An empty one of any name resets all before it
        (systemd.unit(5))."""
        lines: list[Line] = []
        for line in self.lines:
            if line.section == "[Unit]" and line.key.startswith(begin):
                lines = [*lines, line] if line.value else []
        return lines

    def last(self, section: str, keys: Sequence[str]) -> Line | None:
        """The last line with one of the keys, even a line that resets it."""
        lines = [line for line in self.lines if line.section == section and line.key in keys]
        return lines[-1] if lines else None


def load(host: Host, name: str, more: Sequence[str] = ()) -> Unit:
    """more: further drop-ins that systemd has read. Raises HostError."""
    fragment = next(iter(_paths(host, name)), "")
    if fragment and _is_nothing(host, fragment):
        return Unit(name, fragment, True, ())
    files = [fragment] if fragment else []
    known = _drop_ins(host, name)
    files += [*known, *(path for path in more if path not in known and host.exists(path))]
    return Unit(name, fragment, False, tuple(line for path in files for line in _assignments(host, path)))


def shipped(host: Host, name: str) -> Unit:
    """The distribution's file of a unit, without drop-ins. Raises HostError."""
    for path in (f"{place}/{name}" for place, names in _places(host).items() if name in names):
        if path.startswith(_SHIPPED) and not _is_nothing(host, path):
            return Unit(name, path, False, tuple(_assignments(host, path)))
    return Unit(name, "", False, ())


def of_text(name: str, text: str) -> Unit:
    """A unit made of this text alone. Its lines have no numbers."""
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

    Listed once for a run: most possible files of a unit do not exist. Looking for each possible drop-in and
    link took a hundred calls for a unit and a thousand for its starting targets.
    """
    return host.once(
        "places of units",
        lambda: {place: frozenset(host.names(place)) for place in PLACES if drop_ins.counts(host, place)},
        of_files=True,
    )


def _paths(host: Host, name: str) -> list[str]:
    """Paths of a name, the effective one first. Raises HostError."""
    return [f"{place}/{name}" for place, names in _places(host).items() if name in names]


def _is_nothing(host: Host, path: str) -> bool:
    """True for an empty file or a link to /dev/null, which mask a unit."""
    if _text(host, path):
        return False
    return drop_ins.is_masked(host, path) or (host.exists(path) and host.content(path) == b"")


def _assignments(host: Host, path: str) -> Iterator[Line]:
    return systemd_conf.of_text(_text(host, path), path)


def _text(host: Host, path: str) -> str:
    """As drop_ins.text(), read once for a run: a search for a unit's name reads all files. Raises
    HostError."""
    return host.once(f"text of {path}", lambda: drop_ins.text(host, path), of_files=True)


def _drop_ins(host: Host, name: str) -> list[str]:
    """Drop-ins of a unit, in the order of their names. For each name the unit's own drop-in counts, else a
    prefix's, else the one for all units of its type."""
    kind = name.rpartition(".")[2]
    prefixes = list(_with_prefixes(name))
    for alias in _aliases(host, name):
        prefixes += [prefix for prefix in _with_prefixes(alias) if prefix not in prefixes]
    folders = [
        f"{place}/{prefix}.d"
        for place, names in _places(host).items()
        for prefix in prefixes
        if f"{prefix}.d" in names
    ]
    return drop_ins.paths(host, [*folders, *_paths(host, f"{kind}.d")])


def _aliases(host: Host, name: str) -> list[str]:
    """Other names of a unit that have drop-ins: these are effective for it as well (src/core/load-dropin.h:
    unit_find_dropin_paths). Raises HostError."""
    others = host.once("links to units that have drop-ins", lambda: _linked(host), of_files=True)
    kind = "." + name.rpartition(".")[2]
    return [other for other, target in others if target == name != other and other.endswith(kind)]


def _linked(host: Host) -> list[tuple[str, str]]:
    """Pairs of a unit with drop-ins and the target name of its file, if that is a link."""
    folders = {name for names in _places(host).values() for name in names if name.endswith(".d")}
    return [
        (unit, host.link_target(path).rpartition("/")[2])
        for unit in sorted(folder[: -len(".d")] for folder in folders)
        for path in _paths(host, unit)[:1]
    ]


def _with_prefixes(name: str) -> Iterator[str]:
    stem, dot, kind = name.rpartition(".")
    yield name
    for part in _prefixes(stem):
        yield f"{part}{dot}{kind}"


def _prefixes(stem: str) -> Iterator[str]:
    """For a-b-c: a-b- and a-."""
    parts = stem.split("-")
    for number in range(len(parts) - 1, 0, -1):
        yield "-".join(parts[:number]) + "-"


# -- the start of a unit -------------------------------------------------------------------


class Start(NamedTuple):
    """Start of a unit at boot. by: the link or line, empty if nothing starts it. broken: a link of that name
    to another unit, or to nothing. target, where: the default target, and its source."""

    by: str
    broken: str
    target: str
    where: str


def start(host: Host, name: str, first: str = "", line: KernelLine | None = None) -> Start:
    """Follow all targets from the default one, or from another first one. Raises HostError."""
    target, where = (first, "") if first else default_target(host, line)
    masked = line.masked if line else ()
    todo, seen, broken = [target], {target}, ""
    while todo:
        here = todo.pop(0)
        if here in masked:
            continue
        for path in _links(host, here).get(name, ()):
            if leads_to(host, path, name):
                return Start(path, broken, target, where)
            broken = broken or path
        wanted = _started(host, here)
        if name in wanted:
            return Start(here, broken, target, where)
        todo += [unit for unit in wanted if unit.endswith(".target") and unit not in seen]
        seen.update(wanted)
    return Start("", broken, target, where)


def booted(host: Host, line: KernelLine | None = None) -> frozenset[str]:
    """All units that a boot into the default target starts, by their files. Not included: units that a
    device, a socket or a timer starts later. Raises HostError."""
    masked = line.masked if line else ()
    todo = [default_target(host, line)[0]]
    seen = set(todo)
    while todo:
        here = todo.pop()
        more = [] if here in masked else [unit for unit in _started(host, here) if unit not in seen]
        seen.update(more)
        todo += [unit for unit in more if unit.endswith(_KINDS)]
    return frozenset(seen)


def default_target(host: Host, line: KernelLine | None = None) -> tuple[str, str]:
    """Name of the default target, and the file or parameter that sets it. Raises HostError.

    line: the kernel command line, if known. If no file sets a target, as in a tree without /usr, the usual
    target of distributions is returned.
    """
    if line is not None and line.target:
        return line.target.value, f"{line.where} has {line.target.text}"
    for path in _paths(host, DEFAULT_TARGET)[:1]:
        return _real_name(host, DEFAULT_TARGET), path
    return _GRAPHICAL, ""


def _real_name(host: Host, name: str) -> str:
    """The target behind a name: a link to another name is its alias."""
    for _link in range(_MOST_LINKS):
        path = next(iter(_paths(host, name)), "")
        other = systemd_conf.alias_of(host, path) if path else ""
        if not other:
            break
        name = other
    return name


def _links(host: Host, target: str) -> dict[str, list[str]]:
    """Name of a unit → the links by which a target wants or requires it. A link in an earlier folder hides
    the same name in a later one: a link to /dev/null removes a unit (src/shared/dropin.c). Raises
    HostError."""
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
    """True if the link leads to a file with this unit's name. systemd starts the unit by the name of the
    link, unless it leads to a mask, and warns of a different target (load-dropin.c: process_deps)."""
    return host.link_target(path).rpartition("/")[2] == name


def _started(host: Host, target: str) -> Sequence[str]:
    """The names that a target wants or requires. Raises HostError."""
    return host.once(f"started by {target}", lambda: _read_started(host, target), of_files=True)


def _read_started(host: Host, target: str) -> list[str]:
    unit = load(host, target)
    if unit.masked:
        return []
    names = [word for key in _STARTING for word in unit.words(key)]
    for name, paths in _links(host, target).items():
        names += [name for path in paths[:1] if leads_to(host, path, name)]
    if target == _GRAPHICAL and not unit.fragment:  # a tree without /usr: bootup(7)
        names.append(_MULTI_USER)
    return list(dict.fromkeys(_real_name(host, name) if name.endswith(".target") else name for name in names))


# -- lines of other units ------------------------------------------------------------------


def naming(host: Host, word: str) -> Sequence[tuple[str, Line]]:
    """Lines of [Unit] that contain a word, from all unit files and drop-ins, each with its unit or prefix.
    Read once for a run. Raises HostError."""
    return host.once(f"units that name {word}", lambda: [*_naming(host, word)])


def _naming(host: Host, word: str) -> Iterator[tuple[str, Line]]:
    for path, unit in _all_files(host):
        if word in _text(host, path):
            for line in _assignments(host, path):
                if line.section == "[Unit]" and word in line.value:
                    yield unit, line


def _all_files(host: Host) -> Iterator[tuple[str, str]]:
    """Every file of a unit, and the unit. Includes files hidden by an earlier folder."""
    for place, names in _places(host).items():
        for name in sorted(names):
            path = f"{place}/{name}"
            if name.endswith(".d"):
                for more in host.names(path):
                    if more.endswith(".conf") and not drop_ins.is_masked(host, f"{path}/{more}"):
                        yield f"{path}/{more}", name[: -len(".d")]
            elif name.endswith(_KINDS) and not host.is_link(path):
                yield path, name


# -- the order -----------------------------------------------------------------------------


def waits_for(host: Host, first: str, last: str, among: frozenset[str], more: Mapping[str, set[str]]) -> bool:
    """True if a unit is started after another one, directly or through others. among: the units of the boot,
    as no other has a place in its order. more: unit → units ordered before it by their own Before=. Raises
    HostError."""
    todo, seen = [first], {first}
    while todo:
        here = todo.pop()
        before = {*_follows(host, here), *more.get(here, ())} & among
        if last in before:
            return True
        todo += before - seen
        seen |= before
    return False


def _follows(host: Host, name: str) -> Sequence[str]:
    return host.once(f"order of {name}", lambda: _read_follows(host, name))


def _read_follows(host: Host, name: str) -> list[str]:
    """From its own files, with the default dependencies of its type (systemd.service(5),
    systemd.target(5))."""
    unit = load(host, name)
    names = unit.words("After")
    if not unit.fragment or not _by_default(unit):
        return names
    if name.endswith(".target"):
        return [*names, *(started for started in _started(host, name) if _precedes(host, started, name))]
    if name.endswith((".service", ".socket", ".timer", ".path")):
        return [*names, "sysinit.target", *(["basic.target"] if name.endswith(".service") else [])]
    return names


def _precedes(host: Host, name: str, target: str) -> bool:
    """True if a target is reached after a unit that it starts, the default unless the unit orders itself
    later (src/core/unit.c: unit_add_default_target_dependency)."""
    unit = load(host, name)
    return _by_default(unit) and target not in unit.words("After")


def _by_default(unit: Unit) -> bool:
    line = unit.last("[Unit]", ["DefaultDependencies"])
    return line is None or line.value.lower() not in NO
