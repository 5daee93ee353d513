# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that a process of a job sees: kernel values of its namespaces, its environment, and files and space
in its mount namespace.

Each function is work for a child of host/child.py. Its owner may be hostile: it mounts any file system,
fills its environment, and ends at any moment.
"""

from __future__ import annotations

import errno
import json
import re
from contextlib import contextmanager, nullcontext
from typing import Callable, Iterator, Mapping, Sequence

from ..host import child, mountinfo, namespaces
from ..host.child import Answer, Work
from ..host.host import Host
from ..host.mountinfo import Mount
from ..model import accelerators
from ..model.errors import HostError, printable
from ..model.record import NamedTuple, regex
from ..model.setting import Value
from . import jobs
from .job_processes import JobProcess, runs

#: Seconds for one work, and for all of them. Each of these reads takes less than a millisecond; a busy
#: machine may let a child wait for a CPU.
_EACH, _TOTAL = 2.0, 10.0

#: File systems of this kernel alone: a read of them ends
LOCAL = (
    "tmpfs", "devtmpfs", "ramfs", "rootfs", "ext2", "ext3", "ext4", "xfs", "btrfs", "bcachefs", "overlay",
    "squashfs", "erofs", "zfs", "f2fs",
)  # fmt: skip
#: A SIGKILL ends a wait for their server (nfs(5): intr)
_KILLABLE = ("nfs", "nfs4")

#: execve(2) takes as much for arguments and environment: three quarters of _STK_LIM (fs/exec.c:
#: bprm_stack_limits). prctl(2) can show more, which no program reads.
_MOST_ENVIRONMENT = 6 << 20
#: A mount takes some 150 bytes, and a namespace may have 100,000 (fs.mount-max). Containers have under 100.
_MOST_MOUNTS = 1 << 20
#: NCCL reads lines of 1 KiB; a file with all its variables has 30 KiB
MOST_FILE = 1 << 16
_SECONDS = 1.0

_INTERFACE = regex(r"^\s*([^\s:]{1,15}):", 0)


def ask(host: Host, works: Sequence[Work]) -> list[Answer]:
    """The answers of works, in a child if this is a machine. Raises HostError."""
    if not works:
        return []
    return child.answers(works, _EACH, _TOTAL) if host.live else [*map(child.direct, works)]


@contextmanager
def _of(host: Host, process: JobProcess) -> Iterator[None]:
    """Reads whose values and errors count only if the process still runs after them. Raises HostError."""
    try:
        yield
    finally:
        if not runs(host, process):
            raise jobs.gone(f"/proc/{process.pid}")


def is_gone(answer: Answer) -> bool:
    """True if the process of a work has ended."""
    return answer.errno == errno.ESRCH


# -- kernel values -------------------------------------------------------------------------


class Network(NamedTuple):
    """values: path → value. nics: names of the interfaces; None if unknown."""

    values: Mapping[str, Value]
    nics: tuple[str, ...] | None


#: Types of namespaces with kernel values. A work enters them all, because the work before it was elsewhere
TYPES = ("net", "ipc", "uts")


def network(host: Host, process: JobProcess, paths: Sequence[str]) -> Work:
    """Work: kernel values of the namespaces of a process."""

    def work() -> object:
        if not host.live:
            raise HostError("enter", f"/proc/{process.pid}/ns", None, f"{host.root} is a captured tree")
        with _of(host, process):
            namespaces.enter(process.pid, TYPES)
        own = network_here(host, paths)
        return [{path: list(value) for path, value in own.values.items()}, own.nics]

    return work


def network_here(host: Host, paths: Sequence[str]) -> Network:
    """Kernel values of this process's own namespaces."""
    return Network({path: host.value(path) for path in paths}, tuple(_interfaces(host)))


def _interfaces(host: Host) -> Iterator[str]:
    """Names of interfaces. /sys/class/net shows the namespace that sysfs was mounted in."""
    for line in host.text("/proc/self/net/dev").split("\n"):
        match = _INTERFACE.match(line)
        if match:
            yield match.group(1)


def network_of(answer: Answer, paths: Sequence[str]) -> Network:
    if answer.unknown:
        return Network({path: Value(unreadable=answer.unknown) for path in paths}, None)
    values, nics = answer.value
    return Network({path: Value(*fields) for path, fields in values.items()}, tuple(nics))


# -- environment ---------------------------------------------------------------------------


class Environment(NamedTuple):
    """variables: name → value of the known ones; None for a value that was left out. unknown: why some may be
    missing."""

    variables: Mapping[str, str | None]
    unknown: str = ""


#: For a name: None to leave the variable out, False for the name alone, True for the value as well
Known = Callable[[str], "bool | None"]
#: Characters of all variables of one look, as JSON: a quarter of the answer that a controller takes, as each
#: value may be repeated in findings. The share of one process is at most 64 KiB.
_MOST_VARIABLES, _PART = 1 << 22, 64
#: NCCL, the strictest reader, cuts a line there (src/misc/param.cc: setEnvFile)
_MOST_VALUE = 1024
#: A program that sets its title writes it over its arguments and its environment, and zeros behind it
#: (setproctitle of Python: SPT_NOENV; vLLM, SGLang and Ray use it)
OVERWRITTEN = "the program has written its title over it; SPT_NOENV=1 keeps it from that, if it is in Python"


def is_overwritten(entries: Sequence[bytes]) -> bool:
    """entries: of an environ file, between its zeros. execve(2) puts one variable behind the other."""
    return b"" in entries[:-1]


def environments(host: Host, processes: Sequence[JobProcess], known: Known) -> list[Work]:
    """Works: the environments that processes were started with. A name counts at its first place (getenv(3)).
    So many variables are taken that all of them fit into an answer."""
    most = _MOST_VARIABLES // max(_PART, len(processes))
    return [_environment(host, process, known, most) for process in processes]


def _environment(host: Host, process: JobProcess, known: Known, most: int) -> Work:

    def work() -> object:
        path = f"/proc/{process.pid}/environ"
        with _of(host, process):
            content, whole = host.beginning(path, _MOST_ENVIRONMENT, _SECONDS)
        entries = content.split(b"\0")
        if is_overwritten(entries):
            return [{}, OVERWRITTEN]
        variables: dict[str, str | None] = {}
        size = 0
        for entry in entries if whole else entries[:-1]:
            name, equals, value = entry.partition(b"=")
            word = name.decode("ascii", "replace") if equals and len(name) < 80 else ""
            shown = known(word) if word and word not in variables else None
            if shown is None:
                continue
            text = value[: _MOST_VALUE + 1].decode("utf-8", "surrogateescape") if shown else None
            size += len(json.dumps({word: text}))
            if size > most:
                return [variables, f"its known variables have more than {most} characters"]
            variables[word] = text
        return [variables, "" if whole else f"only {_MOST_ENVIRONMENT} bytes were read"]

    return work


def environment_of(answer: Answer) -> Environment:
    if answer.unknown:
        return Environment({}, answer.unknown)
    return Environment(*answer.value)


# -- the mount namespace -------------------------------------------------------------------


class Storage(NamedTuple):
    """kind: file system of /dev/shm. size, free: bytes; size 0 is unlimited."""

    kind: str
    size: int
    free: int


@contextmanager
def _seen(host: Host, process: JobProcess) -> Iterator[tuple[Sequence[Mount], int]]:
    """Mounts of a process, and a handle of its root. Its end may take the mounts from the root. Raises
    HostError."""
    with _of(host, process):
        mounts = _mounts(host, process)
        with namespaces.root_at(host.real(f"/proc/{process.pid}/root")) as root:
            yield mounts, root


def files(host: Host, process: JobProcess, paths: Sequence[str]) -> Work:
    """Work: small files as a process sees them, with the rights of its user."""

    def work() -> object:
        as_user = namespaces.as_user(process.ids) if host.live else nullcontext()
        with _seen(host, process) as (mounts, root), as_user:
            return [list(_file(mounts, root, path)) for path in paths]

    return work


def _file(mounts: Sequence[Mount], root: int, path: str, most: int = MOST_FILE) -> Value:
    if not path.startswith("/"):
        return Value(unreadable=f"{path} is relative to the folder of the process, which may have changed")
    try:
        _touchable(mounts, path)
        return Value(text=namespaces.read(root, path, most).decode("utf-8", "surrogateescape"))
    except HostError as error:
        if error.absent:
            return Value(absent=f"{path} does not exist there")
        return Value(unreadable=str(error))


def files_of(answer: Answer, paths: Sequence[str]) -> list[Value]:
    if answer.unknown:
        return [Value(unreadable=answer.unknown) for _path in paths]
    return [Value(*fields) for fields in answer.value]


def storage(host: Host, process: JobProcess, path: str) -> Work:
    """Work: the file system of a folder as a process sees it."""

    def work() -> object:
        with _seen(host, process) as (mounts, root):
            return [_touchable(mounts, path), *namespaces.space(root, path)]

    return work


#: Device files that a job computes with: accelerators, whole devices, RDMA
_DEVICES = regex(
    rf"/dev/(?:{'|'.join(accelerators.EACH)}|{jobs.VFIO}|infiniband/uverbs[0-9]{{1,5}})\Z", re.ASCII
)
_DEVICE_FOLDERS = (*accelerators.FOLDERS, "/dev/vfio", "/dev/vfio/devices", "/dev/infiniband")
#: A storage server with 1,000 disks and 16 partitions on each has as many
_MOST_NAMES = 1 << 14


def devices(host: Host, process: JobProcess) -> Work:
    """Work: device files of GPUs and RDMA as a process sees them."""

    def work() -> object:
        numbers = {}
        with _seen(host, process) as (mounts, root):
            for folder in _DEVICE_FOLDERS:
                for path in filter(_DEVICES.match, _paths(mounts, root, folder)):
                    _touchable(mounts, path)
                    numbers[path] = namespaces.device(root, path)
        return {path: number for path, number in numbers.items() if number}

    return work


def _paths(mounts: Sequence[Mount], root: int, folder: str) -> list[str]:
    try:
        _touchable(mounts, folder)
        return [f"{folder}/{name}" for name in namespaces.names(root, folder, _MOST_NAMES)]
    except HostError as error:
        if error.absent:
            return []
        raise


def devices_of(answer: Answer) -> Mapping[str, str] | str:
    """Path → MAJOR:MINOR, or why they are not known."""
    return answer.unknown or dict(answer.value)


def _mounts(host: Host, process: JobProcess) -> Sequence[Mount]:
    """The mounts that a process sees, read once for all works of a child."""
    return host.once(f"mounts of {process.pid} since {process.started}", lambda: _mounts_read(host, process))


def _mounts_read(host: Host, process: JobProcess) -> list[Mount]:
    path = f"/proc/{process.pid}/mountinfo"
    content, whole = host.beginning(path, _MOST_MOUNTS, _SECONDS)
    if not whole:
        raise HostError("read", path, None, f"expected at most {_MOST_MOUNTS} bytes, got more")
    return [*mountinfo.parse(content.decode("utf-8", "surrogateescape"))]


def _touchable(mounts: Sequence[Mount], path: str) -> str:
    """Kind of the file system of a path. Raises HostError if a read of it, or of a folder above it, may not
    end: a program answers for FUSE, and a user can be that program."""
    above = path.split("/")
    folders = ["/", *("/".join(above[: number + 1]) for number in range(1, len(above)))]
    kind = ""
    for folder in folders:
        mount = mountinfo.carrying(mounts, folder)
        kind = mount.kind if mount is not None else ""
        if kind not in (*LOCAL, *_KILLABLE):
            words = f"its file system is {printable(kind)}, which is not touched" if kind else _NO_MOUNT
            raise HostError("read", path, None, words)
    return kind


_NO_MOUNT = "its root is a folder inside a file system (chroot), so its mounts are not known"


# -- the home folder -----------------------------------------------------------------------

PASSWD = "/etc/passwd"
#: Tens of thousands of users, of sites that copy it to all nodes
_MOST_PASSWD = 4 << 20


def account_home(host: Host, process: JobProcess) -> Work:
    """Work: home folder of the account of a process, by the /etc/passwd that it sees."""

    def work() -> object:
        as_user = namespaces.as_user(process.ids) if host.live else nullcontext()
        with _seen(host, process) as (mounts, root), as_user:
            passwd = _file(mounts, root, PASSWD, _MOST_PASSWD)
            user = inner_user(host, process)
        if passwd.text is None:
            return list(passwd)
        folder = None if user is None else home(passwd.text, user)
        return list(Value(absent=f"{PASSWD} does not have its user") if folder is None else Value(folder))

    return work


def account_home_of(answer: Answer) -> Value:
    return Value(unreadable=answer.unknown) if answer.unknown else Value(*answer.value)


def inner_user(host: Host, process: JobProcess) -> int | None:
    """User id inside the user namespace of a process, as getuid(2) gives it there; None if it has none.
    Raises HostError."""
    for line in host.read(f"/proc/{process.pid}/uid_map").split("\n"):
        words = line.split()
        if len(words) == 3 and all(word.isascii() and word.isdigit() for word in words):
            inner, outer, count = map(int, words)
            if outer <= process.ids.user < outer + count:
                return inner + process.ids.user - outer
    return None


def home(passwd: str, user: int) -> str | None:
    """Home folder of a user in the text of /etc/passwd."""
    for line in passwd.split("\n"):
        fields = line.split(":")
        if len(fields) == 7 and fields[2] == str(user) and fields[5].startswith("/"):
            return fields[5]
    return None
