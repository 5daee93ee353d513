# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pause frames that RDMA NICs have received since the last check: a switch, or a slow peer behind it, stops
the NIC. The counters are from the drivers mlx5 (rx_prioN_pause), ice (rx_priority_N_xoff.nic) and bnxt_en
(rx_pfc_ena_frames_priN), and from most others for pauses of the whole link."""

from __future__ import annotations

from ..host.host import Host
from ..model import values
from ..model.errors import HostError, MlnodeError
from ..model.record import regex
from ..report.metrics import GAUGE, Family, Sample
from .checked import LastCheck

_COUNTERS = regex(
    r"rx_prio[0-7]_pause\Z|rx_priority_[0-7]_xoff\.nic\Z|rx_pfc_ena_frames_pri[0-7]\Z|rx_pause_ctrl_phy\Z"
)

#: A rate over less than this is noise, as after two checks by hand, in seconds
_LEAST_SECONDS = 10.0


def rate(host: Host, before: LastCheck, known: LastCheck) -> tuple[Family | None, LastCheck]:
    """The NIC with the highest rate, and the state for the next check. Never raises."""
    rates: dict[str, float] = {}
    counts: dict[str, tuple[int, float]] = {}
    try:
        at = float(host.text("/proc/uptime").split()[0])
        for name in _nics(host):
            number = _frames(host, name)
            if number is None:
                continue
            counts[name] = number, at
            old = before.pauses.get(name) if before.seen.boot == known.seen.boot else None
            if old and at - old[1] >= _LEAST_SECONDS and number >= old[0]:
                rates[name] = (number - old[0]) / (at - old[1])
    except (MlnodeError, ValueError, IndexError):
        pass
    known = known._replace(pauses=counts)
    if not rates:
        return None, known
    worst = max(rates, key=lambda name: (rates[name], name))
    text = "Received pause frames per second since the check before, of the RDMA NIC with the most."
    sample = Sample(round(rates[worst], 3), {"device": worst})
    return Family("mlnode_nic_pause_frames_per_second", GAUGE, text, (sample,)), known


def _nics(host: Host) -> list[str]:
    """Interfaces with an RDMA device."""
    interfaces: dict[str, None] = {}
    for path in host.matching("/sys/class/infiniband/*/device/net/*"):
        interfaces[path.rpartition("/")[2]] = None
    return list(interfaces)


def _frames(host: Host, name: str) -> int | None:
    """Number of pause frames; None if the driver has no such counter."""
    folder = f"/ethtool/{name}/statistic"
    try:
        fields = [field for field in host.names(folder) if _COUNTERS.match(field)]
        if not fields:
            return None
        texts = host.read(f"{folder}/{','.join(fields)}").split()
        return sum(values.number(text) or 0 for text in texts)
    except HostError:
        return None
