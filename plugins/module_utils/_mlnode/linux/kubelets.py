# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services that are or contain a kubelet, and whether it sets kernel values itself: by flags, which override
its configuration (kubelet(1), cmd/kubelet/app/options), and by its configuration files."""

from __future__ import annotations

import re
from typing import Iterator

from ..host.host import Host
from ..model.errors import HostError
from ..model.record import NamedTuple, regex
from . import drop_ins, glob3, systemd_conf, systemd_unit
from .sysctl_d import Line

#: Unit → file with protectKernelDefaults (k3s and rke2 have their own spelling, MicroK8s a list of
#: flags)
UNITS = {
    "kubelet.service": "/var/lib/kubelet/config.yaml",
    "k3s.service": "/etc/rancher/k3s/config.yaml",
    "k3s-agent.service": "/etc/rancher/k3s/config.yaml",
    "rke2-server.service": "/etc/rancher/rke2/config.yaml",
    "rke2-agent.service": "/etc/rancher/rke2/config.yaml",
    "snap.microk8s.daemon-kubelite.service": "/var/snap/microk8s/current/args/kubelet",
    "k0sworker.service": "/var/lib/k0s/kubelet-config.yaml",
    "k0scontroller.service": "/var/lib/k0s/kubelet-config.yaml",
}
_CONFIG = regex(r"--config[= ]\"?(/[^\s\"']+)")
_CONFIG_FOLDER = regex(r"--config-dir[= ]\"?(/[^\s\"']+)")
#: In YAML at the start of a line, in JSON anywhere
_OPTION = regex(
    r"(?:^\s*|[{,]\s*)\"?(?:protectKernelDefaults|protect-kernel-defaults)\"?\s*:\s*\"?(true|false)",
    re.ASCII,
)
#: Also as a word of kubelet-arg, without the dashes
_FLAG = regex(
    r"(?:--|[\"'])protect-kernel-defaults(?:=(1|t|T|TRUE|true|True|0|f|F|FALSE|false|False))?(?=[\s\"',\\\]]|$)"
)
#: In the name of an environment file
_SPECIFIER, _WILD = regex(r"%."), regex(r"[*?\[{]")
_FALSE = ("0", "f", "F", "FALSE", "false", "False")


class Kubelet(NamedTuple):
    """where: file and line that decide whether it protects the kernel's values. protects: it exits if they
    differ, and sets none."""

    unit: str
    where: tuple[str, int]
    protects: bool


def all_of(host: Host) -> Iterator[Kubelet]:
    """Raises HostError."""
    for unit in UNITS:
        given = lines(host, unit)
        if not given:
            continue
        where, protects = (given[0].file, given[0].number), False
        for line in given:
            option = _OPTION.search(line.value or "")
            if option is not None:
                where, protects = (line.file, line.number), option[1] == "true"
        for line in given:
            for flag in _FLAG.finditer(line.value or ""):
                where, protects = (line.file, line.number), (flag[1] or "true") not in _FALSE
        yield Kubelet(unit, where, protects)


def lines(host: Host, unit: str) -> list[Line]:
    """All lines with possible settings of one of UNITS, of its arguments and configuration files. The first
    one starts it. Empty if there is no such unit. Raises HostError."""
    command, given = arguments(host, unit)
    if command is None:
        return []
    text = "\n".join(line.value or "" for line in given)
    named, folder = _CONFIG.search(text), _CONFIG_FOLDER.search(text)
    usual = UNITS[unit]
    files = [named[1] if named else usual]
    files += drop_ins.paths(host, [folder[1]]) if folder else []
    files += drop_ins.paths(host, [f"{usual}.d"], (".yaml",))
    for path in files:
        for number, line in enumerate(drop_ins.text(host, path).split("\n"), start=1):
            if not line.lstrip().startswith("#"):
                given.append(Line("", line, path, number))
    return given


def arguments(host: Host, unit: str) -> tuple[Line | None, list[Line]]:
    """The line that starts a unit, None if there is no such unit, and all lines with possible arguments: from
    its files and from its environment files. Raises HostError."""
    loaded = systemd_unit.load(host, unit)
    commands = loaded.counting("[Service]", "ExecStart")
    if not commands:
        return None, []
    lines = [*commands, *loaded.counting("[Service]", "Environment")]
    given = [Line("", line.value, line.file, line.number) for line in lines]
    for line in loaded.counting("[Service]", "EnvironmentFile"):
        for path in _environment_files(host, unit, line):
            for number, text in enumerate(drop_ins.text(host, path).split("\n"), start=1):
                if not text.lstrip().startswith(("#", ";")):
                    given.append(Line("", text, path, number))
    return given[0], given


def _environment_files(host: Host, unit: str, line: systemd_conf.Line) -> list[str]:
    """The files of a line, which may have specifiers and wildcards (systemd.exec(5)). Raises HostError."""
    named = {"%n": unit, "%N": unit.rpartition(".")[0], "%p": unit.rpartition(".")[0], "%%": "%"}
    words = line.value.lstrip("-").strip("\"'")
    unknown = [sign for sign in _SPECIFIER.findall(words) if sign not in named]
    path = _SPECIFIER.sub(lambda match: named.get(match[0], ""), words)
    folder = path.rpartition("/")[0]
    if unknown or _WILD.search(folder):
        problem = f"the value of {unknown[0]}" if unknown else f"the folders of {folder}"
        raise HostError(
            "understand", line.where, None, f"EnvironmentFile={line.value}: {problem} is not known"
        )
    if not _WILD.search(path):
        return [path]
    files = sorted(f"{folder}/{name}" for name in host.names(folder))
    return [file for file in files if glob3.matches(path, file)]
