# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of the packet counters of RDMA ports, for all drivers.

The name of a driver precedes the names of the InfiniBand architecture (core/sysfs.c): some drivers show the
latter, and never count.
"""

from __future__ import annotations

from typing import Sequence

from ...host.host import Host
from .bnxt import Bnxt
from .ionic import Ionic
from .irdma import Irdma
from .mlx5 import Mlx5
from .model import Counters

#: Soft-RoCE counts NAKs and timeouts together (drivers/infiniband: sw/rxe/rxe_hw_counters.c). EFA has the
#: names of bnxt_re for its packets (hw/efa/efa_verbs.c).
_SOFT = Counters(
    ("hw_counters/sent_pkts",),
    ("hw_counters/rcvd_pkts",),
    ("hw_counters/completer_retry_err", "hw_counters/rcvd_rnr_err"),
    ("hw_counters/out_of_seq_request",),
)

ALL = (*Ionic.COUNTERS, *Bnxt.COUNTERS, *Irdma.COUNTERS, _SOFT, *Mlx5.COUNTERS)

SENT = tuple(names.sent for names in ALL if names.sent)
RECEIVED = tuple(names.received for names in ALL if names.received)
LOST_SENT = tuple(dict.fromkeys(names.lost_sent for names in ALL if names.lost_sent))
LOST_RECEIVED = tuple(dict.fromkeys(names.lost_received for names in ALL if names.lost_received))


def paths(host: Host, port: str, sets: Sequence[Sequence[str]]) -> list[str]:
    """Files of the first set that a port has as a whole; empty if it has none. port: its folder in sysfs.
    Raises HostError."""
    every = ([f"{port}/{name}" for name in names] for names in sets)
    return next((names for names in every if all(host.exists(path) for path in names)), [])
