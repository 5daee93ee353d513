# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands in the administrator's units, their scripts and /etc/rc.local that set kernel values at boot:
`sysctl -w KEY=VALUE`, `sysctl -p FILE` and `echo VALUE > /proc/sys/KEY` (sysctl(8))."""

from __future__ import annotations

import errno
import re
import shlex
from typing import Iterator, Sequence

from ..host.host import Host
from ..model.errors import HostError
from ..model.record import NamedTuple, regex
from . import drop_ins, sysctl_d, systemd_unit
from .sysctl_d import Line

_ADMINISTRATORS = "/etc/systemd/system"
_COMMANDS = ("ExecStartPre", "ExecStart", "ExecStartPost")
_RC_LOCAL = "/etc/rc.local"
#: /dev/stdin depends on the reading process
_DEVICES = "/dev/"
_SYSCTL_CONF = "/etc/sysctl.conf"
#: The agent's units, which another row judges
_AGENTS = "mlnode-"

_SYSCTL = regex(r"(?:^|[\s;&|(\"'])(?:/usr)?(?:/s?bin/)?sysctl\s+([^;&|\n)]*)")
_ECHO = regex(
    r"\b(?:echo|printf)\s+(?:-[ne]+\s+)?[\"']?([^\"'>|;&\n]*?)(?:\\n)?[\"']?\s*"
    r"(?:>|\|\s*(?:sudo\s+)?(?:/usr)?(?:/bin/)?tee)\s*[\"']?/proc/sys/([^\s\"';&|]+)"
)
#: Options of sysctl that take files, by default /etc/sysctl.conf
_LOADS = ("-p", "-f", "--load", "-qp", "-ep", "-eqp", "-qep")
#: Words that make a line of a script conditional; lines after `<<` are only printed
_DECIDES = regex(
    r"(?:^|[\s;&|])(?:if|for|while|until|case|exit|return|function)\b|&&|\|\||\(\)"
    r"|(?<!<)<<-?\s*[\"'\\]?[A-Za-z_]",
    re.ASCII,
)
#: A printed text with a command in it, but no command after the text
_SAYS = regex(
    r"\b(?:echo|printf|logger)\b(?:[^;&|\"']|\"[^\"]*\"|'[^']*')*(?:[\"'][^\"']*)?\bsysctl\s", re.ASCII
)
_SHELL = regex(rb"#![^\n]*\b(?:ba|da|k|z)?sh\b")


class Commands(NamedTuple):
    """Lines that a unit sets; /etc/rc.local has no unit name. sure: False if a script decides."""

    unit: str
    lines: tuple[Line, ...]
    sure: bool


class _Place(NamedTuple):
    """The file and line of a command."""

    file: str
    number: int


def all_of(host: Host) -> Iterator[Commands]:
    """Raises HostError."""
    names = {name[: -len(".d")] if name.endswith(".d") else name for name in host.names(_ADMINISTRATORS)}
    for unit in sorted(systemd_unit.booted(host) & names):
        if unit.endswith(".service") and not unit.startswith(_AGENTS):
            yield from _of_unit(host, unit)
    # A generator makes the unit that starts it (systemd-rc-local-generator(8)): no link shows it.
    if host.exists(_RC_LOCAL) and host.is_executable(_RC_LOCAL):
        yield Commands("", *_of_script(host, _RC_LOCAL))


def _of_unit(host: Host, unit: str) -> Iterator[Commands]:
    loaded = systemd_unit.load(host, unit)
    for command in (line for key in _COMMANDS for line in loaded.counting("[Service]", key)):
        if not command.file.startswith(f"{_ADMINISTRATORS}/"):
            continue
        text = command.value.lstrip(systemd_unit.PREFIXES)
        lines = tuple(_set(host, text, _Place(command.file, command.number)))
        yield Commands(unit, lines, _is_sure(text, lines))
        for word in text.split():
            if word.startswith("/") and _is_script(host, word):
                yield Commands(unit, *_of_script(host, word))


def _is_script(host: Host, path: str) -> bool:
    """True for a shell script. Never opens a device, as that alone arms a watchdog. Raises HostError."""
    if not host.is_file(path) or path.startswith(_DEVICES):
        return False
    try:
        return _SHELL.match(host.content(path) or b"") is not None
    except HostError as error:
        if error.errno != errno.EFBIG:  # no script is that long
            raise
        return False


def _of_script(host: Host, path: str) -> tuple[tuple[Line, ...], bool]:
    lines: list[Line] = []
    sure = True
    for number, text in drop_ins.wrapped(drop_ins.text(host, path), comment="#"):
        if not text.lstrip().startswith("#"):
            settings = [*_set(host, text, _Place(path, number))]
            lines += settings
            sure = sure and (_is_sure(text, settings) or text.strip() == "exit 0")
    return tuple(lines), sure


def _is_sure(text: str, settings: Sequence[Line]) -> bool:
    """False if a line may not be run, or only prints a command. settings: the apparent settings."""
    return _DECIDES.search(text) is None and not (settings and _SAYS.search(text))


def _set(host: Host, text: str, place: _Place) -> Iterator[Line]:
    for match in _SYSCTL.finditer(text):
        yield from _of_arguments(host, _words(match[1]), place)
    for match in _ECHO.finditer(text):
        yield Line(match[2].strip("/"), _known(match[1]), *place)


def _known(value: str) -> str | None:
    """A value; None if the shell computes it."""
    return None if "$" in value or "`" in value else value.strip()


def _words(text: str) -> Sequence[str]:
    for part in (text, text.rstrip()[:-1]):  # a closing quote may belong to one before the command
        try:
            return shlex.split(part, comments=True)
        except ValueError:
            continue
    return text.replace('"', " ").replace("'", " ").split()


def _of_arguments(host: Host, words: Sequence[str], place: _Place) -> Iterator[Line]:
    loads = any(word in _LOADS for word in words)
    files = [word for word in words if loads and word.startswith("/") and "=" not in word]
    files += [word.partition("=")[2] for word in words if word.startswith("--load=/")]
    # After all folders `sysctl --system` reads this file once more.
    for path in files or ([_SYSCTL_CONF] if loads or "--system" in words else []):
        if path.startswith(_DEVICES):
            continue
        lines = sysctl_d.parse(drop_ins.text(host, path), path)
        yield from (line for line in lines if line.value is not None)
    for word in words:
        key, equals, value = word.partition("=")
        if equals and not key.startswith("-"):
            yield Line(sysctl_d.slashed(key.strip()), _known(value), *place)
