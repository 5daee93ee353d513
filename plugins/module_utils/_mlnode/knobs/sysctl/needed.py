# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules without which a key or a value does not exist, and files that keep them from being loaded."""

from __future__ import annotations

from typing import Sequence

from ...engine.kind import Context
from ...linux import modules_load
from ...linux.modules_load import Bar
from ...model import values
from ...model.errors import HostError
from ...model.record import NamedTuple
from ...model.setting import Boot, Value

_QDISC = "net.core.default_qdisc"
#: Values that live in a module: key → prefix of the module's name
PREFIXES = {"net.ipv4.tcp_congestion_control": "tcp_", _QDISC: "sch_"}

#: Begin of the keys that are there only while a module is loaded → the module
_OWNERS = {
    "net.netfilter.nf_conntrack_": "nf_conntrack",
    "net.nf_conntrack_": "nf_conntrack",
    "net.bridge.": "br_netfilter",
    "net.ipv4.vs.": "ip_vs",
    "net.rds.": "rds",
    "net.sctp.": "sctp",
    "sunrpc.": "sunrpc",
    "fs.nfs.nlm_": "lockd",
}

#: The first kernel that asks for a queueing discipline by an alias, net-sch-fq, for which a blacklist counts,
#: and not by the name of its module (net/sched/sch_api.c: NET_SCH_ALIAS_PREFIX; modprobe.d(5), blacklist)
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


def module_of(key: str, want: str | None) -> str:
    """The module that a key or its value needs; empty for none."""
    if key in PREFIXES:
        return modules_load.underscored(PREFIXES[key] + want) if want else ""
    return next((module for begin, module in _OWNERS.items() if key.startswith(begin)), "")


def barred(key: str, want: str | None, context: Context) -> Barred | None:
    """None if the next boot can load the module, if none is needed, and if it is a part of the kernel."""
    host, module = context.host, module_of(key, want)
    if not module:
        return None
    try:
        # An image is for any of its kernels.
        releases = [context.facts.kernel_release()] if context.runtime else host.names("/lib/modules")
        if not any(modules_load.is_loadable(host, release, module) for release in releases):
            return None
        bar = _bar(key, module, releases, context)
    except HostError as error:
        bar = Bar(error.path, f"is not known ({error.kernel})", sure=False)
    return None if bar is None else Barred(module, bar)


def _bar(key: str, module: str, releases: Sequence[str], context: Context) -> Bar | None:
    """Raises HostError."""
    config = modules_load.load(context.host)
    # The command line of a build host says nothing about the machines that boot its image.
    bar = modules_load.on_command_line(context.host, module)[1] if context.runtime else None
    bar = bar or config.barred(module)
    if bar is None and config.unreadable:
        return Bar("modprobe.d", f"is not known ({config.unreadable[0]})", sure=False)
    if bar is None or bar.for_all:
        return bar
    # A blacklist does not count for those who ask for a module by its name.
    versions = [values.kernel_version(release) for release in releases]
    by_alias = any(version is None or version >= _BY_ALIAS for version in versions)
    return bar if key == _QDISC and by_alias else None
