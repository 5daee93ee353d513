# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Output of the command: within the width of a terminal and in its colours, or plain into a file or pipe.

All output goes through say() or complain(), which remove the control characters that a terminal would obey.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TextIO

from ..model.errors import errno_name, paragraphs, printable

#: Reasons why the output is incomplete although its reader exists
_unwritten: list[str] = []


def begin() -> None:
    """Begin a run: its output is complete so far."""
    _unwritten.clear()


def imported() -> tuple[object, ...]:
    """Import the modules that say() and complain() need later: for a command after which the agent's file may
    have been replaced or removed."""
    from ..report import grid, paint

    return grid, paint


def ended(status: int, error: int) -> int:
    """Report missing output. Returns the exit status: `error` if output is missing, else `status`."""
    if not _unwritten:
        return status
    complain(f"cannot write the output: {_unwritten[0]}")
    return error


def say(text: str, painted: bool = False) -> bool:
    """Write and flush; False if the text did not arrive.

    A reader that has closed the pipe (`mlnode check | head`) has all it needs, so this is not an error; a
    full device is one, see ended(). painted: with colours of report.paint.
    """
    if painted:
        from ..report import paint

        text = paint.paragraphs_between(text)
    else:
        text = paragraphs(text)
    if sys.stdout is None:  # Python sets it if the caller has closed it
        _unwritten.append("standard output is closed")
        return False
    try:
        _write(sys.stdout, text)
    except BrokenPipeError:
        _discard(sys.stdout)
        return False
    except OSError as error:
        number = error.errno or 0
        _unwritten.append(f"{errno_name(number)} ({os.strerror(number)})")
        _discard(sys.stdout)
        return False
    return True


def say_wrapped(text: str) -> None:
    """A sentence, which a terminal gets in lines of its width."""
    columns = width()
    if columns is None or len(text) <= columns:
        say(text)
        return
    from ..report import grid

    say("\n".join(grid.wrapped(text, columns)))


def complain(message: str) -> None:
    """One line on standard error, which a terminal gets in lines of its width."""
    text = f"mlnode: {printable(message)}"
    columns = width(sys.stderr)
    if columns is not None and len(text) > columns:
        from ..report import grid

        text = "\n".join(grid.wrapped(text, columns))
    say_aside(text)


def say_aside(text: str) -> None:
    """Lines on standard error; if that cannot be written, only the exit status remains."""
    if sys.stderr is None:
        return
    try:
        _write(sys.stderr, paragraphs(text))
    except OSError:
        _discard(sys.stderr)


def print_json(value: Any) -> None:
    say(as_json(value, indent=2))


def as_json(value: Any, indent: int | None = None) -> str:
    """ASCII without control characters: json.dumps() leaves one of them as it is."""
    return json.dumps(value, indent=indent, ensure_ascii=True).replace("\x7f", "\\u007f")


def width(stream: TextIO | None = None) -> int | None:
    """Columns of the terminal behind a stream, by default standard output; None if it is not a terminal."""
    if not _is_terminal(stream or sys.stdout):
        return None
    import shutil

    return shutil.get_terminal_size().columns


def has_colours() -> bool:
    """On a terminal, unless NO_COLOR has a value (no-color.org) or the terminal has none (terminfo(5))."""
    terminal = os.environ.get("TERM") or "dumb"
    return _is_terminal(sys.stdout) and not os.environ.get("NO_COLOR") and terminal != "dumb"


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _write(stream: TextIO, text: str) -> None:
    # A kernel value may hold any byte, and a terminal may know few characters: neither ends in a traceback.
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    stream.flush()


def _discard(stream: TextIO) -> None:
    """Drop the buffered text and all later output: Python would try to write it at exit and print errors."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
