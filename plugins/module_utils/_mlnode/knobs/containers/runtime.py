# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A container runtime with defaults for new containers: the interface of podman, docker, crio, containerd and
kubelet."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Iterable, Mapping, Sequence

from ...host.host import Host
from ...linux import daemons, drop_ins, kubelets, systemd_conf
from ...linux.sysctl_d import Line
from ...model.errors import HostError
from ...model.record import NamedTuple, regex
from ...model.setting import BootFile
from ..limits import floors as limits_floors
from ..limits import parse as limits_parse
from ..limits.parse import UNLIMITED, Amount
from ..limits.units import Service
from .parse import Values

#: Name of mlnode's files in folders of drop-ins. It sorts after the usual names, and the last file counts
FILE = "zz-mlnode-"

#: Daemons that read their files when they start
PROCESSES = ("dockerd", "crio", "kubelet")

_BINARIES = ("/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/libexec/crio", "/usr/local/sbin")
_SIZE = regex(r"([0-9]{1,19}(?:\.[0-9]{1,9})?) ?([KMGTP])?i?b?\Z", re.ASCII | re.IGNORECASE)
_VERSION = regex(r"\bv?([0-9]{1,3})\.([0-9]{1,4})\b", re.ASCII)
#: go-units, ulimit.go: ulimitNameMapping
ULIMIT_NAMES = (
    *("core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice"),
    *("nofile", "nproc", "rss", "rtprio", "rttime", "sigpending", "stack"),
)
_ULIMIT = regex(r"(-?[0-9]{1,19})(?::(-?[0-9]{1,19}))?\Z")


class Given(NamedTuple):
    """State of one topic in the files of a runtime.

    now: values of all its files. others: values of others that mlnode's file repeats, as a list replaces the
    previous one. where: the place of the last list. beaten: the place of a line that is read after mlnode's
    and takes values from it; empty if none does. own: values of mlnode's own file. note: a remark on these.
    """

    now: Values
    others: Values
    where: str = ""
    beaten: str = ""
    own: Values = {}
    note: str = ""


class Runtime(ABC):
    """path: the file that mlnode writes, with NAME for the declaration. process: its daemon; empty if a new
    process reads the files for each container. unit: the daemon's unit. parents: units from which containers
    inherit limits; the first that is installed counts. usual: limits that it gives by itself. lacks: topic →
    why it has no default for that, and the remedy. bundles: other units that contain such a runtime, with
    their own configuration → the remedy."""

    name: str
    path: str
    program: str
    unit = ""
    process = ""
    parents: Sequence[str] = ()
    usual: Values = {}
    lacks: Mapping[str, str] = {}
    bundles: Mapping[str, str] = {}
    restart = ""

    def installed(self, host: Host) -> bool:
        """Raises HostError."""
        return host.once(f"containers.{self.name}", lambda: self.look_for(host), of_files=True)

    def look_for(self, host: Host) -> bool:
        """As installed(). Raises HostError."""
        if self.unit and systemd_conf.fragment(host, self.unit):
            return True
        return any(host.exists(f"{folder}/{self.program}") for folder in _BINARIES)

    def elsewhere(self, host: Host) -> str:
        """The unit that contains such a runtime, which mlnode does not configure, and the remedy; empty
        without one. Raises HostError."""
        units = [unit for unit in self.bundles if systemd_conf.fragment(host, unit)]
        return f"{units[0]} contains it: {self.bundles[units[0]]}" if units else ""

    def file(self, name: str) -> str:
        return self.path.replace("NAME", name)

    def obstacle(self, host: Host, topic: str) -> str:
        """Why its files are not mlnode's to write; empty if they are. Raises HostError."""
        return self.unread(host, topic)

    def unread(self, host: Host, topic: str) -> str:
        """Why the runtime does not read mlnode's file, or does not start with it; empty if it does. Raises
        HostError."""
        if is_followed(host, self.path):
            return ""
        folder = self.path.rpartition("/")[0]
        return f"{folder} is a link, and {self.program} does not follow it: make it a folder"

    def flag(self, host: Host, topic: str) -> str:
        """The place of an argument of the daemon that overrides its files; empty without one. Raises
        HostError."""
        return ""

    def without(self, host: Host, live: bool) -> Values:
        """Limits of a container without a default, as far as they are known. live: as for of_service().
        Raises HostError."""
        unit = next((unit for unit in self.parents if systemd_conf.fragment(host, unit)), "")
        amounts = {
            name: limits_floors.of_service(host, limit, Service((unit,), ""), live)
            for name, limit in (limits_parse.LIMITS.items() if unit else ())
        }
        known = {name: str(amount) for name, amount in amounts.items() if limits_floors.is_known(amount)}
        return {**known, **self.usual}

    def wanted(self, host: Host, values: Values) -> Values:
        """The values as this version can have them. Raises HostError."""
        return values

    def limit(self, want: Values) -> str:
        """Why a container does not have these values by itself; empty if it does. want: from wanted()."""
        return ""

    @abstractmethod
    def given(self, host: Host, topic: str, name: str, want: Values) -> Given:
        """name: of the declaration. Raises HostError."""

    @abstractmethod
    def files(self, host: Host, name: str, wants: Mapping[str, Values]) -> list[BootFile]:
        """The files of a declaration with these values by topic. Raises HostError."""

    def read_files(self, host: Host) -> Sequence[str]:
        """All files that its daemon reads at its start. Raises HostError."""
        return ()

    def folder(self, host: Host) -> str:
        """The folder with its drop-ins, of which one may have been removed since its start; empty if it has
        none. Raises HostError."""
        return ""

    def sources(self, host: Host, topic: str) -> list[str]:
        """`path:line: text` of all places that set a topic, in the order of reading. Raises HostError."""
        return []


def arguments(host: Host, unit: str) -> list[Line]:
    """All lines with arguments of a daemon; empty if there is no such unit. Raises HostError."""
    return kubelets.arguments(host, unit)[1] if systemd_conf.fragment(host, unit) else []


def argument(lines: Iterable[Line], *flags: str) -> tuple[str, str]:
    """Value and place of the last of these flags, or variables in capitals; two empty texts without one."""
    last = "", ""
    names = "|".join(flag if flag.isupper() else f"--?{flag}" for flag in flags)
    pattern = regex(rf"(?:^|[\s\"'=])(?:{names})(?![\w-])(?:[= ]+[\"']?([^\s\"']*))?")
    for line in lines:
        for match in pattern.finditer(line.value or ""):
            last = match.group(1) or "", line.where
    return last


def is_followed(host: Host, path: str) -> bool:
    """False for a file in a folder that is a link: Go does not walk through one (path/filepath: WalkDir)."""
    return not host.is_link(path.rpartition("/")[0])


def walked(host: Host, folder: str) -> list[str]:
    """All files of a folder, and of the folders in it, in the order of their names, as CRI-O and the kubelet
    read them (CRI-O, pkg/config/config.go: UpdateFromPath; Kubernetes, cmd/kubelet/app/server.go). A folder
    that is a link is not followed."""
    files: list[str] = []
    for name in sorted(host.names(folder)) if not host.is_link(folder) else ():
        path = f"{folder}/{name}"
        if host.is_file(path) or host.is_link(path):
            files.append(path)
        else:
            files += walked(host, path)
    return files


def text_of(host: Host, path: str) -> str:
    """A file's content; empty for a folder and for a link to /dev/null. Raises HostError, also for a link
    that leads to no file, and for other bytes than UTF-8: no engine starts with these."""
    followed = host.is_link(path) and not drop_ins.is_masked(host, path)
    text = host.read(path) if followed else drop_ins.text(host, path)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        words = f"line {text.count(chr(10), 0, error.start) + 1}: expected UTF-8; correct it first"
        raise HostError("understand", path, None, words) from error
    return text


def version(host: Host, program: str) -> tuple[int, int]:
    """Raises HostError if the program does not tell its version."""

    def ask() -> tuple[int, int]:
        said = host.must_run([program, "--version"], "read the version of")
        match = _VERSION.search(said)
        if match is None:
            raise HostError("understand", f"{program} --version", None, f"it says {said[:80]!r}")
        return int(match[1]), int(match[2])

    return host.once(f"{program} version", ask)


def waits(host: Host, runtime: Runtime) -> tuple[bool, str]:
    """Whether its daemon runs, and the file or folder that was changed since its start; empty if none was.
    Raises HostError."""
    if not runtime.process:
        return False, ""
    running = host.once("containers.daemons", lambda: daemons.running(host, PROCESSES))
    if running.none:
        return False, ""
    if running.hidden:
        raise HostError("look for", runtime.process, None, f"some processes are hidden: {running.hidden}")
    pids = [daemon.pid for daemon in running.named(runtime.process)]
    # A daemon of the same name may run in a container, and read files there.
    own = [pid for pid in pids if daemons.belongs(host, pid, (runtime.unit,))]
    starts = [daemons.started(host, pid) for pid in own or pids]
    known = [start for start in starts if start is not None]
    if not known:
        return False, ""
    for path in filter(None, (*runtime.read_files(host), runtime.folder(host))):
        changed = host.changed(path)
        if changed is not None and changed >= min(known):
            return True, path
    return True, ""


# -- sizes as runtimes read them (go-units, parseSize) ------------------------------------------------


def size_of(text: str, factor: int) -> str:
    """Bytes of a size; the text itself if it is not one. factor: of a unit; `i` makes no difference."""
    match = _SIZE.match(text)
    if match is None:
        return text
    return str(int(_number(match[1]) * factor ** " KMGTP".index((match[2] or " ").upper())))


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)


def in_units(number: int, units: Sequence[str] = ("g", "m", "k")) -> str:
    """Bytes with the greatest unit that divides them. units: of 2^30, 2^20 and 2^10 bytes."""
    for unit, shift in zip(units, (30, 20, 10)):
        if number % (1 << shift) == 0:
            return f"{number >> shift}{unit}"
    return str(number)


# -- ulimits as runtimes write them: name=SOFT:HARD, with -1 for no limit (go-units, ParseUlimit) -------


def is_amount(text: str) -> bool:
    match = _ULIMIT.match(text)
    if match is None:
        return False
    soft, hard = int(match[1]), int(match[2] or match[1])
    # Go reads int64.
    return all(-1 <= number < 1 << 63 for number in (soft, hard)) and (hard == -1 or -1 < soft <= hard)


def amount_of(text: str) -> str:
    """The amount of `1024:2048` as limits are declared; the text itself if it is not of that form."""
    match = _ULIMIT.match(text)
    if match is None:
        return text
    soft, hard = (None if int(word) < 0 else int(word) for word in (match[1], match[2] or match[1]))
    return str(Amount(soft, hard))


def numbers_of(text: str) -> tuple[int, int]:
    """Soft and hard limit of a declared amount, -1 for no limit."""
    words = [-1 if word == UNLIMITED else int(word) for word in text.split(":")]
    return words[0], words[-1]
