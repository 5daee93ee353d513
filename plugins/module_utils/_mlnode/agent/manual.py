# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`mlnode man`: the manual page, made from the parser, in the macros of man(7)."""

from __future__ import annotations

import argparse

from ..engine import declared
from ..engine import origin as origin_store
from ..host.places import AGENT_COMMAND
from ..model.version import VERSION
from . import arguments

#: Status of the command → when it ends so
_EXITS = (
    (arguments.OK, "the node is as declared, or the request is done"),
    (arguments.ERROR, "the node or a part of it could not be read or changed, or declares nothing"),
    (arguments.USAGE, "the arguments are wrong"),
    (
        arguments.DRIFT,
        "the node is not as declared; audit, preflight: a check fails; a dry run: it would do something",
    ),
)

_VARIABLES = (
    ("NO_COLOR", "with any value, no colours are used. They are used on a terminal only"),
    ("TERM", "no colours are used if it is dumb or not set"),
    ("COLUMNS", "the width of the terminal; without it the terminal is asked"),
)

_FILES = (
    (f"{declared.FOLDER}/*.json", "the declarations of this node"),
    (origin_store.PATH, "the state before the first change; a revert needs it"),
    (origin_store.COPY, "its copy"),
    (AGENT_COMMAND, "this command"),
)


def page() -> str:
    """The page, without its last line end."""
    parser = arguments.parser()
    lines = [
        r".\" Made by `mlnode man` from the arguments of the command.",
        f'.TH MLNODE 8 "" "mlnode {_text(VERSION)}" "System Administration"',
        ".SH NAME",
        r"mlnode \- " + _text("look at, apply and undo the declared tuning of this node"),
        ".SH SYNOPSIS",
        r".B mlnode",
        r".I COMMAND",
        r"[options]",
        ".SH DESCRIPTION",
        _text(arguments.DESCRIPTION),
        ".SH COMMANDS",
    ]
    for name, (subparser, text) in arguments.commands(parser).items():
        lines += _command(name, subparser, text)
    for title, pairs in (
        ("EXIT STATUS", [(str(status), text) for status, text in _EXITS]),
        ("ENVIRONMENT", _VARIABLES),
        ("FILES", _FILES),
    ):
        lines += [f".SH {title}"]
        for term, text in pairs:
            lines += [".TP", rf".B {_text(term)}", _text(text)]
    return "\n".join(lines)


def _command(name: str, parser: argparse.ArgumentParser, text: str) -> list[str]:
    positionals = arguments.positionals(parser)
    words = [rf"mlnode\ {_text(name)}", *(rf"\fI{_shown(action)}\fR" for action in positionals)]
    lines = [f".SS {' '.join(words)}", _text(text)]
    for action in (*positionals, *arguments.options(parser)):
        terms = ", ".join(rf"\fB{_text(word)}\fR" for word in action.option_strings)
        takes = rf" \fI{_text(str(action.metavar))}\fR" if action.metavar and action.option_strings else ""
        lines += [".TP", terms + takes if terms else rf"\fI{_shown(action)}\fR", _text(action.help or "")]
    return lines


def _shown(argument: argparse.Action) -> str:
    name = _text(str(argument.metavar))
    return f"[{name}]" if argument.nargs == "?" else name


def _text(text: str) -> str:
    """As it is to be read: no character of it is taken for a request (groff(7), Escapes)."""
    spelled = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{spelled}" if spelled.startswith((".", "'")) else spelled
