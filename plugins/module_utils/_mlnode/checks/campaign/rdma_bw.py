# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind rdma_bw: ib_write_bw in one direction and then the other."""

from __future__ import annotations

from typing import Any, Sequence

from ...host.host import Host
from ...host.system import Finished
from ...linux import perftest
from ...model.errors import UnfitError
from ...model.record import NamedTuple
from . import rdma
from .kind import GBITS, Part, Rail
from .rdma import Flow

NAME, UNIT, RDMA, PROGRAM = "rdma_bw", GBITS, True, perftest.PROGRAM

#: ib_write_bw reaches 0.97 of a port's rate if all is well; below 0.9 it is not.
SHARE: float | None = 0.9

#: As for tcp
MARGIN = 0.05

JUDGED: tuple[str, ...] = ("forward_gbits", "backward_gbits")
FIELDS = JUDGED

#: One direction, then the other
STEPS = 2

#: Unmeasured seconds at each end of a direction: queues fill, and rails do not begin at once.
MARGIN_SECONDS = 1
AROUND = 2 * MARGIN_SECONDS + rdma.SETTLE

#: Bytes of a message: the default of perftest (perftest_parameters.h, DEF_SIZE_BW)
SIZE = 65536

#: Least share of the requested time that must be measured
_LASTED = 0.9

#: As for all kinds of RDMA
COUNTED, EARLY, cpus, place, count = rdma.COUNTED, rdma.EARLY, rdma.cpus, rdma.place, rdma.count
resent, loss = rdma.resent, rdma.loss
is_early, stranger, overhead = rdma.is_early, rdma.stranger, rdma.overhead
ends = rdma.ends


def require(host: Host) -> None:
    """Raises HostError."""
    rdma.require(host, PROGRAM)


def flows(part: Part, rail: Rail, step: int) -> list[Flow]:
    return [flow(part, rail, step, backward=step == 1)]


def flow(part: Part, rail: Rail, step: int, **more: Any) -> Flow:
    seconds = part.duration + 2 * MARGIN_SECONDS
    return rdma.flow(part, rail, step, size=SIZE, seconds=seconds, margin=MARGIN_SECONDS, **more)


class Measured(NamedTuple):
    """packets: the least number that it took."""

    gbits: float
    packets: int


def read(done: Finished, flow: Flow) -> Measured:
    """Raises UnfitError."""
    header, bandwidth = rdma.header(done, flow), perftest.bandwidth(done.out)
    if bandwidth is None:
        raise rdma.unfit(done, flow)
    request = flow.request
    if bandwidth.size != request.size:
        raise UnfitError(f"messages of {bandwidth.size} bytes were measured, and not of {request.size}")
    asked = request.seconds - 2 * MARGIN_SECONDS
    seconds = bandwidth.iterations / bandwidth.messages
    if seconds < _LASTED * asked:
        raise UnfitError(f"{seconds:.2f} s were measured of {asked} s that were asked for")
    return Measured(bandwidth.gbits, rdma.packets(header, bandwidth.size, bandwidth.iterations))


def carried(measured: Measured) -> float:
    return measured.packets


def answer(steps: Sequence[Sequence[Measured]], _cpus: int) -> dict[str, Any]:
    [forward], [back] = steps
    return {"forward_gbits": forward.gbits, "backward_gbits": back.gbits}
