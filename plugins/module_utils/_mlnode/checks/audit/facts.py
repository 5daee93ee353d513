# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts about new kernels: what they reserve, drop, refuse or show nowhere, without a word in most logs."""

from __future__ import annotations

import re
from typing import Iterator, Optional, Tuple

from ...engine.kind import Facts
from ...host.host import Host
from ...knobs.sysctl.parse import path_of
from ...linux import sysctl_d
from ...model import values
from ...model.errors import HostError
from ...model.setting import Severity
from ...topology.model import Topology
from ..model import Verdict
from . import model
from .model import AuditCheck, Topic

KHO = Topic(
    "kexec_handover",
    Severity.HIGH,
    "memory kept for the next kernel cannot be pinned: ibv_reg_mr fails with ENOMEM when the rest is full",
    "admin-guide/mm/kho.rst; NVIDIA, NV-Kernels pull request 591",
    "boot with kho=off, unless kexec hands something over on this node",
)
SIZES = Topic(
    "hugepage_sizes",
    Severity.MEDIUM,
    "the kernel drops a size that it does not have, and the pages after it, and programs find no pool",
    "kernel-parameters.txt (hugepagesz); arch/arm64/hugetlbpage.rst",
    "name a size that this kernel has; arm64 with pages of 64 KiB has 2 MiB, 512 MiB and 16 GiB, no 1 GiB",
)
PREEMPT = Topic(
    "preempt",
    Severity.LOW,
    "the kernel refuses the word, and preempts by its default: threads that spin on locks may lose time",
    "kernel-parameters.txt (preempt); kernel/Kconfig.preempt of 7.0",
    "take it off the command line; full and lazy are what a kernel of 7.0 has on x86 and arm64",
)
NAMES_GONE = Topic(
    "scheduler_names",
    Severity.LOW,
    "files set them for nothing: they went to debugfs in 5.13, and most of them with EEVDF in 6.6",
    "kernel/sched/debug.c; scheduler/sched-eevdf.rst",
)
NAPI = Topic(
    "napi_settings",
    Severity.LOW,
    "since 6.13 each NAPI instance may have other values than its interface's files in sysfs show",
    "networking/napi.rst; netlink/specs/netdev.yaml",
)

_TOPICS = (KHO, SIZES, PREEMPT, NAMES_GONE, NAPI)
NAMES = tuple(topic.name for topic in _TOPICS)

_CMDLINE, _MEMINFO = "/proc/cmdline", "/proc/meminfo"
_PREEMPT = "/sys/kernel/debug/sched/preempt"
_POOLS = "/sys/kernel/mm/hugepages"
_RDMA = "/sys/class/infiniband"
#: Kexec handover came with 6.16, and a kernel may be built with it on (CONFIG_KEXEC_HANDOVER_ENABLE_DEFAULT)
_KHO_SINCE = (6, 16)
_Version = Optional[Tuple[int, int]]
#: Of CFS, until 5.13 below /proc/sys/kernel
_CFS = (
    "sched_latency_ns",
    "sched_min_granularity_ns",
    "sched_wakeup_granularity_ns",
    "sched_migration_cost_ns",
    "sched_nr_migrate",
    "sched_tunable_scaling",
    "sched_child_runs_first",
)


def checks(host: Host, topology: Topology) -> Iterator[AuditCheck]:
    value = host.value(_CMDLINE)
    facts = Facts(host)
    version = values.kernel_version(facts.kernel_release())
    yield _kho(host, facts, facts.command_line("kho") if value.text is not None else [], version)
    if value.text is None:
        yield model.missing(SIZES, value, _CMDLINE)
        yield model.missing(PREEMPT, value, _CMDLINE)
    else:
        asked = [size for name in ("hugepagesz", "default_hugepagesz") for size in facts.command_line(name)]
        yield _sizes(host, asked)
        yield _preempt(host, facts.command_line("preempt"), version)
    yield _scheduler(host)
    yield _napi(host, topology, version)


def _switch(word: str) -> bool | None:
    """As kstrtobool() reads it: by the first letter, of `on` and `off` the second; None where it refuses."""
    beginning = word[:2].lower()
    for value, beginnings in ((True, ("y", "t", "1", "on")), (False, ("n", "f", "0", "of"))):
        if beginning.startswith(beginnings):
            return value
    return None


def _kho(host: Host, facts: Facts, given: list[str], version: _Version) -> AuditCheck:
    """Scratch memory counts as free memory of CMA and belongs to no area of it, so that more may be free than
    there is. Once movable pages are in it, this no longer shows."""
    try:
        total, free = facts.memory_kbytes("CmaTotal"), facts.memory_kbytes("CmaFree")
    except HostError as error:
        if error.errno is not None:
            return model.unknown(KHO, str(error), _MEMINFO)
        return model.told(
            KHO, "this kernel has no CMA, which the scratch memory would be a part of", _MEMINFO
        )
    kept = f"CmaFree {free} kB, CmaTotal {total} kB"
    if free <= total:
        switched_on = _switch(given[-1]) if given else None
        if (version is not None and version < _KHO_SINCE) or switched_on is False:
            return model.made(KHO, Verdict.PASS, f"none: {kept}", _MEMINFO, "no scratch memory")
        if switched_on:
            return model.unknown(KHO, f"on by the command line, and used memory hides it: {kept}", _MEMINFO)
        return model.told(KHO, f"not visible, and used memory may hide it: {kept}", _MEMINFO)
    found = f"{(free - total) / (1 << 20):.2f} GiB at least: {kept}"
    if not host.exists(_RDMA) or not host.names(_RDMA):
        return model.told(KHO, f"{found}; no RDMA device is here that would need it", _MEMINFO)
    return model.judged(KHO, False, found, _MEMINFO, "no scratch memory")


def _sizes(host: Host, asked: list[str]) -> AuditCheck:
    try:
        known = [
            int(name[10:-2]) for name in host.names(_POOLS) if re.match(r"hugepages-[0-9]{1,10}kB\Z", name)
        ]
    except HostError as error:
        return model.unknown(SIZES, str(error), _POOLS)
    if not asked:
        return model.told(SIZES, "the command line names none", _CMDLINE)
    wrong = [text for text in asked if _kilobytes(text) not in known]
    here = ", ".join(f"{size} kB" for size in sorted(known)) or "none"
    return model.judged(
        SIZES, not wrong, ", ".join(f"hugepagesz={text}" for text in wrong or asked), _CMDLINE, f"of {here}"
    )


def _kilobytes(text: str) -> int | None:
    number = values.memparse(text)
    return None if number is None else number >> 10


def _preempt(host: Host, asked: list[str], version: _Version) -> AuditCheck:
    """The preemption that is asked for, against what debugfs offers, or else what the version has."""
    if not asked:
        return model.told(PREEMPT, "not on the command line", _CMDLINE)
    shown = host.value(_PREEMPT)
    if shown.text is not None:
        offered = [word.strip("()") for word in shown.text.split()]
        return model.judged(
            PREEMPT, asked[-1] in offered, asked[-1], _PREEMPT, f"one of {', '.join(offered)}"
        )
    if version is None or version < (7, 0):
        return model.told(PREEMPT, f"{asked[-1]}; {_PREEMPT} does not show what this kernel has", _CMDLINE)
    good = asked[-1] in ("full", "lazy")
    return model.judged(PREEMPT, good, asked[-1], _CMDLINE, "full or lazy, since 7.0")


def _scheduler(host: Host) -> AuditCheck:
    """Unknown to this kernel, and so neither right nor wrong."""
    try:
        config = sysctl_d.load(host)
        lines = [
            config.winner(f"kernel/{name}") for name in _CFS if not host.exists(path_of(f"kernel.{name}"))
        ]
    except HostError as error:
        return model.unknown(NAMES_GONE, str(error), error.path)
    dead = [line for line in lines if line is not None and line.value is not None and not line.is_glob]
    if not dead:
        return model.told(NAMES_GONE, "no file sets a name that this kernel does not have", "/etc/sysctl.d")
    settings = ", ".join(f"{line.key.replace('/', '.')} ({line.where})" for line in dead)
    return model.told(NAMES_GONE, f"unknown to this kernel: {settings}", "/etc/sysctl.d")


def _napi(host: Host, topology: Topology, version: _Version) -> AuditCheck:
    names = [nic.name for nic in topology.nics if nic.kind in ("physical", "virtual function")]
    folder = "/sys/class/net"
    if version is None:
        return model.unknown(NAPI, "the version of this kernel cannot be read", "/proc/sys/kernel/osrelease")
    if version < (6, 13):
        return model.told(NAPI, "one value for each interface, before 6.13", folder)
    if not names:
        return model.told(NAPI, "no interface with hardware behind it is here", folder)
    set_here = []
    for name in names:
        for file in ("gro_flush_timeout", "napi_defer_hard_irqs"):
            number = values.number(host.value(f"{folder}/{name}/{file}").text)
            if number:
                set_here.append(f"{name} {file} {number}")
    found = (
        f"as sysfs shows: {', '.join(set_here) or 'not set'}; of each NAPI instance: ynl, netdev, napi-get"
    )
    return model.told(NAPI, found, folder)
