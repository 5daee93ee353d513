# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The language of grub.cfg (GRUB manual, Shell-like scripting): commands with their words and blocks."""

from __future__ import annotations

import re
from typing import Callable, Iterator, NoReturn, Sequence

from ..model.record import NamedTuple, dataclass, field, regex

#: Nested blocks, branches of one `if`, and words of one condition: a menu has at most five
_MOST_NESTED = 64
#: A loop is not followed: variables in it are unknown
_LOOPS = {"while": "done", "until": "done", "for": "done"}
_KEYWORDS = frozenset({"then", "elif", "else", "fi", "do", "done"})
_VARIABLE = regex(r"\$(?:\{([^}\n]*)\}|([A-Za-z_]\w*|[0-9]+|[?#@*]))", re.ASCII)
_META = "{};|&\n"


class Part(NamedTuple):
    """A piece of a word: a text, or the name of a variable."""

    text: str
    is_variable: bool = False
    quoted: bool = False


class Token(NamedTuple):
    """A word, or one of _META; start and end are offsets."""

    sign: str
    parts: tuple[Part, ...]
    line: int
    start: int
    end: int

    @property
    def plain(self) -> str:
        """A word without quotes and variables; otherwise empty."""
        known = len(self.parts) == 1 and not self.parts[0].is_variable and not self.parts[0].quoted
        return self.parts[0].text if known and not self.sign else ""


@dataclass
class Command:
    """A command with its words, and the block after them. branches: of `if`, each with its condition, which
    is empty for `else`. loop: a body that runs any number of times; words: its variable."""

    line: int
    words: list[Token] = field(default_factory=list)
    block: list[Command] | None = None
    text: str = ""
    text_line: int = 0
    branches: list[tuple[list[Command], list[Command]]] = field(default_factory=list)
    loop: list[Command] | None = None


def parse(text: str) -> list[Command]:
    """All commands of a file. Raises ValueError."""
    return _Parser(text).all()


def _tokens(text: str) -> Iterator[Token]:
    """Raises ValueError."""
    at, line = 0, 1
    while at < len(text):
        sign = text[at]
        if text.startswith("\\\n", at):
            at, line = at + 2, line + 1
        elif sign in " \t\r":
            at += 1
        elif sign == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif sign in _META:
            yield Token(sign, (), line, at, at + 1)
            at, line = at + 1, line + (sign == "\n")
        else:
            parts, end = _word(text, at)
            yield Token("", tuple(parts), line, at, end)
            line += text.count("\n", at, end)
            at = end


def _word(text: str, at: int) -> tuple[list[Part], int]:
    """The parts of a word, and its end. Raises ValueError."""
    parts: list[Part] = []
    quoted = False
    while at < len(text):
        sign = text[at]
        if sign == '"':
            quoted = not quoted
            parts.append(Part("", quoted=True))
            at += 1
        elif not quoted and (sign in _META or sign in " \t\r"):
            break
        elif sign == "'" and not quoted:
            end = text.find("'", at + 1)
            if end < 0:
                raise ValueError("a quote is not closed")
            parts.append(Part(text[at + 1 : end], quoted=True))
            at = end + 1
        elif sign == "\\" and (not quoted or text[at + 1 : at + 2] in ('"', "$", "\\", "\n")):
            parts.append(Part(text[at + 1 : at + 2].replace("\n", ""), quoted=True))
            at += 2
        elif sign == "$" and (match := _VARIABLE.match(text, at)):
            parts.append(Part(match.group(1) or match.group(2) or "", is_variable=True, quoted=quoted))
            at = match.end()
        else:
            parts.append(Part(sign, quoted=quoted))
            at += 1
    if quoted:
        raise ValueError("a quote is not closed")
    return _joined(parts), at


def _joined(parts: Sequence[Part]) -> list[Part]:
    """Parts with adjacent ones of the same form merged."""
    merged: list[Part] = []
    for part in parts:
        last = merged[-1] if merged else None
        if last and not (part.is_variable or last.is_variable) and part.quoted == last.quoted:
            merged[-1] = Part(last.text + part.text, quoted=part.quoted)
        else:
            merged.append(part)
    return merged


class _Parser:
    """Commands of a text. Raises ValueError."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._at = 0
        self._depth = 0

    def all(self) -> list[Command]:
        commands = self._commands(())
        if self._at < len(self._tokens):
            self._fail()
        return commands

    def _commands(self, ends: Sequence[str]) -> list[Command]:
        """Commands before one of these words or signs, which is not consumed."""
        self._depth += 1
        if self._depth > _MOST_NESTED:
            self._fail()
        commands = self._up_to(ends)
        self._depth -= 1
        return commands

    def _up_to(self, ends: Sequence[str]) -> list[Command]:
        commands: list[Command] = []
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            if token.sign in ("\n", ";", "&", "|"):
                self._at += 1
            elif (token.sign or token.plain) in ends:
                return commands
            elif token.sign or token.plain in _KEYWORDS:
                self._fail()
            else:
                commands.append(self._command(token))
        if ends:
            self._fail()
        return commands

    def _command(self, token: Token) -> Command:
        if token.plain == "if":
            return self._if(token)
        if token.plain in _LOOPS:
            return self._loop(token)
        command = Command(token.line)
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            if token.sign == "{":
                self._block(command)
                break
            if token.sign:
                break
            command.words.append(token)
            self._at += 1
        return command

    def _loop(self, token: Token) -> Command:
        head: list[Token] = []
        while self._at < len(self._tokens) and self._tokens[self._at].plain != "do":
            head.append(self._tokens[self._at])
            self._at += 1
        self._at += 1
        body = self._commands((_LOOPS[token.plain],))
        self._at += 1
        return Command(token.line, words=head[1:2] if token.plain == "for" else [], loop=body)

    def _block(self, command: Command) -> None:
        opening = self._tokens[self._at]
        self._at += 1
        command.block = self._commands(("}",))
        closing = self._tokens[self._at]
        self._at += 1
        command.text = self._text[opening.end : closing.start]
        command.text_line = opening.line

    def _if(self, token: Token) -> Command:
        command = Command(token.line)
        word = token.plain
        while word in ("if", "elif"):
            if len(command.branches) > _MOST_NESTED:
                self._fail()
            self._at += 1
            condition = self._commands(("then",))
            self._at += 1
            command.branches.append((condition, self._commands(("elif", "else", "fi"))))
            word = self._tokens[self._at].plain
        if word == "else":
            self._at += 1
            command.branches.append(([], self._commands(("fi",))))
        self._at += 1
        return command

    def _fail(self) -> NoReturn:
        line = self._tokens[min(self._at, len(self._tokens) - 1)].line if self._tokens else 1
        raise ValueError(f"line {line} is not GRUB's language")


class Test:
    """[ ... ] (commands/test.c). None if an unknown file or number decides. exists: called with an operator
    such as -f and a name."""

    def __init__(self, exists: Callable[[str, str], bool | None]) -> None:
        self._exists = exists

    def result(self, words: Sequence[str]) -> bool | None:
        """-o binds least, then -a."""
        if len(words) > _MOST_NESTED:
            return None
        for sign, stops in (("-o", True), ("-a", False)):
            if sign in words and not {"(", ")"} & set(words):
                at = words.index(sign)
                both = (self.result(words[:at]), self.result(words[at + 1 :]))
                if stops in both:
                    return stops
                return None if None in both else not stops
        return self._primary(list(words))

    def _primary(self, words: list[str]) -> bool | None:
        if words[:1] == ["!"]:
            inner = self._primary(words[1:])
            return None if inner is None else not inner
        if len(words) == 2 and words[0] in ("-d", "-e", "-f", "-s"):
            return self._exists(words[0], words[1])
        if len(words) == 2 and words[0] in ("-n", "-z"):
            return bool(words[1]) == (words[0] == "-n")
        if len(words) == 3 and words[1] in ("=", "==", "!="):
            return (words[0] == words[2]) == (words[1] != "!=")
        if len(words) <= 1:
            return not words or bool(words[0])
        return None
