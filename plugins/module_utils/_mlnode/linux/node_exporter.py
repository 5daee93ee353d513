# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder from which node_exporter reads metrics of other programs (its collector textfile), found in its
service's configuration, as each package and installation has a different one. A node_exporter in a container
has no unit here: its folder must be declared.
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
#: A variable of a file of arguments: ARGS in Debian, OPTIONS in others
_VARIABLE = regex(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?", re.ASCII)

#: Names of mlnode's files in the folder: from a check, and from the watch of each minute
FILE, WATCH_FILE = "mlnode.prom", "mlnode_watch.prom"

#: Its first line, which identifies mlnode's file
MARK = b"# Written by mlnode.tuning\n"

#: File with the path of the last FILE, for the removal of both files, and for the watch
NOTE = "/var/lib/mlnode/textfile"


class Found(NamedTuple):
    """path: the folder; empty if there is none, with the problem. source: the line that sets it."""

    path: str
    source: str = ""
    problem: str = ""


def textfile_folder(host: Host) -> Found:
    """Folder of the collector. Raises HostError if a file that may set it cannot be read."""
    installed = [unit for unit in UNITS if systemd_conf.fragment(host, unit)]
    for unit in installed:
        folder = _of_unit(host, unit)
        if folder.path:
            return folder
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
    """Value of a variable, and its line; the last one counts (systemd.exec(5), EnvironmentFile)."""
    value, where = "", ""
    for given in systemd_conf.service(host, [unit], "EnvironmentFile"):
        path = given.value.lstrip("-")
        # A value in quotes may span several lines, as this one often does.
        text = re.sub(r"\\\n", " ", host.text(path))
        for match in re.finditer(rf"^{name}=(.*)$", text, re.MULTILINE | re.ASCII):
            value, where = match.group(1), f"{path}, {name}"
    return value, where


def write(host: Host, folder: str, content: str) -> None:
    """Replace the file of metrics as a whole, and remove an earlier one in another folder. Raises HostError.

    node_exporter may read a file at any moment, and would accept half of one.
    """
    path = f"{folder}/{FILE}"
    noted = host.text(NOTE).strip()
    if noted != path:
        _remove(host, noted)
        host.write_file(NOTE, f"{path}\n".encode(), mode=0o644)
    # Fresh: an existing file may have been made by the owner of the folder.
    host.write_file(path, MARK + content.encode(), mode=0o644, fresh=True)


def write_watch(host: Host, content: str) -> bool:
    """Replace the file of the watch next to the last check's file; False before the first check. Raises
    HostError."""
    noted = host.text(NOTE).strip()
    if not noted.endswith(f"/{FILE}"):
        return False
    host.write_file(_watch_path(noted), MARK + content.encode(), mode=0o644, fresh=True)
    return True


def _watch_path(noted: str) -> str:
    return f"{noted[: -len(FILE)]}{WATCH_FILE}"


def remove(host: Host) -> None:
    """Remove the files of metrics, whose last values would be exported for ever, and the note of them. Raises
    HostError."""
    noted = host.text(NOTE).strip()
    if noted:
        _remove(host, noted)
        host.remove_file(NOTE)


def _remove(host: Host, path: str) -> None:
    """Remove only mlnode's files, by name and first line, even if the note is wrong."""
    if path.endswith(f"/{FILE}"):
        host.remove_file(_watch_path(path), MARK)
        host.remove_file(path, MARK)
