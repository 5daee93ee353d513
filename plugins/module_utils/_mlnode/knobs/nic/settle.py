# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wait for a NIC to recover from a change, before the next one is changed."""

from __future__ import annotations

import time
from typing import Callable, Mapping

from ...drivers.nic import vectors as irq_vectors
from ...host.host import Host
from ...linux import link_counters
from ...model.errors import HostError, MlnodeError
from ...model.record import NamedTuple
from ...model.setting import Unit
from ...topology import hardware
from ...topology.sysfs import integer
from ..nics.targets import beneath
from ..summary import Target

#: The longest time for a link to come back. Autonegotiation takes up to three seconds on copper (IEEE 802.3,
#: clause 28). Training of lanes of 100 Gb/s and more, with its retries, takes several more on slow optics.
LINK_SECONDS = 20.0

#: Time for which a reset link is watched before it counts as up: firmware may report only after the call that
#: it is down (mellanox/mlx5/core/port.c: mlx5_toggle_port_link waits for an event)
RESET_SECONDS = 2.0

_POLL_SECONDS = 0.1

_RDMA = "/sys/class/infiniband"


class State(NamedTuple):
    """State to preserve. carrier: there is a link. changes: number of its changes. rdma: port → its state.
    interrupts: the NIC has its own interrupts for queues.
    """

    carrier: bool
    changes: str
    rdma: Mapping[str, str]
    interrupts: bool


def unit(target: Target, resets: bool) -> Unit:
    def look(host: Host) -> Callable[[], None]:
        before, counts = state(host, target), _counts(host, target)

        def is_well() -> None:
            try:
                wait(host, target, before, RESET_SECONDS if resets and before.carrier else 0.0)
            finally:
                _excuse(host, counts, _counts(host, target))

        return is_well

    return Unit(target.name, look, resets, target.depth)


def _excuse(host: Host, before: Mapping[str, int], now: Mapping[str, int]) -> None:
    """Excuse the counters of a link that a change has reset.

    The link has not failed, and lost packets in flight have no other cause, so checks must not report them.
    Errors while storing this do not fail the change.
    """
    try:
        link_counters.excuse(host, {path: now[path] - before[path] for path in now if path in before})
    except MlnodeError:
        pass


def _counts(host: Host, target: Target) -> dict[str, int]:
    """Path → counter that a check compares: counters of a NIC, of interfaces below it, and of their RDMA
    ports.
    """
    kept = link_counters.kept(host)
    if not kept:
        return {}
    names = (target.name, *beneath(host, target.name))
    ports = [port.partition("/")[::2] for name in names for port in _ports(host, name)]
    folders = (
        *(f"/sys/class/net/{name}/" for name in names),
        *(f"/ethtool/{name}/statistic/" for name in names),
        *(f"{_RDMA}/{name}/ports/{port}/" for name, port in ports),
    )
    paths = [path for path in kept if path.startswith(folders)]
    counts = {path: integer((host.value(path).text or "").strip()) for path in paths}
    return {path: number for path, number in counts.items() if number is not None}


def _ports(host: Host, name: str) -> list[str]:
    return [
        f"{device.name}/{port.number}"
        for device in hardware.topology(host).rdma
        for port in device.ports
        if name in port.netdevs
    ]


def state(host: Host, target: Target) -> State:
    """The present state. Unreadable values are not missed later."""
    ports = {
        port: host.value(f"{_RDMA}/{port.replace('/', '/ports/')}/state").text or ""
        for port in _ports(host, target.name)
    }
    return State(
        # EINVAL while the interface is down
        carrier=host.value(f"/sys/class/net/{target.name}/carrier").text == "1",
        rdma=ports,
        changes=host.value(f"/sys/class/net/{target.name}/carrier_changes").text or "",
        interrupts=bool(target.address and irq_vectors.queue_vectors(host, target.address).queues),
    )


def wait(host: Host, target: Target, before: State, watched: float, seconds: float = LINK_SECONDS) -> None:
    """Return once nothing is worse than before, and the link has gone down and up or was watched for so many
    seconds.

    Raises HostError with the parts that are worse.
    """
    start = time.monotonic()
    until = start + seconds
    while True:
        now = state(host, target)
        missing = _worse(before, now)
        if not missing and (now.changes != before.changes or time.monotonic() >= start + watched):
            return
        missing = missing or "its link is still being watched"
        if time.monotonic() >= until:
            path = f"/sys/class/net/{target.name}"
            raise HostError("go on after the change of", path, None, f"{missing} after {seconds:.0f} s")
        time.sleep(_POLL_SECONDS)


def _worse(before: State, now: State) -> str:
    if before.carrier and not now.carrier:
        return "it has no carrier"
    for port, was in before.rdma.items():
        if was != now.rdma.get(port) and "ACTIVE" in was:
            return f"the RDMA port {port} is {now.rdma.get(port) or 'gone'} and was {was}"
    return "its queues have no interrupts" if before.interrupts and not now.interrupts else ""
