# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of other programs that set a kernel file to the value that it has."""

from __future__ import annotations

from ..host.host import Host
from ..model import values
from ..model.errors import HostError
from ..model.setting import Cause, Reading
from . import networkd, udev_rules


def named(host: Host, reading: Reading) -> Reading:
    """A reading with the line that has set a file to something else than what is wanted."""
    try:
        causes = (of(host, part.path, part.runtime) for part in reading.parts if part.differs)
        return reading._replace(cause=next(filter(None, causes), None))
    except HostError:  # the row has a reason without it
        return reading


def of(host: Host, path: str, runtime: str) -> Cause | None:
    """The line that explains a value of a kernel file; None where no line does. Raises HostError."""
    if not path.startswith(("/proc/sys/", "/sys/block/", "/sys/class/block/", "/sys/class/bdi/")):
        return None
    network = networkd.sets(host, path) if path.startswith("/proc/sys/net/") else None
    if network is not None and values.same(network.value, runtime):
        return Cause(network.line.where, network.line.text, network.sure)
    for rule in reversed(udev_rules.sets(host, path)):
        if not rule.value or values.same(rule.value, runtime):
            return Cause(rule.where, rule.text, rule.sure and bool(rule.value))
    return None
