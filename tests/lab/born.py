# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine before anything of ours ran on it, and what is different now."""

from __future__ import annotations

import json
import pathlib
import re
import time
from dataclasses import dataclass

from . import guest_facts as facts
from .machine import Machine

_SOURCE = pathlib.Path(__file__).with_name("snapshot.py")

#: The kernel computes these from the memory that is free at boot, which is never twice the same to the page.
_FROM_FREE_MEMORY = re.compile(
    r"/proc/sys/(net/ipv4/(tcp_mem|udp_mem)|vm/(admin|user)_reserve_kbytes|kernel/threads-max|user/max_\w+|fs/(epoll/max_user_watches|"
    r"inotify/max_user_watches|fanotify/\w+|file-max))\Z"
)


@dataclass(frozen=True)
class Born:
    """Files with mode and digest, and kernel values, those of NICs among them."""

    files: dict[str, str]
    values: dict[str, str]

    @classmethod
    def of(cls, machine: Machine) -> Born:
        found = json.loads(machine.run("python3 -", stdin=_SOURCE.read_text()).stdout)
        nics = {
            f"{nic} {knob}": value
            for nic, knobs in facts.nics(machine).items()
            for knob, value in knobs.items()
        }
        return cls(found["files"], {**found["values"], **nics})

    def left(self, machine: Machine, apart_from: str = "\0", seconds: float = 60) -> list[str]:
        """What is still different once all has settled: after a boot, or a reset, links come up later, and
        agree on pause frames then. apart_from: how differences begin that do not count."""
        end = time.monotonic() + seconds
        while True:
            found = self.differences(Born.of(machine), rebooted=True)
            found = [words for words in found if not words.startswith(apart_from)]
            if not found or time.monotonic() > end:
                return found
            time.sleep(2)

    def differences(self, now: Born, rebooted: bool = False) -> list[str]:
        """Every difference in words. rebooted: what depends on the boot itself may be off by a little."""
        return [
            *_differences(self.files, now.files),
            *(
                words
                for words in _differences(self.values, now.values)
                if not (rebooted and _close(words.partition(":")[0], self.values, now.values))
            ),
        ]


def _differences(before: dict[str, str], now: dict[str, str]) -> list[str]:
    paths = sorted({*before, *now})
    return [
        f"{path}: {before.get(path)} -> {now.get(path)}"
        for path in paths
        if before.get(path) != now.get(path)
    ]


def _close(path: str, before: dict[str, str], now: dict[str, str]) -> bool:
    if not _FROM_FREE_MEMORY.match(path) or path not in before or path not in now:
        return False
    pairs = list(zip(before[path].split(), now[path].split(), strict=False))
    return all(abs(int(one) - int(other)) <= 0.02 * int(one) for one, other in pairs)
