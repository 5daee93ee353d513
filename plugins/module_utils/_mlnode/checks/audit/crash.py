# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that a crash kernel reads of this system, and that were made for all of its memory."""

from __future__ import annotations

from typing import Iterator

from ...engine.kind import Facts
from ...host.host import Host
from ...linux import crash_kernel, sysctl_d
from ...model.errors import HostError
from ...model.setting import Severity
from ...topology.model import Topology
from . import model
from .model import AuditCheck, Topic

CRASH = Topic(
    "crash_kernel",
    Severity.HIGH,
    "a crash kernel that sets the memory of crashkernel= aside panics itself, and there is no dump",
    "vm.rst; kdump-tools, kdump-tools-dump.service",
    "declare vm.min_free_kbytes: auto and vm.nr_hugepages: {for_bytes: N}, which the agent sets and no file "
    "has, and remove other lines; or reserve more memory (crashkernel=)",
)

NAMES = (CRASH.name,)


def checks(host: Host, topology: Topology) -> Iterator[AuditCheck]:
    del topology
    yield _crash(host)


def _crash(host: Host) -> AuditCheck:
    source = crash_kernel.SIZE
    try:
        reserved = crash_kernel.reserved_kbytes(host)
        if not reserved:
            return model.told(CRASH, "no crash kernel is loaded", source)
        if not crash_kernel.reads_sysctl_d(host):
            return model.told(CRASH, "kdump does not read sysctl.d of this system", source)
        taken = crash_kernel.taken(host, Facts(host).hugepage_kbytes(), sysctl_d.load(host))
    except HostError as error:
        return model.unknown(CRASH, str(error), error.path)
    found = "; ".join(map(str, taken)) or f"nothing of its {reserved} kB is set aside by a file"
    expected = f"at most {reserved // crash_kernel.SHARE} kB set aside by sysctl.d"
    return model.judged(CRASH, not taken, found, ", ".join(one.where for one in taken) or source, expected)
