# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other places that set variables of jobs: a job's environment beats /etc/nccl.conf."""

from __future__ import annotations

import errno
import re
from typing import Iterator, Sequence

from ...host.host import Host
from ...linux import drop_ins
from ...model.errors import HostError
from ...model.record import NamedTuple, regex

#: Read by PAM for every login, whatever the shell: pam_env(8)
ENVIRONMENT = "/etc/environment"

#: Its syntax is NAME DEFAULT=value OVERRIDE=value: pam_env.conf(5)
_PAM_ENV = "/etc/security/pam_env.conf"
#: SUSE's packages use the second; a file of the same name in the first hides theirs
#: (modules/pam_env/pam_env.c: VENDOR_DEFAULT_CONF_FILE)
_ETC, _VENDOR = "/etc/", "/usr/etc/"

#: /lib is a link to /usr/lib on systems that package these services
_TOPS = drop_ins.TOPS[:-1]
#: Services that start jobs
_STARTERS = ("slurmd", "kubelet", "containerd", "docker", "crio")

#: Files that shells, systemd or slurmd may read and pass on. Files in users' home folders are left out, as
#: they may be on a server that does not answer.
_OTHERS = (
    "/etc/environment.d/*.conf",
    _PAM_ENV,
    "/etc/profile",
    "/etc/profile.d/*",
    "/etc/bash.bashrc",
    "/etc/bashrc",
    "/etc/zshenv",
    "/etc/zsh/zshenv",
    "/etc/csh.cshrc",
    "/etc/csh.login",
    "/etc/default/slurmd",
    "/etc/sysconfig/slurmd",
    # For containers that enroot (doc/configuration.md) and Podman (containers.conf(5): env) start
    "/etc/enroot/environ.d/*.env",
    "/etc/containers/containers.conf",
    "/etc/containers/containers.conf.d/*.conf",
    # For all ranks of a run (Open MPI: mca_base_env_list), in the places of packages
    "/etc/openmpi*/openmpi-mca-params.conf",
    # For all services (DefaultEnvironment=), and for those that start jobs in the places of packages, too
    *(f"{top}/systemd/system.conf" for top in _TOPS),
    *(f"{top}/systemd/system.conf.d/*.conf" for top in _TOPS),
    "/etc/systemd/system/*.service",
    "/etc/systemd/system/*.service.d/*.conf",
    "/etc/systemd/system/service.d/*.conf",
    *(f"{top}/systemd/system/{unit}.service" for top in _TOPS[1:] for unit in _STARTERS),
    *(f"{top}/systemd/system/{unit}.service.d/*.conf" for top in _TOPS[1:] for unit in _STARTERS),
)
#: Slurm's file, which can name a program that sets variables of each task: slurm.conf(5), TaskProlog. The
#: second is slurmd's copy of the controller's file (Slurm's guide, Configless).
_SLURM = ("/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf")
#: Further files of variables of a service, by a pattern: systemd.exec(5)
_MORE = regex(r"^\s*EnvironmentFile\s*=\s*-?(/[!-~]+)", re.ASCII | re.MULTILINE)
_PROLOG = regex(r"^\s*TaskProlog\s*=\s*(/[!-~]+)", re.ASCII | re.IGNORECASE | re.MULTILINE)


#: Assignments to variables of NCCL, its plugins and libsharp
_SETS = regex(r"(?<![A-Za-z0-9_$])((?:[NR]CCL|OFI_NCCL|SHARP_COLL)_[A-Z0-9_]{1,63})=", re.ASCII)
_IN_PAM = regex(r"^\s*((?:[NR]CCL|OFI_NCCL|SHARP_COLL)_[A-Z0-9_]{1,63})\s+(?:DEFAULT|OVERRIDE)=", re.ASCII)
_CSH = regex(r"\bsetenv\s+((?:[NR]CCL|OFI_NCCL|SHARP_COLL)_[A-Z0-9_]{1,63})\s", re.ASCII)


def is_name(text: str) -> bool:
    """True for the name of a variable of NCCL, its plugins or libsharp."""
    match = _SETS.match(f"{text}=")
    return match is not None and match.group(1) == text


class Mention(NamedTuple):
    """A line that mentions a variable. value: the value that it sets, if that is certain."""

    path: str
    number: int
    text: str
    value: str | None = None

    @property
    def where(self) -> str:
        return f"{self.path}:{self.number}"


class Places(NamedTuple):
    """All files that were read. problems: files that could not be read."""

    texts: Sequence[tuple[str, str]]
    problems: Sequence[str]

    def mentions(self, name: str) -> list[Mention]:
        """Every line that sets a variable, in the order of the files."""
        word = re.escape(name)
        setting = regex(rf"(?<![A-Za-z0-9_$]){word}=|\bsetenv\s+{word}\s", re.ASCII)
        in_pam = regex(rf"\s*{word}\s+(?:DEFAULT|OVERRIDE)=", re.ASCII)
        return [
            Mention(path, number, line, _assigned(line, name) if _own(path) == ENVIRONMENT else None)
            for path, text in self.texts
            for number, line in enumerate(text.split("\n"), 1)
            if (in_pam.match(line) if _own(path) == _PAM_ENV else setting.search(line))
            and not _is_comment(line)
        ]

    def names(self) -> set[str]:
        """All variables that any line sets."""
        return {
            match.group(1)
            for path, text in self.texts
            for line in text.split("\n")
            if not _is_comment(line)
            for pattern in ((_IN_PAM,) if _own(path) == _PAM_ENV else (_SETS, _CSH))
            for match in pattern.finditer(line)
        }

    def certain(self, name: str) -> Mention | None:
        """The line that sets a variable for all logins: the last one of its file."""
        return next((item for item in reversed(self.mentions(name)) if item.value is not None), None)


def read(host: Host) -> Places:
    """Never raises: unreadable files are listed in problems."""
    texts: list[tuple[str, str]] = []
    problems: list[str] = []
    more: list[str] = []
    for pattern in (ENVIRONMENT, *_OTHERS, *_SLURM):
        for path in _visible(host, pattern, problems):
            for content in _file(host, path, problems):
                texts.append((path, content))
                named = _PROLOG if path in _SLURM else _MORE if "/systemd/" in path else None
                more += [match.group(1) for match in named.finditer(content)] if named else []
    read_already = {path for path, _text in texts}
    named_files = {path for pattern in sorted({*more}) for path in _visible(host, pattern, problems)}
    for path in sorted(named_files - read_already):
        texts += [(path, content) for content in _file(host, path, problems)]
    return Places(texts, problems)


def _is_comment(line: str) -> bool:
    """True for a comment of a shell, of systemd or of pam_env."""
    return line.lstrip().startswith(("#", ";"))


def _visible(host: Host, pattern: str, problems: list[str]) -> list[str]:
    """The files of a pattern, and vendor files that they do not hide."""
    try:
        paths = host.matching(pattern)
        if pattern.startswith(_ETC):
            vendors = host.matching(_VENDOR + pattern[len(_ETC) :])
            paths += [path for path in vendors if _own(path) not in paths]
    except HostError as error:
        problems.append(str(error))
        return []
    return paths


def _own(path: str) -> str:
    """The path in /etc of a vendor's file."""
    return _ETC + path[len(_VENDOR) :] if path.startswith(_VENDOR) else path


def _file(host: Host, path: str, problems: list[str]) -> Iterator[str]:
    try:
        content = host.content(path)
    except HostError as error:
        if error.errno != errno.EISDIR:  # A folder sets no variable
            problems.append(str(error))
        return
    if content is not None and b"\0" not in content:  # A program contains NUL bytes
        yield content.decode("utf-8", "surrogateescape")


def _assigned(line: str, name: str) -> str | None:
    """Value for a variable from a line of /etc/environment (modules/pam_env/pam_env.c: _parse_env_file)."""
    text = line.strip().partition("#")[0].rstrip()
    if text.startswith("export "):
        text = text[len("export ") :].lstrip()
    key, _equals, value = text.partition("=")
    if key != name:
        return None
    if len(value) > 1 and value[0] in "'\"" and value[-1] == value[0]:
        return value[1:-1]
    return value
