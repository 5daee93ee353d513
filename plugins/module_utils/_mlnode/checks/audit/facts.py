# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts about new kernels: reserved memory, and settings that they drop or refuse without a log message."""

from __future__ import annotations

import re
from typing import Optional, Tuple

from ...engine.kind import Facts
from ...host.host import Host
from ...knobs.sysctl.parse import path_of
from ...linux import sysctl_d
from ...model import values
from ...model.errors import HostError
from ...model.setting import Severity
from ...topology.model import Topology
from ..model import Check, content
from .model import Looks, topic

_CMDLINE = "/proc/cmdline"

KHO = topic(
    "kexec_handover",
    Severity.HIGH,
    "memory kept for the next kernel cannot be pinned: ibv_reg_mr fails with ENOMEM when the rest is full",
    "admin-guide/mm/kho.rst; NVIDIA, NV-Kernels pull request 591",
    "boot with kho=off, unless kexec hands something over on this node",
    "/proc/meminfo",
)
SIZES = topic(
    "hugepage_sizes",
    Severity.MEDIUM,
    "the kernel drops a size that it does not have, and the pages after it, and programs find no pool",
    "kernel-parameters.txt (hugepagesz); arch/arm64/hugetlbpage.rst",
    "name a size that this kernel has; arm64 with pages of 64 KiB has 2 MiB, 512 MiB and 16 GiB, no 1 GiB",
    _CMDLINE,
)
PREEMPT = topic(
    "preempt",
    Severity.LOW,
    "the kernel refuses the word, and preempts by its default: threads that spin on locks may lose time",
    "kernel-parameters.txt (preempt); kernel/Kconfig.preempt of 7.0",
    "remove it from the command line; kernel 7.0 offers full and lazy on x86 and arm64",
    _CMDLINE,
)
NAMES_GONE = topic(
    "scheduler_names",
    Severity.LOW,
    "files set them for nothing: they went to debugfs in 5.13, and most of them with EEVDF in 6.6",
    "kernel/sched/debug.c; scheduler/sched-eevdf.rst",
    source="/etc/sysctl.d",
)
NAPI = topic(
    "napi_settings",
    Severity.LOW,
    "since 6.13 each NAPI instance may have other values than its interface's files in sysfs show",
    "networking/napi.rst; netlink/specs/netdev.yaml",
    source="/sys/class/net",
)

_PREEMPT = "/sys/kernel/debug/sched/preempt"
_POOLS = "/sys/kernel/mm/hugepages"
_RDMA = "/sys/class/infiniband"
#: Kexec handover exists since 6.16, and a kernel may enable it by default
#: (CONFIG_KEXEC_HANDOVER_ENABLE_DEFAULT)
_KHO_SINCE = (6, 16)
_Version = Optional[Tuple[int, int]]
#: CFS settings, until 5.13 below /proc/sys/kernel
_CFS = (
    "sched_latency_ns",
    "sched_min_granularity_ns",
    "sched_wakeup_granularity_ns",
    "sched_migration_cost_ns",
    "sched_nr_migrate",
    "sched_tunable_scaling",
    "sched_child_runs_first",
)


def _switch(word: str) -> bool | None:
    """Boolean as kstrtobool() parses it: by the first letter, for `on` and `off` by the second; else None."""
    beginning = word[:2].lower()
    for value, beginnings in ((True, ("y", "t", "1", "on")), (False, ("n", "f", "0", "of"))):
        if beginning.startswith(beginnings):
            return value
    return None


def _kho(host: Host, _topology: Topology) -> Check:
    """Check of kexec handover, from the memory of CMA.

    Scratch memory counts as free CMA memory without belonging to a CMA area, so more memory may be free than
    exists. Movable pages in it hide this.
    """
    facts, version = Facts(host), _version(host)
    given = facts.command_line("kho") if host.value(_CMDLINE).text is not None else []
    try:
        total, free = facts.memory_kbytes("CmaTotal"), facts.memory_kbytes("CmaFree")
    except HostError as error:
        if error.errno is not None:
            raise
        return KHO.skip("this kernel has no CMA, which the scratch memory would be a part of")
    kept = f"CmaFree {free} kB, CmaTotal {total} kB"
    if free <= total:
        switched_on = _switch(given[-1]) if given else None
        if (version is not None and version < _KHO_SINCE) or switched_on is False:
            return KHO.judged(True, f"none: {kept}", expected="no scratch memory")
        if switched_on:
            return KHO.unknown(f"on by the command line, and used memory hides it: {kept}")
        return KHO.skip(f"not visible, and used memory may hide it: {kept}")
    evidence = f"{(free - total) / (1 << 20):.2f} GiB at least: {kept}"
    if not host.names(_RDMA):
        return KHO.skip(f"{evidence}; no RDMA device is here that would need it")
    return KHO.judged(False, evidence, expected="no scratch memory")


def _version(host: Host) -> _Version:
    return values.kernel_version(Facts(host).kernel_release())


def _asked(host: Host, name: str) -> list[str]:
    """Values of a parameter. Raises Nothing, HostError."""
    content(host, _CMDLINE)
    return Facts(host).command_line(name)


def _sizes(host: Host, _topology: Topology) -> Check:
    asked = [size for name in ("hugepagesz", "default_hugepagesz") for size in _asked(host, name)]
    known = [int(name[10:-2]) for name in host.names(_POOLS) if re.match(r"hugepages-[0-9]{1,10}kB\Z", name)]
    if not asked:
        return SIZES.skip("the command line names none")
    wrong = [text for text in asked if (values.memparse(text) or 0) >> 10 not in known]
    here = ", ".join(f"{size} kB" for size in sorted(known)) or "none"
    evidence = ", ".join(f"hugepagesz={text}" for text in wrong or asked)
    return SIZES.judged(not wrong, evidence, expected=f"of {here}")


def _preempt(host: Host, _topology: Topology) -> Check:
    """The requested preemption, compared with debugfs, or else with the kernel version's choices."""
    asked, version = _asked(host, "preempt"), _version(host)
    if not asked:
        return PREEMPT.skip("not on the command line")
    shown = host.value(_PREEMPT)
    if shown.text is not None:
        offered = [word.strip("()") for word in shown.text.split()]
        expected = f"one of {', '.join(offered)}"
        return PREEMPT.judged(asked[-1] in offered, asked[-1], source=_PREEMPT, expected=expected)
    if version is None or version < (7, 0):
        return PREEMPT.skip(f"{asked[-1]}; {_PREEMPT} does not show what this kernel has")
    good = asked[-1] in ("full", "lazy")
    return PREEMPT.judged(good, asked[-1], expected="full or lazy, since 7.0")


def _scheduler(host: Host, _topology: Topology) -> Check:
    """Reported only: settings that this kernel does not know are neither right nor wrong."""
    config = sysctl_d.load(host)
    lines = [config.winner(f"kernel/{name}") for name in _CFS if not host.exists(path_of(f"kernel.{name}"))]
    dead = [line for line in lines if line is not None and line.value is not None and not line.is_glob]
    if not dead:
        return NAMES_GONE.skip("no file sets a name that this kernel does not have")
    settings = ", ".join(f"{line.key.replace('/', '.')} ({line.where})" for line in dead)
    return NAMES_GONE.skip(f"unknown to this kernel: {settings}")


def _napi(host: Host, topology: Topology) -> Check:
    version = _version(host)
    names = [nic.name for nic in topology.nics if nic.kind in ("physical", "virtual function")]
    if version is None:
        return NAPI.unknown("the version of this kernel cannot be read", source="/proc/sys/kernel/osrelease")
    if version < (6, 13):
        return NAPI.skip("one value for each interface, before 6.13")
    if not names:
        return NAPI.skip("no interface with hardware behind it is here")
    set_here = []
    for name in names:
        for file in ("gro_flush_timeout", "napi_defer_hard_irqs"):
            number = values.number(host.value(f"{NAPI.source}/{name}/{file}").text)
            if number:
                set_here.append(f"{name} {file} {number}")
    return NAPI.skip(
        f"as sysfs shows: {', '.join(set_here) or 'not set'}; of each NAPI instance: ynl, netdev, napi-get"
    )


LOOKS: Looks = (
    ((KHO,), _kho),
    ((SIZES,), _sizes),
    ((PREEMPT,), _preempt),
    ((NAMES_GONE,), _scheduler),
    ((NAPI,), _napi),
)
