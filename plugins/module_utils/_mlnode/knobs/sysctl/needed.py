# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules that a key or a value requires, and files that keep them from being loaded."""

from __future__ import annotations

from typing import Sequence

from ...engine import boot_service
from ...engine.kind import Context
from ...linux import modules_load, systemd_show
from ...linux.modules_load import Bar
from ...model import values
from ...model.errors import HostError
from ...model.record import NamedTuple
from ...model.setting import Boot, Value
from ...topology import machine
from ...topology.sysfs import Reader

#: Once it is 1, the kernel loads no more modules
_NO_MORE = "/proc/sys/kernel/modules_disabled"
_QDISC = "net.core.default_qdisc"
#: Values that live in a module: key → prefix of the module's name
PREFIXES = {"net.ipv4.tcp_congestion_control": "tcp_", _QDISC: "sch_"}

#: Prefix of keys that exist only while a module is loaded → the module; the first match counts. From the
#: source files that register the tables: net/netfilter, net/bridge/br_netfilter_hooks.c, net/sunrpc,
#: fs/lockd, fs/nfs, drivers/infiniband/core, and so on. Drivers of devices are left out: a list would load
#: them on nodes without the device.
_OWNERS = {
    "net.netfilter.nf_conntrack_frag6_": "nf_defrag_ipv6",
    "net.netfilter.nf_conntrack_": "nf_conntrack",
    "net.netfilter.nf_flowtable_": "nf_conntrack",
    "net.nf_conntrack_": "nf_conntrack",
    "net.bridge.": "br_netfilter",
    "net.ipv4.vs.": "ip_vs",
    "net.iw_cm.": "iw_cm",
    "net.mpls.": "mpls_router",
    "net.rdma_ucm.": "rdma_ucm",
    "net.rds.ib.": "rds_rdma",
    "net.rds.tcp.": "rds_tcp",
    "net.rds.": "rds",
    "net.sctp.": "sctp",
    "net.smc.": "smc",
    "net.tipc.": "tipc",
    "net.vrf.": "vrf",
    "sunrpc.rdma_": "rpcrdma",
    "sunrpc.svc_rdma.": "rpcrdma",
    "sunrpc.": "sunrpc",
    "fs.fuse.": "fuse",
    "fs.nfs.idmap_": "nfsv4",
    "fs.nfs.nfs_callback_": "nfsv4",
    "fs.nfs.nfs_": "nfs",
    "fs.nfs.nlm_": "lockd",
    "fs.nfs.nsm_": "lockd",
    "fs.xfs.": "xfs",
    "dev.raid.": "md_mod",
}

#: The first kernel that requests a queueing discipline by an alias, net-sch-fq, instead of its module's name;
#: a blacklist applies only to aliases (net/sched/sch_api.c: NET_SCH_ALIAS_PREFIX; modprobe.d(5), blacklist)
_BY_ALIAS = (6, 9)


class Barred(NamedTuple):
    """Reason why the next boot does not load the module that a setting needs."""

    module: str
    bar: Bar

    def __str__(self) -> str:
        return f"it needs the module {self.module}, and {self.bar.words}"

    def boot(self, boot: Boot) -> Boot:
        """The boot layer without the module."""
        if boot.value.text is None:
            return boot
        value = Value(absent=str(self)) if self.bar.sure else Value(unreadable=str(self))
        return Boot(value, self.bar.where, foreign=True)


def owner(key: str) -> str:
    """The module that provides a key; empty if the kernel itself does."""
    return next((module for begin, module in _OWNERS.items() if key.startswith(begin)), "")


def module_of(key: str, want: str | None) -> str:
    """The module that a key or its value needs; empty if there is none."""
    if key in PREFIXES:
        return modules_load.underscored(PREFIXES[key] + want) if want else ""
    return owner(key)


def is_loadable(module: str, context: Context) -> bool:
    """True if this kernel, or one of an image, has it as a loadable module, not built in."""
    try:
        return any(modules_load.is_loadable(context.host, release, module) for release in _releases(context))
    except HostError:
        return False


def _releases(context: Context) -> Sequence[str]:
    """The running kernel, or all kernels of an image. Raises HostError."""
    return [context.facts.kernel_release()] if context.runtime else context.host.names("/lib/modules")


def unlisted(module: str, context: Context) -> str:
    """Reason why the next boot has not loaded a module when it reads sysctl.d; empty if it has. A program
    that needs it, such as a firewall, may load it later. Raises HostError.
    """
    off = boot_service.loader_off(context.host, systemd_show.MODULES_UNIT, context.runtime)
    if off:
        return f"{module} is loaded later than sysctl.d is read: {off}"
    if modules_load.load(context.host).listing(module) is not None:
        return ""
    if context.runtime and modules_load.on_command_line(context.host, module)[0]:
        return ""
    return f"no file in modules-load.d lists {module}, and what loads it later comes after systemd-sysctl"


def to_load(module: str, context: Context) -> bool:
    """True if this run can load the module for its keys."""
    host = context.host
    if not module or host.exists(f"{modules_load.LOADED}/{module}") or not is_loadable(module, context):
        return False
    return host.value(_NO_MORE).text != "1" and machine.read(Reader(host)).kind != "container"


def barred(key: str, want: str | None, context: Context) -> Barred | None:
    """Reason why the next boot cannot load a setting's module; None if it can, or if no loadable module is
    needed.
    """
    host, module = context.host, module_of(key, want)
    if not module:
        return None
    try:
        releases = _releases(context)
        if not any(modules_load.is_loadable(host, release, module) for release in releases):
            return None
        bar = _bar(key, module, releases, context)
    except HostError as error:
        bar = Bar(error.path, f"is not known ({error.kernel})", sure=False)
    return None if bar is None else Barred(module, bar)


def _bar(key: str, module: str, releases: Sequence[str], context: Context) -> Bar | None:
    """The line that keeps a module from being loaded. Raises HostError."""
    config = modules_load.load(context.host)
    # A build host's command line is not evidence for the machines that boot its image.
    bar = modules_load.on_command_line(context.host, module)[1] if context.runtime else None
    bar = bar or config.barred(module)
    if bar is None and config.unreadable:
        return Bar("modprobe.d", f"is not known ({config.unreadable[0]})", sure=False)
    if bar is None or bar.for_all or key not in PREFIXES:  # systemd-modules-load heeds a blacklist
        return bar
    # A blacklist does not apply to a request by module name.
    versions = [values.kernel_version(release) for release in releases]
    by_alias = any(version is None or version >= _BY_ALIAS for version in versions)
    return bar if key == _QDISC and by_alias else None
