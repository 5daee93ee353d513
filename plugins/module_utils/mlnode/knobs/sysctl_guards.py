# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes that can take a node down, refused unless the operator allows them by name."""

from __future__ import annotations

import re

from ..kind import Context
from ..values import integers, same
from .sysctl_parse import node_pages

#: What can be allowed, and what each name lets through
GUARDS = {
    "hugepages": "a huge page pool over half of the free memory",
    "min_free": "vm.min_free_kbytes over 5 % of memory",
    "overcommit": "vm.overcommit_memory = 2",
    "one_way": "settings that only a reboot can undo",
}

#: admin-guide/sysctl/vm.rst: "Setting this too high will OOM your machine instantly"; vendors draw the
#: line at 5 % of memory.
_MIN_FREE_SHARE = 20

#: Once set, the kernel refuses to clear them (admin-guide/sysctl/kernel.rst)
_ONE_WAY = {
    "kernel.modules_disabled": "1",
    "kernel.kexec_load_disabled": "1",
    "kernel.unprivileged_bpf_disabled": "1",
    "kernel.yama.ptrace_scope": "3",
}


def refusal(key: str, path: str, runtime: str, target: str | None, context: Context) -> str:
    """Why a change from runtime to target is refused; empty where it is harmless or allowed."""
    if target is None or same(runtime, target):
        return ""
    guard, reason = _danger(key, path, runtime, target, context)
    if not reason or guard in context.allow:
        return ""
    return f"{reason}; to do it all the same: allow: [{guard}]"


def _danger(key: str, path: str, runtime: str, target: str, context: Context) -> tuple[str, str]:
    if key == "vm.nr_hugepages" or node_pages(key):
        return "hugepages", _hugepages(path, runtime, target, context)
    if key == "vm.min_free_kbytes":
        return "min_free", _min_free(target, context)
    if key == "vm.overcommit_memory" and same(target, "2"):
        return "overcommit", (
            "2 refuses memory beyond swap + overcommit_ratio % of RAM, which can keep root from logging in"
        )
    if key in _ONE_WAY and same(target, _ONE_WAY[key]):
        return "one_way", f"the kernel does not take {target} back before the next boot"
    return "", ""


def _min_free(target: str, context: Context) -> str:
    number = integers(target)
    limit = context.facts.memory_kbytes() // _MIN_FREE_SHARE
    if number is None or number[0] <= limit:
        return ""
    return f"{number[0]} kB is over 5 % of memory ({limit} kB) and can run the machine out of memory at once"


def _hugepages(path: str, runtime: str, target: str, context: Context) -> str:
    now, want = integers(runtime), integers(target)
    if now is None or want is None or want[0] <= now[0]:
        return ""
    size = re.search(r"hugepages-([0-9]+)kB", path)
    page_kb = int(size.group(1)) if size else context.facts.memory_kbytes("Hugepagesize")
    more, free = (want[0] - now[0]) * page_kb, _free_kbytes(path, context)
    if more <= free // 2:
        return ""
    return f"{want[0] - now[0]} more pages are {more} kB, over half of the {free} kB that are free"


def _free_kbytes(path: str, context: Context) -> int:
    node = re.match(r"(/sys/devices/system/node/node[0-9]+)/", path)
    if not node:
        return context.facts.memory_kbytes("MemFree")
    text = context.host.read(f"{node.group(1)}/meminfo")
    row = re.search(r"MemFree:\s+([0-9]+) kB", text)
    return int(row.group(1)) if row else 0
