# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel parameters in GRUB: a drop-in if grub-mkconfig reads drop-ins, else /etc/default/grub.

Only grub.cfg decides the next boot; the files it was generated from may have changed since.
"""

from __future__ import annotations

import re
from typing import Mapping, Sequence

from ..linux import grub
from ..model.record import NamedTuple, regex
from . import cmdline

DEFAULTS = "/etc/default/grub"
DROP_INS = "/etc/default/grub.d"
#: Sorts after the files of distributions and cloud images
DROP_IN_NAME = "zz-mlnode-"
#: Variables for the command line of every kernel, and of every kernel except recovery entries
VARIABLES = ("GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT")

_SECTION = regex(r"### (BEGIN|END) /etc/grub\.d/(\S+) ###\Z")
_MENU_ENTRY = regex(r"\s*menuentry\s+(.*)")
#: Kernels of other systems, and rescue entries of this one (util/grub.d/10_linux.in)
_NOT_OURS = regex(r"'osprober-|'gnulinux-[^']*-recovery-|\(recovery mode\)|-rescue-")
#: A variable set to a plain text, such as tuned's own parameters
_SET = regex(r'\s*set\s+([A-Za-z_]\w*)="([^"$\\]*)"\s*\Z', re.ASCII)
_USE = regex(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)

_ASSIGNMENT = regex(r"\s*(?:export\s+)?(GRUB_CMDLINE_LINUX(?:_DEFAULT)?)(\+?)=(.*)\Z", re.DOTALL)
_ANEW = regex(r"\s*(?:export\s+)?GRUB_CMDLINE_LINUX=(?!.*\$\{?GRUB_CMDLINE_LINUX\b)")
#: A value without shell expansions
_PLAIN = regex(r'("(?:[^"\\$`]|\\["\\$`])*"|\'[^\']*\'|[\w.,:/@%+=-]*)(\s*(?:\s#[^\n]*\n?)?)\Z', re.ASCII)


class Entry(NamedTuple):
    """A kernel that the loader can start.

    added: words from variables, each with the place that sets it. by_hand: the entry is outside the reach of
    our files. quotes: the signs that the loader takes for quotes, and removes.
    """

    where: str
    line: str
    added: tuple[tuple[str, str], ...] = ()
    by_hand: bool = False
    quotes: str = cmdline.LOADER_QUOTES

    @property
    def command_line(self) -> str:
        """The words as a kernel gets them."""
        lines = (self._reached, *(text for text, _where in self.added))
        if self.quotes == cmdline.KERNEL_QUOTES:
            return " ".join(lines)
        return " ".join(word for line in lines for word in cmdline.handed_over(line))

    def parameter(self, name: str) -> tuple[tuple[str, ...], str, bool]:
        """Words of a parameter, the place to look at, and True if other files or hands add words."""
        words = cmdline.parameter(self._reached, name, self.quotes)
        for text, where in self.added:
            more = cmdline.parameter(text, name, self.quotes)
            if more:
                return (*words, *more), where, True
        return words, self.where, self.by_hand

    @property
    def _reached(self) -> str:
        """The part of the line that reaches the kernel."""
        return self.line if self.quotes == cmdline.KERNEL_QUOTES else cmdline.reached(self.line)


def entries(text: str, path: str) -> list[Entry]:
    """The kernels of this system in a grub.cfg.

    The entries that 10_linux generates from the installed kernels, or all entries if there are none. A manual
    entry next to generated ones is meant to differ.
    """
    kernels: list[tuple[str, Entry]] = []
    variables: dict[str, tuple[str, str]] = {}
    section, title = "", ""
    for number, line in enumerate(text.splitlines(), 1):
        border, menu, value = _SECTION.match(line), _MENU_ENTRY.match(line), _SET.match(line)
        kernel = grub.KERNEL_LINE.match(line)
        if border:
            section = border.group(2) if border.group(1) == "BEGIN" else ""
        elif menu:
            title = menu.group(1)
        elif value:
            variables[value.group(1)] = (value.group(2), f"{path}:{number}")
        elif kernel and not _NOT_OURS.search(title):
            kernels.append((section, entry(f"{path}:{number}", kernel.group(1) or "", variables)))
    own = [item for name, item in kernels if name.startswith("10_linux")]
    return own or [item for _name, item in kernels]


def entry(where: str, line: str, variables: Mapping[str, tuple[str, str]]) -> Entry:
    """One kernel, with the values of the variables in its line."""
    used = [match.group(1) or match.group(2) for match in _USE.finditer(cmdline.reached(line))]
    return Entry(where, line, tuple(variables[name] for name in used if name in variables))


# -- the drop-in ---------------------------------------------------------------------------

_HEAD = """\
# Written by mlnode.tuning for the declaration {name}; edits are overwritten.
# Declared in /etc/mlnode/declared.d/{name}.json; see: mlnode explain boot.PARAMETER
# grub-mkconfig reads this file: the parameters below are taken out, word by word, and set again.

_mlnode_others() (
    set -f
    unset IFS
    kept= quote= drop= init=
    for word in $1; do
        if [ -z "$quote$init" ]; then
            drop=
            case ${{word#[\\"\\']}} in
                --) init=yes ;;
"""

_CASE = """\
                {pattern} | {pattern}=*) drop=yes ;;
"""
_GIVEN = regex(r'^GRUB_CMDLINE_LINUX="((?:[^"$\\]|\\")*)\$\(_mlnode_others ', re.MULTILINE)

# Tracks quotes itself: a word that begins within quotes belongs to the word before it.
_TAIL = """\
            esac
        fi
        [ -n "$drop" ] || kept="$kept $word"
        rest=$word
        while [ -n "$rest" ]; do
            sign=${rest%"${rest#?}"}
            rest=${rest#?}
            case $quote$sign in
                \\" | \\') quote=$sign ;;
                \\"\\" | \\'\\') quote= ;;
            esac
        done
    done
    printf '%s' "${kept# }"
)
"""


def drop_in(name: str, changes: Mapping[str, Sequence[str]]) -> bytes:
    """The file that sets these words for each parameter, and removes parameters without words.

    Files of several declarations work in any order, because each handles only its own parameters.
    """
    (text,) = cmdline.merged([""], changes, cmdline.LOADER_QUOTES)
    text = f"{text} ".replace('"', '\\"') if text else ""
    lines = [
        _HEAD.format(name=name),
        *(_case(parameter) for parameter in changes),
        _TAIL,
        f'GRUB_CMDLINE_LINUX="{text}$(_mlnode_others "$GRUB_CMDLINE_LINUX")"\n',
        'GRUB_CMDLINE_LINUX_DEFAULT="$(_mlnode_others "$GRUB_CMDLINE_LINUX_DEFAULT")"\n',
        "unset -f _mlnode_others\n",
    ]
    return "".join(lines).encode("ascii")


def _case(parameter: str) -> str:
    return _CASE.format(pattern=cmdline.key_of(parameter).replace("_", "[-_]"))


def given(text: str, name: str) -> tuple[str, ...] | None:
    """The words that an mlnode drop-in gives to a parameter; None if it does not set the parameter."""
    if _case(name) not in text:
        return None
    match = _GIVEN.search(text)
    return cmdline.parameter(_unquoted(f'"{match.group(1)}"'), name, cmdline.LOADER_QUOTES) if match else ()


def emptying(text: str) -> list[int]:
    """Numbers of the lines that set the variable of our words without including its previous value."""
    return [number for number, line in enumerate(text.splitlines(), 1) if _ANEW.match(line)]


def naming(text: str, name: str) -> list[tuple[int, str]]:
    """Number and text of every line that mentions a parameter outside a comment."""
    spelled = re.escape(cmdline.key_of(name)).replace("_", "[-_]")
    pattern = regex(rf"(?<![\w.-]){spelled}(?![\w.-])")
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return [(number, line) for number, line in lines if not line.startswith("#") and pattern.search(line)]


# -- /etc/default/grub ---------------------------------------------------------------------


def edited(text: str, changes: Mapping[str, Sequence[str]]) -> str:
    """/etc/default/grub with these words in its two variables; all other bytes are unchanged.

    Raises ValueError if an assignment is not plain text, because only a shell could evaluate it.
    """
    lines = text.splitlines(keepends=True)
    places = {name: _assignment(lines, name) for name in VARIABLES}
    values = [place[1] if place else "" for place in places.values()]
    merged = cmdline.merged(values, changes, cmdline.LOADER_QUOTES)
    for (name, known), old, new in zip(places.items(), values, merged):
        if old == new:
            continue
        if known is None:
            end = "" if not lines or lines[-1].endswith("\n") else "\n"
            lines.append(f"{end}{name}={_quoted(new)}\n")
        else:
            number, _value, head, tail = known
            lines[number] = f"{head}{_quoted(new)}{tail}"
    return "".join(lines)


def _assignment(lines: Sequence[str], name: str) -> tuple[int, str, str, str] | None:
    """The last assignment: index, value, text before and after; None without one. Raises ValueError."""
    assignment = None
    for index, line in enumerate(lines):
        match = _ASSIGNMENT.match(line)
        if not match or match.group(1) != name:
            continue
        value = _PLAIN.match(match.group(3))
        if match.group(2) or not value:
            raise ValueError(
                f'{DEFAULTS}:{index + 1} is not a plain {name}="...", which alone can be edited safely'
            )
        assignment = (index, _unquoted(value.group(1)), line[: match.start(3)], value.group(2))
    return assignment


def _unquoted(text: str) -> str:
    if text.startswith('"'):
        return re.sub(r'\\(["\\$`])', r"\1", text[1:-1])
    return text[1:-1] if text.startswith("'") else text


def _quoted(text: str) -> str:
    escaped = re.sub(r'(["\\$`])', r"\\\1", text)
    return f'"{escaped}"'
