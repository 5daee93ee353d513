# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder from which node_exporter reads metrics of other programs (its collector textfile), found in the
configuration of the service that runs it: its packages, and those who install it by hand, each have another.

One that runs in a container has no unit here, so that its folder has to be given.
"""

from __future__ import annotations

import re

from ..host.host import Host
from ..model.record import NamedTuple, regex
from . import systemd_conf

#: Debian, and the package of EPEL and the role of the Prometheus community
UNITS = ("prometheus-node-exporter.service", "node_exporter.service")

#: Compiled into the first of them on Debian and Ubuntu
#: (debian/patches/Default_settings.patch of prometheus-node-exporter)
DEBIAN = "/var/lib/prometheus/node-exporter"
_DEBIAN_BINARY = "/usr/bin/prometheus-node-exporter"

#: One dash or two, and = or a blank (github.com/alecthomas/kingpin); quotes are systemd's or a shell's
_OPTION = regex(r"--?collector\.textfile\.directory[= ]\s*[\"']?(/[^\s\"']*)", re.ASCII)
#: A variable of a file of arguments: ARGS of Debian, OPTIONS of others
_VARIABLE = regex(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?", re.ASCII)

#: The names of mlnode's files in it: of a check, and of the watch of each minute
FILE, WATCH_FILE = "mlnode.prom", "mlnode_watch.prom"

#: Its first line, by which it is known to be mlnode's
MARK = b"# Written by mlnode.tuning\n"

#: Where the path of the last FILE is kept, for the removal of both, and for the watch
NOTE = "/var/lib/mlnode/textfile"


class Found(NamedTuple):
    """path: the folder; empty where there is none, and why. source: what names it."""

    path: str
    source: str = ""
    problem: str = ""


def textfile_folder(host: Host) -> Found:
    """Raises HostError where a file that would name it cannot be read."""
    installed = [unit for unit in UNITS if systemd_conf.fragment(host, unit)]
    for unit in installed:
        found = _of_unit(host, unit)
        if found.path:
            return found
    if not installed:
        return Found("", problem="node_exporter has no service here: install it, or give the folder")
    return Found(
        "",
        problem=f"{installed[0]} has no --collector.textfile.directory: give it one, or name another folder",
    )


def _of_unit(host: Host, unit: str) -> Found:
    commands = systemd_conf.service(host, [unit], "ExecStart")
    if not commands:
        return Found("")
    command = commands[-1]
    arguments, source = command.value, command.where
    for name in _VARIABLE.findall(command.value):
        value, where = _variable(host, unit, name)
        arguments, source = f"{arguments} {value}", where or source
    given = _OPTION.findall(arguments)
    if given:
        return Found(given[-1].rstrip("/") or "/", source)
    if command.value.split()[:1] == [_DEBIAN_BINARY] and host.exists(DEBIAN):
        return Found(DEBIAN, f"the default of {unit}")
    return Found("")


def _variable(host: Host, unit: str, name: str) -> tuple[str, str]:
    """Value, and the line that gives it; the last one counts (systemd.exec(5), EnvironmentFile)."""
    value, where = "", ""
    for given in systemd_conf.service(host, [unit], "EnvironmentFile"):
        path = given.value.lstrip("-")
        # A value in quotes may go on over lines, as the options of this one often do.
        text = re.sub(r"\\\n", " ", host.text(path))
        for match in re.finditer(rf"^{name}=(.*)$", text, re.MULTILINE | re.ASCII):
            value, where = match.group(1), f"{path}, {name}"
    return value, where


def write(host: Host, folder: str, content: str) -> None:
    """Replace the file of metrics whole; one that an earlier check has left elsewhere goes. Raises HostError.

    node_exporter reads a file at any moment, and takes half of one for a whole one.
    """
    path = f"{folder}/{FILE}"
    noted = host.text(NOTE).strip()
    if noted != path:
        _remove(host, noted)
        host.write_file(NOTE, f"{path}\n".encode(), mode=0o644)
    # Fresh: what lies there may be the work of the owner of the folder.
    host.write_file(path, MARK + content.encode(), mode=0o644, fresh=True)


def write_watch(host: Host, content: str) -> bool:
    """Replace the file of the watch beside that of the last check; False before the first one. Raises
    HostError."""
    noted = host.text(NOTE).strip()
    if not noted.endswith(f"/{FILE}"):
        return False
    host.write_file(_watch_path(noted), MARK + content.encode(), mode=0o644, fresh=True)
    return True


def _watch_path(noted: str) -> str:
    return f"{noted[: -len(FILE)]}{WATCH_FILE}"


def remove(host: Host) -> None:
    """The files of metrics, and the note of them: else their last values would be exported for ever. Raises
    HostError."""
    noted = host.text(NOTE).strip()
    if noted:
        _remove(host, noted)
        host.remove_file(NOTE)


def _remove(host: Host, path: str) -> None:
    """Only what is mlnode's by its name and first line, whatever the note says."""
    if path.endswith(f"/{FILE}"):
        host.remove_file(_watch_path(path), MARK)
        host.remove_file(path, MARK)
