# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The crash kernel of kdump, and the files of this system that it reads.

It has the few hundred MiB of crashkernel=. Debian's kdump-tools boots it into the same root file system,
where systemd-sysctl reads sysctl.d before the dump is written. kdump of the Red Hat family writes the dump
from a special initramfs without such files (kdump-utils).
"""

from __future__ import annotations

from ..host.host import Host
from ..model import values
from ..model.record import NamedTuple
from . import sysctl_d, sysctl_values, systemd_conf

_LOADED, SIZE = "/sys/kernel/kexec_crash_loaded", "/sys/kernel/kexec_crash_size"
#: Unit that writes the dump from the real root
_UNIT = "kdump-tools-dump.service"
#: Further values that it sets there
OVERRIDES = "/etc/kdump/sysctl.conf"
_SCRIPT = "/usr/share/initramfs-tools/scripts/local-bottom/kdump-sysctl"
#: find(1) has no option of that form: the name that should sort last is then -kdump.conf, which sorts first
#: (kdump-tools 1.8.1)
_BROKEN = "-maxdepth=1"

#: One twentieth of the reservation, as in the guard of vm.min_free_kbytes for the whole machine: over 5 to 10
#: % of memory a machine is out of it at once (vm.rst; Red Hat, Performance Tuning Guide), and a kernel and
#: its initramfs already take half of a small reservation.
SHARE = 20


class Taken(NamedTuple):
    """Memory that a line of sysctl.d takes from the crash kernel, in kB, the limit, and the reservation."""

    key: str
    kbytes: int
    where: str
    most: int
    reserved: int

    def __str__(self) -> str:
        return (
            f"{self.where} sets {self.key} for the crash kernel, too: {self.kbytes} kB of its "
            f"{self.reserved} kB, and it panics before it has written a dump"
        )


def reserved_kbytes(host: Host) -> int:
    """Memory of a loaded crash kernel; 0 if none is loaded, or if it cannot be read."""
    if host.value(_LOADED).text != "1":
        return 0
    return (values.number(host.value(SIZE).text) or 0) // 1024


def reads_sysctl_d(host: Host) -> bool:
    """True if it reads sysctl.d of this system. Raises HostError."""
    return bool(systemd_conf.fragment(host, _UNIT))


def taken(host: Host, page_kbytes: int, config: sysctl_d.BootConfig) -> list[Taken]:
    """Lines that take more than their share; empty if it reads no sysctl.d. page_kbytes: of a huge page of
    the default size. Raises HostError."""
    reserved = reserved_kbytes(host)
    if not reserved or not reads_sysctl_d(host):
        return []
    config = config._replace(lines=(*config.lines, *_overrides(host)))
    lines = []
    for key, unit in (("vm/min_free_kbytes", 1), ("vm/nr_hugepages", page_kbytes)):
        last = config.decided(key, sysctl_values.writes())
        kbytes = (values.number(last.effect.text) or 0) * unit if last is not None else 0
        if last is not None and kbytes > reserved // SHARE:
            lines.append(Taken(sysctl_d.dotted(key), kbytes, last.line.where, reserved // SHARE, reserved))
    return lines


def _overrides(host: Host) -> list[sysctl_d.Line]:
    return [] if _BROKEN in host.text(_SCRIPT) else sysctl_d.parse(host.text(OVERRIDES), OVERRIDES)
