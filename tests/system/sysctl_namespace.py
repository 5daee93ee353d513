# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of /proc/sys that belong to a namespace, written in a new one, and texts to write there. No value of
this machine changes: of all other keys nothing is opened for writing."""

from __future__ import annotations

import json
import pathlib
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

#: Makes the namespaces, and for keys of a namespace of users that one as well, whose only user is root
UNSHARE = ("unshare", "--net", "--ipc", "--uts")
UNSHARE_USERS = (*UNSHARE, "--user", "--map-root-user")
_OF_USERS = "user/"

#: Besides those of /proc/sys/net, which shows only what belongs to the namespace (a key that does not is
#: read-only there)
OTHERS = (
    "kernel/domainname", "kernel/hostname", "kernel/msg_next_id", "kernel/msgmax", "kernel/msgmnb",
    "kernel/msgmni", "kernel/sem", "kernel/sem_next_id", "kernel/shm_next_id", "kernel/shmall",
    "kernel/shmmax", "kernel/shmmni", "fs/mqueue/msg_default", "fs/mqueue/msg_max",
    "fs/mqueue/msgsize_default", "fs/mqueue/msgsize_max", "fs/mqueue/queues_max",
    "user/max_inotify_instances", "user/max_ipc_namespaces",
)  # fmt: skip

#: Writing is an action, or the name of an interface
_LEFT_OUT = ("/flush", "/stable_secret")

#: Reads lines of key and text, and answers with what the key shows before and after, and the error. What is
#: left of a short write is written again, as libc does.
_WRITER = """
import json, os, sys

def shown(path):
    try:
        with open(path, "rb") as stream:
            return os.fsdecode(stream.read().rstrip(b"\\n"))
    except OSError:
        return None

for line in sys.stdin:
    key, text = json.loads(line)
    path, left, error = "/proc/sys/" + key, os.fsencode(text + "\\n"), 0
    before = shown(path)
    handle = os.open(path, os.O_WRONLY)
    try:
        while left:
            left = left[os.write(handle, left):]
    except OSError as problem:
        error = problem.errno
    os.close(handle)
    print(json.dumps([before, shown(path), error]))
"""


class Written(NamedTuple):
    """A text that was written to a key, and what the kernel made of it. error: of the write, 0 for none."""

    key: str
    text: str
    before: str | None
    after: str | None
    error: int


def keys() -> list[str]:
    """The keys of a new namespace that can be written."""
    script = "find /proc/sys/net -type f -perm -u+w"
    done = subprocess.run([*UNSHARE, "sh", "-c", script], capture_output=True, text=True, check=True)
    found = [line[len("/proc/sys/") :] for line in done.stdout.splitlines() if not line.endswith(_LEFT_OUT)]
    others = [key for key in OTHERS if pathlib.Path("/proc/sys", key).exists()]
    return sorted([*found, *others])


def write(pairs: Iterable[tuple[str, str]]) -> Iterator[Written]:
    """Writes each text to its key, one after the other, in one new namespace."""
    pairs = list(pairs)
    for command, of_users in ((UNSHARE, False), (UNSHARE_USERS, True)):
        mine = [pair for pair in pairs if pair[0].startswith(_OF_USERS) is of_users]
        asked = "".join(json.dumps(pair) + "\n" for pair in mine)
        done = subprocess.run(
            [*command, sys.executable, "-c", _WRITER],
            input=asked,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        for (key, text), line in zip(mine, done.stdout.splitlines(), strict=True):
            yield Written(key, text, *json.loads(line))


# -- texts ---------------------------------------------------------------------------------

_EDGES = (
    0, 1, 2, 3, 4, 8, 20, 40, 60, 64, 100, 120, 128, 200, 255, 256, 300, 1000, 1024, 1460, 4096, 8192, 20000,
    32768, 65535, 65536, 131072, 1048576, 2147483, 2147484, 16777216, 2147483647, 2147483648, 4294967295,
    4294967296, 9223372036854775807, 9223372036854775808, 18446744073709551615, 18446744073709551616,
)  # fmt: skip
_TAILS = (
    " # comment", " ; x", " x", "x", ",", ", ", ".5", "k", " -", "\t5", " 5", "  7 8 9", "\v", "\u00a0",
    "%", "=1",
)  # fmt: skip
_WORDS = (
    "", "-", "--1", "+1", "+", "on", "yes", "true", "y", "none", "auto", "0x", "0xg", "08", "1e3", "'1'",
    '"1"', "1,2", "1-5", "5-1", "1-5,9", "1,,2", "1,2,", "1, 2", "65536", "0-65535", "cubic", "reno",
    "cubic reno", "nothing", "# 1", "ff", "f,0", "00000001-00000002-00000003-00000004", "1-2-3-4", "a" * 70,
    "ü",
)  # fmt: skip


def number(chance: random.Random, near: Sequence[int] = ()) -> str:
    """One number, in one of the spellings that people and programs use."""
    value = chance.choice((*near, *near, *_EDGES)) + chance.choice((0, 0, 0, 0, 1, -1))
    spelling = chance.choice(("{}", "{}", "{}", "{}", "0{:o}", "0x{:x}", "0X{:X}", "00{}", "{:022d}"))
    sign = "-" if value < 0 or chance.random() < 0.08 else ""
    return sign + spelling.format(abs(value))


def text(chance: random.Random, present: str) -> str:
    """A text for a key that shows `present`: mostly as many numbers, or one more or less, and mistakes."""
    if chance.random() < 0.15:
        return chance.choice(_WORDS)
    shown = present.split()
    near = [int(word) for word in shown if word.lstrip("-").isdigit()]
    count = max(1, len(shown) + chance.choice((0, 0, 0, 0, 1, -1, -2)))
    words = [number(chance, near) for _one in range(count)]
    if chance.random() < 0.05:
        words[chance.randrange(count)] = chance.choice(_WORDS)
    tail = chance.choice(_TAILS) if chance.random() < 0.25 else ""
    return chance.choice((" ", " ", "\t", "  ")).join(words) + tail
