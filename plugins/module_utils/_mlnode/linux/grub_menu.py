# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""GRUB's menu and its default entry, evaluated from grub.cfg and all files that it sources.

If only GRUB knows the result of a command, such as `if keystatus`, both branches are possible: a variable
that they set differently is unknown from there on.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Mapping, Sequence

from ..host.host import Host
from ..model.record import NamedTuple, dataclass, field, regex
from .grub_language import Command, Test, Token, parse

#: Deeper than any menu's nested sources
_DEPTH = 8
#: More than in any menu
_ALL = 1 << 16
#: Commands outside of entries: ten times what grub-mkconfig writes for a hundred kernels
_MOST_COMMANDS = 1 << 14
#: A longer variable is not followed
_LONGEST = 1 << 12
#: Options of menuentry with a value (commands/menuentry.c)
_VALUED = ("--class", "--users", "--hotkey", "--source", "--id")
#: Features that GRUB 2.02 and later set at their start (normal/main.c: features)
_FEATURES = (
    "chainloader_bpb", "ntldr", "platform_search_hint", "default_font_path", "all_video_module",
    "menuentry_id", "menuentry_options", "200_final", "nativedisk_cmd", "timeout_style",
)  # fmt: skip
_ASSIGNMENT = regex(r"[A-Za-z_]\w*=", re.ASCII)
#: As in strtoul(3), with the base from its prefix
_NUMBER = regex(r"\s*(?:0[xX]([0-9a-fA-F]{1,15})|(0[0-7]{0,15})|([1-9][0-9]{0,15}))", re.ASCII)
#: First line of a file for load_env (include/grub/lib/envblk.h)
_ENVIRONMENT = "# GRUB Environment Block\n"


@dataclass
class Item:
    """An entry of the menu, or a submenu with items; sure: number of items at a certain place."""

    title: str
    id: str
    path: str
    line: int
    text: str
    text_line: int
    commands: list[Command] = field(default_factory=list)
    items: list[Item] | None = None
    sure: int = _ALL

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"


class Menu(NamedTuple):
    """items: all possible ones; sure: number of items, from the first on, at a certain place.

    default: as GRUB will find it, None if that is unknown; place: the line that sets it. files: all files
    read for the menu. exported: variables visible to an entry."""

    items: tuple[Item, ...]
    sure: int
    default: str | None
    place: str
    files: tuple[str, ...]
    exported: Mapping[str, str | None]


def menu(host: Host, path: str, exported: Mapping[str, str | None] = MappingProxyType({})) -> Menu:
    """The menu of a configuration file. Raises HostError, or ValueError if GRUB cannot read it either.

    exported: variables of the menu whose entry continues with this one."""
    run = _Run(host, path)
    run.variables.update(exported)
    run.file(path)
    return Menu(
        tuple(run.items),
        run.sure,
        run.variables.get("default", ""),
        run.place,
        tuple(run.read),
        run.exported(),
    )


def chosen(boot_menu: Menu) -> Item | None:
    """The default item; None if it is unknown or the menu is empty (normal/menu.c)."""
    items: Sequence[Item] = boot_menu.items
    sure, default = boot_menu.sure, boot_menu.default
    item: Item | None = None
    while items:
        if default is None:
            return None
        name, rest = _first(default)
        number = _NUMBER.match(default)
        if number:
            digits = ((number.group(1), 16), (number.group(2), 8), (number.group(3), 10))
            index = next(int(text, base) for text, base in digits if text)
        else:
            index = next((at for at, entry in enumerate(items) if name in (entry.title, entry.id)), -1)
        if sure != _ALL and (index < 0 or (number and index >= sure)):
            return None
        item = items[index if 0 <= index < len(items) else 0]
        if item.items is None:
            return item
        items, sure, default = item.items, item.sure, rest
    return item


def _first(path: str) -> tuple[str, str]:
    """The first name of a path of names, and the remaining path; > itself is doubled in a name."""
    at = 0
    while at < len(path) and (path[at] != ">" or path.startswith(">>", at)):
        at += 1 + path.startswith(">>", at)
    return path[:at].replace(">>", ">"), path[at + 1 :]


def further(host: Host, path: str, boot_menu: Menu, item: Item) -> str | None:
    """The file of the menu with which an item continues (configfile); empty if it does not, None if it is
    unknown. path: the configuration file. Raises HostError."""
    for command in item.commands:
        words = [token.plain for token in command.words]
        if words[:1] == ["configfile"]:
            run = _Run(host, path)
            run.variables = dict(boot_menu.exported)
            names = run.expanded(command.words[1:2])
            return run.path_of(names[0]) or None if names else None
        if words[:1] in (["chainloader"], ["multiboot"], ["multiboot2"], ["fwsetup"]):
            return ""
    return ""


# -- evaluation ----------------------------------------------------------------------------


class _Run:
    """Commands as GRUB would perform them at its start."""

    def __init__(self, host: Host, path: str) -> None:
        self._host = host
        self._folder = path.rpartition("/")[0]
        self._files: list[str] = []
        self._functions: dict[str, Command] = {}
        self._calls = 0
        self._performed = 0
        self.items: list[Item] = []
        self.place = ""
        self._exports = {"prefix", "root", *(f"feature_{name}" for name in _FEATURES)}
        self.read: list[str] = []
        self.sure = _ALL
        self.variables: dict[str, str | None] = {
            **{f"feature_{name}": "y" for name in _FEATURES},
            "prefix": self._folder, "config_directory": self._folder, "config_file": path, "root": None,
            "grub_platform": None, "grub_cpu": None, "cmdpath": None,
        }  # fmt: skip

    def exported(self) -> dict[str, str | None]:
        return {name: value for name, value in self.variables.items() if name in self._exports}

    def file(self, path: str) -> bool | None:
        """Raises HostError, ValueError."""
        if path in self._files or len(self._files) >= _DEPTH:
            self._lost()
            return None
        self._files.append(path)
        self.read.append(path)
        self._all(parse(self._host.text(path)))
        self._files.pop()
        return True

    def _all(self, commands: Sequence[Command]) -> bool | None:
        """The result of the last command; None if only GRUB knows it."""
        result: bool | None = True
        for command in commands:
            result = self._perform(command)
        return result

    def _perform(self, command: Command) -> bool | None:
        self._performed += 1
        if self._performed > _MOST_COMMANDS:
            raise ValueError(f"more than {_MOST_COMMANDS} commands")
        if command.branches:
            return self._if(command.branches)
        if command.loop is not None:
            self.variables.update((token.plain, None) for token in command.words)
            self._both([command.loop, []])
            return None
        words = self.expanded(command.words)
        if words is None:
            return self._unexpanded(command)
        if not words:
            return True
        name, arguments = words[0], words[1:]
        if _ASSIGNMENT.match(name) and not arguments:
            name, arguments = "set", [name]
        if name in ("menuentry", "submenu") and command.block is not None:
            self._entry(name, arguments, command)
            return True
        if name == "function" and arguments:
            self._functions[arguments[0]] = command
            return True
        return self._simple(name, arguments, command.line)

    def _unexpanded(self, command: Command) -> bool | None:
        """A command with a variable whose value is unknown."""
        plain = [token.plain for token in command.words]
        if plain[0] in ("menuentry", "submenu"):
            self._add_unknown()
        elif plain[0] in ("source", ".", "configfile", "normal", "load_env"):
            self._lost()
        else:
            first = command.words[1] if plain[0] in ("set", "export") and len(plain) > 1 else command.words[0]
            name, equals, _rest = (first.parts[0].text if first.parts else "").partition("=")
            if equals:
                self._set(name, None, command.line)
        return None

    def _simple(self, name: str, arguments: list[str], line: int) -> bool | None:
        if name == "set":
            for argument in arguments[:1]:
                variable, equals, value = argument.partition("=")
                if equals:
                    self._set(variable, value, line)
            return True
        if name == "unset":
            for argument in arguments:
                self._set(argument, "", line)
            return True
        if name == "export":
            self._exports.update(argument.partition("=")[0] for argument in arguments)
            return True
        if name in ("[", "test"):
            return Test(self._exists).result(arguments[: -1 if name == "[" else None])
        if name in ("source", ".", "configfile", "normal") and arguments:
            if name in ("configfile", "normal"):
                self.items, self.sure = [], _ALL
            return self._sourced(arguments[0])
        if name == "load_env":
            return self._load(arguments)
        if name in self._functions and self._calls < _DEPTH:
            self._calls += 1
            result = self._all(self._functions[name].block or [])
            self._calls -= 1
            return result
        if name in ("blscfg", "import", "legacy_source", "syslinux_source"):
            self._add_unknown()
        return {"true": True, "insmod": True, "false": False}.get(name)

    def _if(self, branches: Sequence[tuple[list[Command], list[Command]]]) -> bool | None:
        for number, (condition, body) in enumerate(branches):
            holds = self._all(condition) if condition else True
            if holds:
                return self._all(body)
            if holds is None:
                rest = list(branches[number + 1 :])
                self._both([body, [Command(0, branches=rest)] if rest else []])
                return None
        return True

    def _both(self, bodies: Sequence[list[Command]]) -> None:
        """Evaluate all possible branches: variables that differ after them are unknown."""
        before, count = dict(self.variables), len(self.items)
        ends = []
        for body in bodies:
            self.variables = dict(before)
            self._all(body)
            ends.append(self.variables)
        names = {name for end in ends for name in end}
        self.variables = {
            name: ends[0].get(name, "") if len({end.get(name, "") for end in ends}) == 1 else None
            for name in names
        }
        if count != len(self.items):
            self.sure = min(self.sure, count)

    def _set(self, name: str, value: str | None, line: int) -> None:
        self.variables[name] = value
        if name == "default":
            self.place = f"{self._files[-1]}:{line}"

    def _lost(self) -> None:
        """After a file that cannot be followed: it may set any variable and add any entry."""
        self.variables["default"] = None
        self._add_unknown()

    def _add_unknown(self) -> None:
        """Mark all later entries as uncertain."""
        self.sure = min(self.sure, len(self.items))

    def expanded(self, words: Sequence[Token]) -> list[str] | None:
        """Words without variables; None if one is unknown. A variable without quotes may be any number of
        words."""
        expansion: list[str] = []
        for word in words:
            texts, seen = [""], False
            for part in word.parts:
                value = self.variables.get(part.text, "") if part.is_variable else part.text
                if value is None:
                    return None
                if not part.is_variable or part.quoted:
                    texts[-1] += value
                    seen = True
                    continue
                pieces = value.split()
                texts[-1] += "".join(pieces[:1])
                texts += pieces[1:]
            expansion += texts if seen or any(texts) else []
        return expansion if sum(map(len, expansion)) <= _LONGEST else None

    # -- files -----------------------------------------------------------------------------

    def path_of(self, name: str) -> str | None:
        """The file of this machine for a GRUB path; None if that is unknown, empty if there is none."""
        if name.startswith("("):
            return None  # a device by its GRUB name
        if name.startswith(f"{self._folder}/"):
            return name if self._host.exists(name) else ""
        # Relative to a separate file system on /boot, or to the root.
        paths = (name, f"/boot{name}") if name.startswith("/") else ()
        return next((path for path in paths if self._host.exists(path)), "")

    def _exists(self, operator: str, name: str) -> bool | None:
        path = self.path_of(name)
        if not path:
            return None if path is None else False
        if operator == "-d":
            return bool(self._host.names(path))
        return operator != "-s" or bool(self._host.text(path))

    def _sourced(self, name: str) -> bool | None:
        path = self.path_of(name)
        if path is None:
            self._lost()
            return None
        return self.file(path) if path else False

    def _load(self, arguments: list[str]) -> bool | None:
        """load_env [-f FILE] [NAME ...]"""
        name = f"{self._folder}/grubenv"
        while arguments and arguments[0].startswith("-"):
            option, arguments = arguments[0], arguments[1:]
            if option in ("-f", "--file") and arguments:
                name, arguments = arguments[0], arguments[1:]
            elif option.startswith("--file="):
                name = option[len("--file=") :]
        path = self.path_of(name)
        if path is None:
            self._lost()
        if not path:
            return None if path is None else False
        self.read.append(path)
        text = self._host.text(path)
        if not text.startswith(_ENVIRONMENT):
            return False
        for number, line in enumerate(text.splitlines(), 1):
            variable, equals, value = line.partition("=")
            if equals and not line.startswith("#") and (not arguments or variable in arguments):
                self.variables[variable] = value
                if variable == "default":
                    self.place = f"{path}:{number}"
        return True

    # -- entries ---------------------------------------------------------------------------

    def _entry(self, kind: str, arguments: list[str], command: Command) -> None:
        given: dict[str, str] = {}
        titles: list[str] = []
        rest = list(arguments)
        while rest:
            word = rest.pop(0)
            name, equals, value = word.partition("=")
            if name in _VALUED:
                given[name] = value if equals else (rest.pop(0) if rest else "")
            elif not word.startswith("--"):
                titles.append(word)
        title = titles[0] if titles else ""
        item = Item(
            title=title, id=given.get("--id", title), path=self._files[-1], line=command.line,
            text=command.text, text_line=command.text_line, commands=command.block or [],
        )  # fmt: skip
        if kind == "submenu":
            outer = self.items, self.sure, dict(self.variables)
            self.items, self.sure = [], _ALL
            self._all(item.commands)
            item.items, item.sure = self.items, self.sure
            self.items, self.sure, self.variables = outer
        self.items.append(item)
