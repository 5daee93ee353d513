# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes that can take a node down, refused unless the operator allows them."""

from __future__ import annotations

import re

from ...engine.kind import Context
from ...model.schema import unless_allowed
from ...model.values import integers, same
from .parse import node_pages

#: One twentieth: vm.rst warns that a machine with too high a value is out of memory at once. Red Hat's
#: Performance Tuning Guide (tuning virtual memory) gives 5 to 10 % of memory as the limit.
_MIN_FREE_SHARE = 20

#: Key → values that the kernel does not take back once they are set (admin-guide/sysctl/kernel.rst)
_ONE_WAY = {
    "kernel.max_rcu_stall_to_panic": "[1-9][0-9]*",  # 0, the default, is out of its range
    "kernel.modules_disabled": "1",
    "kernel.kexec_load_disabled": "1",
    "kernel.unprivileged_bpf_disabled": "1",
    # Capabilities can only be taken away (kernel/umh.c: proc_cap_handler)
    "kernel.usermodehelper.bset": ".*",
    "kernel.usermodehelper.inheritable": ".*",
    "kernel.yama.ptrace_scope": "3",
}


def refusal(key: str, path: str, runtime: str, want: str | None, context: Context) -> str:
    """Reason why a change from runtime to want is refused; empty if it is harmless or allowed."""
    if want is None or same(runtime, want):
        return ""
    if key == "vm.min_free_kbytes":
        return unless_allowed("min_free", _min_free(want, context), context.allow)
    if needs_hardware(key):
        return unless_allowed("hugepages", _hugepages(path, runtime, want, context), context.allow)
    return refusal_anywhere(key, want, context)


def needs_hardware(key: str) -> bool:
    """True for keys with a guard that depends on the machine's memory."""
    return key in ("vm.min_free_kbytes", "vm.nr_hugepages") or node_pages(key) is not None


def refusal_anywhere(key: str, want: str | None, context: Context) -> str:
    """Reason as in refusal(), for changes that are dangerous on any machine."""
    if key == "vm.overcommit_memory" and same(want or "", "2"):
        reason = (
            "2 refuses memory beyond swap + overcommit_ratio % of RAM, which can keep root from logging in"
        )
        return unless_allowed("overcommit", reason, context.allow)
    if want and re.fullmatch(_ONE_WAY.get(key, ""), want):
        reason = f"the kernel does not take {want} back before the next boot"
        return unless_allowed("one_way", reason, context.allow)
    return ""


def _min_free(want: str, context: Context) -> str:
    number = integers(want)
    limit = context.facts.memory_kbytes() // _MIN_FREE_SHARE
    if number is None or number[0] <= limit:
        return ""
    return f"{number[0]} kB is over 5 % of memory ({limit} kB) and can run the machine out of memory at once"


def _hugepages(path: str, runtime: str, want: str, context: Context) -> str:
    pages, asked = integers(runtime), integers(want)
    if pages is None or asked is None:
        return ""
    if asked[0] < pages[0]:
        return _in_use(path, pages[0], asked[0], context)
    size = re.search(r"hugepages-([0-9]+)kB", path)
    page_kb = int(size.group(1)) if size else context.facts.hugepage_kbytes()
    more, free = (asked[0] - pages[0]) * page_kb, _free_kbytes(path, context)
    if more <= free // 2:
        return ""
    return f"{asked[0] - pages[0]} more pages are {more} kB, over half of the {free} kB that are free"


def _in_use(path: str, runtime: int, want: int, context: Context) -> str:
    """Reason not to shrink a pool in use: the kernel would remove pages as soon as programs free them."""
    folder = path.rpartition("/")[0]
    if folder == "/proc/sys/vm":
        folder = f"/sys/kernel/mm/hugepages/hugepages-{context.facts.hugepage_kbytes()}kB"
    free = integers(context.host.value(f"{folder}/free_hugepages").text or "")
    reserved = integers(context.host.value(f"{folder}/resv_hugepages").text or "0")
    used = runtime - free[0] + (reserved[0] if reserved else 0) if free else 0
    if used <= want:
        return ""
    return f"{used} pages of the pool are in use or reserved, and only {want} would be left"


def _free_kbytes(path: str, context: Context) -> int:
    """Free memory, and page cache that can be reclaimed at once."""
    node = re.match(r"(/sys/devices/system/node/node[0-9]+)/", path)
    if not node:
        return context.facts.memory_kbytes("MemAvailable")
    text = context.host.read(f"{node.group(1)}/meminfo")
    rows = re.findall(r"(MemFree|Active\(file\)|Inactive\(file\)|SReclaimable):\s+([0-9]{1,20}) kB", text)
    return sum(int(number) for _name, number in rows)
