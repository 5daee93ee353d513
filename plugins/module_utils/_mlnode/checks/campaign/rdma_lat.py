# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind rdma_lat: ib_write_lat. Both ends write alternately, so one measurement covers both directions."""

from __future__ import annotations

from typing import Any, Sequence

from ...host.host import Host
from ...host.system import Finished
from ...linux import perftest
from ...linux.perftest import Latency
from ...model.errors import UnfitError
from ...model.record import NamedTuple
from . import rdma
from .kind import USEC, Part, Rail
from .rdma import Flow

NAME, UNIT, RDMA, PROGRAM = "rdma_lat", USEC, True, perftest.LATENCY

#: The rate of a port does not limit it.
SHARE: float | None = None

#: Detects an additional hop or a distant CPU: a switch adds 0.2 to 0.3 usec to a total of 2 to 3 usec.
MARGIN = 0.1

JUDGED: tuple[str, ...] = ("usec",)
FIELDS: tuple[str, ...] = (*JUDGED, "p99_usec")

STEPS = 1
AROUND = rdma.SETTLE

#: Iterations per requested second: 10,000 in four seconds put a hundred above the 99th percentile. There is
#: enough time even for round trips of 0.4 ms.
_A_SECOND = 2500

#: As for all kinds of RDMA
COUNTED, EARLY, cpus, place, count = rdma.COUNTED, rdma.EARLY, rdma.cpus, rdma.place, rdma.count
resent, loss = rdma.resent, rdma.loss
is_early, stranger, overhead = rdma.is_early, rdma.stranger, rdma.overhead
ends = rdma.ends


def require(host: Host) -> None:
    """Raises HostError."""
    rdma.require(host, PROGRAM)


def flows(part: Part, rail: Rail, step: int) -> list[Flow]:
    iterations = _A_SECOND * part.duration
    return [rdma.flow(part, rail, step, size=perftest.LEAST_SIZE, iterations=iterations)]


class Measured(NamedTuple):
    """packets: the least number that it took."""

    latency: Latency
    packets: int


def read(done: Finished, flow: Flow) -> Measured:
    """Raises UnfitError."""
    header, latency = rdma.header(done, flow), perftest.latency(done.out)
    if latency is None:
        raise rdma.unfit(done, flow)
    asked = (flow.request.size, flow.request.iterations)
    if (latency.size, latency.iterations) != asked:
        raise UnfitError(
            f"{latency.iterations} messages of {latency.size} bytes were measured, and not {asked[1]} of "
            f"{asked[0]}"
        )
    return Measured(latency, rdma.packets(header, latency.size, latency.iterations))


def carried(measured: Measured) -> float:
    return measured.packets


def answer(steps: Sequence[Sequence[Measured]], _cpus: int) -> dict[str, Any]:
    [[only]] = steps
    latency = only.latency
    return {
        "usec": latency.typical,
        "p99_usec": latency.p99,
        "evidence": {"least_usec": latency.least, "p999_usec": latency.p999, "most_usec": latency.most},
    }
