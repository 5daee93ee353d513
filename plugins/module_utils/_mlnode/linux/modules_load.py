# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel modules: the available ones, the ones loaded at the next boot, and obstacles to that.

By the rules of modules-load.d(5) and modprobe.d(5), and the sources of systemd (src/modules-load,
src/shared/module-util.c) and kmod (libkmod/libkmod-config.c, libkmod-module.c).
"""

from __future__ import annotations

import fnmatch
import re
from typing import Iterator, Sequence

from ..host.host import Host
from ..model import slips
from ..model.record import NamedTuple, regex
from . import drop_ins

#: Folder in which the kernel shows loaded modules
LOADED = "/sys/module"

_LOAD, _PROBE = (tuple(f"{top}/{name}" for top in drop_ins.TOPS) for name in ("modules-load.d", "modprobe.d"))
#: File types for kmod; in modules-load.d systemd reads the first one only
_PROBED = (".conf", ".alias")

#: Commands of an `install` line that load nothing. Other commands have an unknown effect, unless they load
#: the module itself and do not end before.
_NOTHING = regex(r"(?:(?:/usr)?(?:/s?bin/)?(?:true|false)\b|:(?=\s|$)|/dev/null\b|exit\b)[^;&|]*$", re.ASCII)
_ENDS, _PARTS = regex(r"\b(?:false|exit)\b", re.ASCII), regex(r"[;&|]")
_IGNORING = ("-i", "--ignore-install")

#: Parameters of the kernel command line. The kernel itself refuses the first ones (kernel/module/main.c:
#: blacklisted), kmod leaves out the second.
_REFUSED, _LEFT_OUT = "module_blacklist", "modprobe.blacklist"
COMMAND_LINE = "kernel command line"
#: Parameter for systemd-modules-load
_NAMED = "modules_load"


def underscored(name: str) -> str:
    """The kernel's spelling, which replaces - by _."""
    return name.replace("-", "_")


class Line(NamedTuple):
    """A line that names a module. text: its content."""

    text: str
    file: str
    number: int

    @property
    def where(self) -> str:
        return f"{self.file}:{self.number}"


class Bar(NamedTuple):
    """Reason why a listed module is not loaded at boot. for_all: also not by modprobe, nor when the kernel
    asks for its name. sure: False if it may be loaded all the same."""

    where: str
    what: str
    for_all: bool = False
    sure: bool = True

    @property
    def words(self) -> str:
        return f"{self.where} {self.what}"


class Given(NamedTuple):
    """A module parameter's value at loading."""

    value: str
    where: str


class Config(NamedTuple):
    """Lines of all files, and unreadable files, as they may contain anything."""

    listed: tuple[Line, ...]
    rules: tuple[Line, ...]
    unreadable: tuple[str, ...] = ()

    def listing(self, name: str) -> Line | None:
        """The first line that loads the module at boot."""
        return next((line for line in self.listed if underscored(line.text) == name), None)

    def barred(self, name: str) -> Bar | None:
        """Obstacle to its loading by systemd-modules-load, or by a program that asks for its name."""
        aliases = self._matching("alias", name)
        # Aliases of files come before modules (libkmod-module.c: kmod_module_new_from_lookup).
        if aliases and name not in [underscored(module) for _line, module in aliases]:
            line, module = aliases[0]
            return Bar(line.where, f"has the name stand for {module}", for_all=True)
        for line, command in self._matching("install", name)[:1]:  # the first of several counts
            if not _installs(command, name):
                words = f"has {command.split()[0]} run instead of loading it"
                return Bar(line.where, words, for_all=True, sure=_NOTHING.match(command) is not None)
        for line, verb, fields in _rules(self.rules):
            if verb == "blacklist" and fields[0] == name:
                return Bar(line.where, "blacklists it")
        return None

    def _matching(self, verb: str, name: str) -> list[tuple[Line, str]]:
        """Lines of a verb whose pattern matches the name, with the text after the pattern."""
        return [
            (line, fields[1])
            for line, rule_verb, fields in _rules(self.rules)
            if rule_verb == verb and fnmatch.fnmatchcase(name, fields[0])
        ]

    def given(self, name: str, parameter: str) -> list[Given]:
        """Values for a parameter from options lines, in their order: the kernel takes the last."""
        return [
            value
            for line, verb, words in _rules(self.rules)
            if verb == "options" and words[0] == name
            for value in _given(words[1].split(), parameter, line.where)
        ]

    def boot_sources(self, name: str) -> list[Line]:
        """Every line that names the module, for an explanation."""
        rules = [line for line, _verb, fields in _rules(self.rules) if fnmatch.fnmatchcase(name, fields[0])]
        return [*(line for line in self.listed if underscored(line.text) == name), *rules]


def _rules(lines: Sequence[Line]) -> Iterator[tuple[Line, str, tuple[str, str]]]:
    """Verb, module and the remaining text of each complete line of modprobe.d."""
    for line in lines:
        verb, *fields = line.text.split(None, 2)
        if verb in ("alias", "install", "options") and len(fields) == 2:
            yield line, verb, (underscored(fields[0]), fields[1])
        elif verb == "blacklist" and fields:
            yield line, verb, (underscored(fields[0]), "")


def _installs(command: str, name: str) -> bool:
    """True if a command certainly loads the module itself."""
    parts = [part.split() for part in _PARTS.split(command)]
    loads = any(
        words[0].rpartition("/")[2] == "modprobe"
        and any(word in _IGNORING for word in words)
        and name in map(underscored, words)
        for words in filter(None, parts)
    )
    return loads and not _ENDS.search(command)


def _given(words: Sequence[str], parameter: str, where: str) -> Iterator[Given]:
    for word in words:
        key, equals, value = word.partition("=")
        if underscored(key) == parameter:
            # A bare word switches a boolean parameter on (kernel/params.c: param_set_bool).
            yield Given(value if equals else "Y", where)


def load(host: Host) -> Config:
    """Read all folders. Never raises: unreadable files are reported."""
    unreadable: list[str] = []
    listed = [
        Line(text.strip(), path, number)
        for path, content in drop_ins.texts(host, _LOAD, unreadable)
        for number, text in enumerate(content.split("\n"), start=1)
        if text.strip() and text.strip()[0] not in "#;"
    ]
    rules = [
        Line(text, path, number)
        for path, content in drop_ins.texts(host, _PROBE, unreadable, _PROBED)
        for number, text in drop_ins.wrapped(content)
        # Only a # at the very beginning starts a comment: after a blank it makes an invalid line.
        if text.strip() and not text.startswith("#")
    ]
    return Config(tuple(listed), tuple(rules), tuple(unreadable))


# -- the kernel command line ---------------------------------------------------------------


def on_command_line(host: Host, name: str) -> tuple[bool, Bar | None]:
    """True if the running kernel's command line loads the module at boot, and the obstacle on it. Raises
    HostError."""
    named = False
    refused: Bar | None = None
    left_out: Bar | None = None
    for_init = False
    for word in host.text("/proc/cmdline").split():
        for_init = for_init or word == "--"
        key, _equals, value = word.partition("=")
        names = value.strip('"').split(",")
        where = f"kernel command line ({word})"
        if underscored(key) == _NAMED and not for_init:
            named = named or name in map(underscored, names)
        elif underscored(key) == _REFUSED and not for_init:
            # A name in the kernel's spelling; the last of several such words counts (kernel/params.c:
            # param_set_charp).
            refused = Bar(where, "has the kernel refuse it", for_all=True) if name in names else None
        elif key == _LEFT_OUT and name in map(underscored, names):
            # kmod 30 requires the kernel's spelling, too; it does not stop at --.
            left_out = left_out or Bar(where, "blacklists it", sure=name in names)
    return named, refused or left_out


def given_on_command_line(host: Host, name: str, parameter: str) -> list[Given]:
    """Values for a parameter from the kernel command line: kmod adds them after the lines of all files, and a
    built-in module has no others (libkmod-config.c: kmod_config_parse_kcmdline). Raises HostError."""
    words = []
    for word in host.text("/proc/cmdline").split():
        if word == "--":  # the words after it are for init
            break
        module, dot, rest = word.partition(".")
        if dot and underscored(module) == name:
            words.append(rest)
    return [*_given(words, parameter, COMMAND_LINE)]


def meant(host: Host, module: str, parameter: str) -> str:
    """The parameter of a loaded module that a misspelt one resembles; empty if there is none. Hidden
    parameters are unknown. Raises HostError."""
    shown = host.names(f"{LOADED}/{module}/parameters")
    if parameter in shown:
        return ""
    near = [(slips.count(parameter, known, slips.most(known)), known) for known in shown]
    number, name = min(near, default=(0, ""))
    return name if name and number <= min(slips.most(name), slips.most(parameter)) else ""


# -- available modules ---------------------------------------------------------------------


def is_loadable(host: Host, release: str, name: str) -> bool:
    """True if a kernel's folder has it as a loadable module, not built in. Raises HostError."""
    return name in _stems(host, release, "modules.dep")


def dependencies(host: Host, release: str, name: str) -> set[str] | None:
    """The modules whose symbols a loadable module uses, by depmod(8); None if there is no such module. Raises
    HostError."""
    for line in host.text(f"/lib/modules/{release}/modules.dep").splitlines():
        path, _colon, others = line.partition(":")
        if _stem(path) == name:
            return {_stem(other) for other in others.split()}
    return None


def is_built_in(host: Host, release: str, name: str) -> bool:
    """Raises HostError."""
    return name in _stems(host, release, "modules.builtin")


def _stems(host: Host, release: str, listing: str) -> set[str]:
    """The names of the modules that a file of depmod(8) or the kernel's build lists, one path a line."""
    text = host.text(f"/lib/modules/{release}/{listing}")
    return {_stem(line.partition(":")[0]) for line in text.splitlines() if line}


def _stem(path: str) -> str:
    """The name of a module by its file, compressed or not."""
    return underscored(path.rpartition("/")[2].partition(".ko")[0])
