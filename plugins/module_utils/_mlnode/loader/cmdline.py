# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel command lines as words: split as the kernel splits them, and merged by key without other changes.

Pure text functions. A key is a parameter's name with _ for -, because the kernel treats both alike
(kernel/params.c: parameq).
"""

from __future__ import annotations

from typing import Iterable, Mapping, Sequence

from ..model.record import NamedTuple, regex

#: Source of the running parameters, and the text for a missing parameter
COMMAND_LINE = "/proc/cmdline"
ABSENT = "absent"

#: lib/cmdline.c: next_arg() accepts double quotes only; GRUB and a shell accept both.
KERNEL_QUOTES = '"'
LOADER_QUOTES = "\"'"

#: Words after it are for init, not for the kernel (init/main.c)
FOR_INIT = "--"
_SPACE = " \t\n\r\f\v"
_SPACES = regex(rf"[{_SPACE}]")
_NO_QUOTES = str.maketrans("", "", LOADER_QUOTES)


class Word(NamedTuple):
    """One word of a line, quotes included, and its position: line[start:end]."""

    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def key(self) -> str:
        return key_of(self.text.lstrip(LOADER_QUOTES).partition("=")[0])


def key_of(name: str) -> str:
    """Canonical spelling of a parameter's name."""
    return name.replace("-", "_")


def split(line: str, quotes: str = KERNEL_QUOTES) -> list[Word]:
    """The words for the kernel, in their order; spaces within quotes do not separate words."""
    words: list[Word] = []
    start, quote = None, ""
    for at, sign in enumerate(line + " "):
        if sign in _SPACE and (not quote or at == len(line)):
            if start is not None:
                if line[start:at] == FOR_INIT:
                    return words
                words.append(Word(line[start:at], start))
            start = None
            continue
        start = at if start is None else start
        if not quote and sign in quotes:
            quote = sign
        elif sign == quote:
            quote = ""
    return words


def parameter(line: str, name: str, quotes: str = KERNEL_QUOTES) -> tuple[str, ...]:
    """The words of one parameter in their order, as a kernel gets them, spelled as `name`."""
    texts = [word.text for word in split(line, quotes) if word.key == key_of(name)]
    return tuple(_spelled(_handed_over(text) if quotes == LOADER_QUOTES else text, name) for text in texts)


def handed_over(line: str) -> list[str]:
    """All words of a line of GRUB's menu, as a kernel gets them."""
    return [_handed_over(word.text) for word in split(line, LOADER_QUOTES)]


def _handed_over(text: str) -> str:
    """A word without the quotes that GRUB removes. GRUB adds its own quotes around a word with a blank."""
    return text if _SPACES.search(text) else text.translate(_NO_QUOTES)


def reached(line: str) -> str:
    """The part of a line that belongs to GRUB's command: it ends at a semicolon outside quotes."""
    quote = ""
    for at, sign in enumerate(line):
        if sign == ";" and not quote:
            return line[:at]
        if not quote and sign in LOADER_QUOTES:
            quote = sign
        elif sign == quote:
            quote = ""
    return line


def _all_reached(lines: Sequence[str]) -> list[str]:
    """The same for lines that form one command line: a semicolon also cuts off all following lines."""
    parts: list[str] = []
    for line in lines:
        parts.append(reached(line))
        if parts[-1] != line:
            break
    return parts


def _quoted(word: str) -> str:
    """A word quoted for GRUB, because a semicolon ends the command (GRUB manual, Shell-like scripting)."""
    name, equals, value = word.partition("=")
    return f'{name}{equals}"{value}"' if ";" in value else word


def _spelled(text: str, name: str) -> str:
    _name, equals, value = text.partition("=")
    return f"{name}{equals}{value}"


def shown(words: Iterable[str]) -> str:
    """The words of one parameter as one text."""
    return " ".join(words) or ABSENT


def wanted(text: str) -> tuple[str, ...]:
    """The words of a text made by shown()."""
    return () if text == ABSENT else tuple(text.split())


def merged(
    lines: Sequence[str], changes: Mapping[str, Sequence[str]], quotes: str = KERNEL_QUOTES
) -> list[str]:
    """Lines of one command line, with exactly these words for each name.

    Correct words stay in place, unless GRUB does not reach them. New words go first: after the others, a `--`
    or an unclosed quote would swallow them.
    """
    seen = _all_reached(lines) if quotes == LOADER_QUOTES else lines
    wrong = {
        name: list(words)
        for name, words in changes.items()
        if [word for line in seen for word in parameter(line, name, quotes)] != list(words)
    }
    keys = {key_of(name) for name in wrong}
    first, *others = [_without(line, keys, quotes) for line in lines]
    new = [word for words in wrong.values() for word in words]
    new = [*map(_quoted, new)] if quotes == LOADER_QUOTES else new
    return [" ".join([*new, first] if first.strip(_SPACE) else new) if new else first, *others]


def _without(line: str, keys: Iterable[str], quotes: str) -> str:
    for word in reversed(split(line, quotes)):
        if word.key in keys:
            head, tail = line[: word.start], line[word.end :]
            line = head.rstrip(_SPACE) + tail if head.strip(_SPACE) else head + tail.lstrip(_SPACE)
    return line
