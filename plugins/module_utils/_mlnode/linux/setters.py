# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of other programs that explain the present value of a kernel file."""

from __future__ import annotations

import re

from ..host.host import Host
from ..model import values
from ..model.cause import MAY_SET, SET, Cause, placed
from ..model.errors import HostError
from ..model.setting import Layer, Reading
from . import networkd, sysctl_d, sysctl_owners, sysctl_values, udev_rules


def named(host: Host, reading: Reading) -> Reading:
    """A reading with the line that has set a file to a value other than the wanted one."""
    try:
        setters = (cause(host, part.path, part.runtime) for part in reading.parts if part.differs)
        return reading._replace(setter=next(filter(None, setters), None))
    except HostError:  # the row has a reason without it
        return reading


def cause(host: Host, path: str, runtime: str) -> Cause | None:
    """The line that explains a value of a kernel file; None if no line does. Raises HostError."""
    if not path.startswith(("/proc/sys/", "/sys/block/", "/sys/class/block/", "/sys/class/bdi/")):
        return None
    network = networkd.sets(host, path) if path.startswith("/proc/sys/net/") else None
    if network is not None and values.same(network.value, runtime):
        return _cause(network.line.where, network.text, network.sure)
    for rule in reversed(udev_rules.sets(host, path)):
        if not rule.value or values.same(rule.value, runtime):
            return _cause(rule.where, rule.text, rule.sure and bool(rule.value))
    return _owner(host, path[len("/proc/sys/") :], runtime) if path.startswith("/proc/sys/") else None


def line(host: Host, path: str, runtime: str) -> Cause | None:
    """As cause(), or else the last line of sysctl.d with this value: of the file itself, of all interfaces,
    or of the default for interfaces that appear later. Raises HostError."""
    own = cause(host, path, runtime)
    if own is not None or not path.startswith("/proc/sys/"):
        return own
    name, config = path[len("/proc/sys/") :], sysctl_d.load(host)
    default = re.sub("(?<=^net/ipv[46]/conf/)[^/]+", "default", name)
    for key, sure in ((name, True), (default, False)):
        for statement in reversed(config.statements(key)):
            if values.same(statement.value or "", runtime):
                return _cause(statement.where, statement.text, sure)
    if config.unreadable:
        return Cause(Layer.RUNTIME, MAY_SET, text=f"{config.unreadable[0]} may set: it cannot be read")
    return None


def _cause(where: str, text: str, sure: bool) -> Cause:
    """sure: False if the line may be for other values."""
    return placed(Layer.RUNTIME, SET if sure else MAY_SET, where, f"{'sets' if sure else 'may set'} {text}")


def _owner(host: Host, name: str, runtime: str) -> Cause | None:
    """The line of a program with its own configuration files. Raises HostError."""
    setter: Cause | None = None
    for owner in sysctl_owners.load(host):
        decision = sysctl_owners.decided(owner, name, sysctl_values.writes(like=runtime))
        if decision is None or decision.effect.refused:
            continue
        shown = decision.effect.text
        if shown is None or values.same(shown, runtime):
            sure = owner.sure and owner.booted and bool(shown)
            if setter is None or sure:
                setter = _cause(decision.line.where, words(owner, decision), sure)
    return setter


def words(owner: sysctl_owners.Owner, decision: sysctl_d.Decision) -> str:
    """Value that a program sets, when, and how to change that."""
    key = sysctl_d.dotted(decision.name)
    if decision.effect.text is None:
        return f"{key} {owner.when}"
    return f"{key} = {decision.line.value} {owner.when}: change it there, or declare {decision.effect.text}"
