# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Script: changes keys of /proc/sys here, and prints the files of new namespaces, as JSON: key → Seen.

Standard library only, as machines of the lab run it. Standard input is a list of the beginnings of the keys
to change, as JSON. Other keys are read only. All values are restored.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Optional

TOP = "/proc/sys/"
#: These move other keys of later namespaces (tcp_set_hashinfo() in net/ipv4/tcp_ipv4.c, net/ipv4/devinet.c),
#: or cannot be set back (net/netfilter/nf_hooks_lwtunnel.c)
_NEVER_CHANGED = (
    *("net/core/devconf_inherit_init_net", "net/ipv4/tcp_child_ehash_entries"),
    "net/netfilter/nf_hooks_lwtunnel",
)

#: As a container has them, and one of users for its keys
UNSHARE = ("unshare", "--net", "--ipc", "--uts", "--pid", "--fork")
UNSHARE_USERS = (*UNSHARE, "--user", "--map-root-user")

#: Writing is an action, or reading takes part in one
_LEFT_OUT = ("/flush", "/stable_secret", "vm/stat_refresh", "vm/drop_caches", "vm/compact_memory")

#: Other values of keys that take no plain numbers
_WORDS = {
    "kernel/domainname": ("changed.example",),
    "kernel/hostname": ("changed",),
    "net/ipv4/ip_local_reserved_ports": ("20048-20049", "29400"),
    "net/ipv4/tcp_fastopen_key": ("1-2-3-4",),
    "net/ipv6/icmp/ratemask": ("0-1", "0-2"),
}

#: Prints the files of its namespaces for each line of its input
_READER = "import sys; sys.path.insert(0, {folder!r}); import {name} as probe; probe.serve()"


class File(NamedTuple):
    """writable: by its mode. text: None if it cannot be read."""

    writable: bool
    text: Optional[str]  # noqa: UP045 -- evaluated by NamedTuple on Python 3.9


class Seen(NamedTuple):
    """The files of one key: here at first and after the change, and in namespaces that were made before it
    (`fresh`) and after it (`later`), and in the latter once the value here was restored. None: no file.
    is_changed: a key took another value; others move by themselves."""

    is_changed: bool
    before: File
    changed: File
    fresh: Optional[File]  # noqa: UP045 -- evaluated by NamedTuple on Python 3.9
    later: Optional[File]  # noqa: UP045 -- evaluated by NamedTuple on Python 3.9
    restored: Optional[File]  # noqa: UP045 -- evaluated by NamedTuple on Python 3.9


def files() -> dict[str, File]:
    """Key with slashes → its file as this process sees it."""
    found = {}
    for folder, _folders, names in os.walk(TOP):
        for name in names:
            path = os.path.join(folder, name)
            if not path.endswith(_LEFT_OUT):
                found[path[len(TOP) :]] = _file(path)
    return found


def _file(path: str) -> File:
    writable = bool(os.stat(path).st_mode & stat.S_IWUSR)
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return File(writable, " ".join(stream.read().split()))
    except OSError:
        return File(writable, None)


def serve() -> None:
    for _line in sys.stdin:
        print(json.dumps(files()), flush=True)


class Inside:
    """A process in new namespaces."""

    def __init__(self, command: tuple[str, ...]) -> None:
        script = _READER.format(folder=os.path.dirname(os.path.abspath(__file__)), name="sysctl_reach_probe")
        self._process = subprocess.Popen(
            [*command, sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def files(self) -> dict[str, File]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return {key: File(*file) for key, file in json.loads(self._process.stdout.readline()).items()}

    def close(self) -> None:
        self._process.communicate()


class Container:
    """Two processes: the second one has a namespace of users as well, and its keys are asked there."""

    def __init__(self) -> None:
        self._inside = (Inside(UNSHARE), Inside(UNSHARE_USERS))

    def files(self) -> dict[str, File]:
        plain, users = (inside.files() for inside in self._inside)
        return {**plain, **{key: file for key, file in users.items() if key.startswith("user/")}}

    def close(self) -> None:
        for inside in self._inside:
            inside.close()


def _candidates(key: str, text: str) -> Iterable[str]:
    """Other texts that the key may take, with the same count of numbers."""
    if key == "net/ipv4/tcp_congestion_control":
        with open(f"{TOP}net/ipv4/tcp_available_congestion_control", encoding="ascii") as stream:
            yield from stream.read().split()
    yield from _WORDS.get(key, ())
    numbers = text.split()
    if numbers and all(number.lstrip("-").isdigit() for number in numbers):
        for step in (1, -1, 2, -2, 64, 1000, 4096, -1000, int(numbers[-1])):
            yield " ".join([*numbers[:-1], str(int(numbers[-1]) + step)])
            yield " ".join([str(int(numbers[0]) + step), *numbers[1:]])


def _write(key: str, text: str) -> bool:
    try:
        with open(TOP + key, "w", encoding="utf-8") as stream:
            stream.write(f"{text}\n")
        return True
    except OSError:
        return False


def _change(key: str, before: File, fresh: File | None) -> bool:
    """Give a key a value that is neither the one here nor that of a new namespace. False if it takes none."""
    if not before.writable or before.text is None:
        return False
    known = _known(before, fresh)
    for text in _candidates(key, before.text):
        if text not in known and _write(key, text) and _file(TOP + key).text not in known:
            return True
    _write(key, before.text)
    return False


def _known(before: File, fresh: File | None) -> set[str | None]:
    return {before.text, fresh.text if fresh else None}


def probe(beginnings: Iterable[str]) -> Mapping[str, Seen]:
    before = files()
    keys = [key for key in before if key.startswith((*beginnings,)) and key not in _NEVER_CHANGED]
    first = Container()
    fresh = first.files()
    first.close()
    try:
        taken = {key for key in keys if _change(key, before[key], fresh.get(key))}
        changed = files()
        second = Container()
        later = second.files()
    finally:
        for key in reversed(keys):
            _write(key, before[key].text or "")
    restored = second.files()
    second.close()
    # A later key may have moved one back: forwarding sets redirects
    kept = {key for key in taken if changed[key].text not in _known(before[key], fresh.get(key))}
    return {
        key: Seen(
            key in kept, file, changed.get(key, file), fresh.get(key), later.get(key), restored.get(key)
        )
        for key, file in before.items()
    }


if __name__ == "__main__":
    json.dump(probe(json.load(sys.stdin)), sys.stdout)
