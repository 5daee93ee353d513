# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings that a crash kernel inherits although they were calculated for the whole memory."""

from __future__ import annotations

from ...engine.kind import Facts
from ...host.host import Host
from ...linux import crash_kernel, sysctl_d
from ...model.setting import Severity
from ...topology.model import Topology
from ..model import Check
from .model import Looks, topic

CRASH = topic(
    "crash_kernel",
    Severity.HIGH,
    "a crash kernel that sets the memory of crashkernel= aside panics itself, and there is no dump",
    "vm.rst; kdump-tools, kdump-tools-dump.service",
    "declare vm.min_free_kbytes: auto and vm.nr_hugepages: {for_bytes: N}, which the agent sets and no file "
    "has, and remove other lines; or reserve more memory (crashkernel=)",
    crash_kernel.SIZE,
)


def _crash(host: Host, _topology: Topology) -> Check:
    reserved = crash_kernel.reserved_kbytes(host)
    if not reserved:
        return CRASH.skip("no crash kernel is loaded")
    if not crash_kernel.reads_sysctl_d(host):
        return CRASH.skip("kdump does not read sysctl.d of this system")
    taken = crash_kernel.taken(host, Facts(host).hugepage_kbytes(), sysctl_d.load(host))
    evidence = "; ".join(map(str, taken)) or f"nothing of its {reserved} kB is set aside by a file"
    expected = f"at most {reserved // crash_kernel.SHARE} kB set aside by sysctl.d"
    source = ", ".join(line.where for line in taken) or CRASH.source
    return CRASH.judged(not taken, evidence, source=source, expected=expected)


LOOKS: Looks = (((CRASH,), _crash),)
