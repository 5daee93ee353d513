# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ib_write_bw of perftest: how it is called, what its table says, and what its errors mean.

One side serves, the other one connects to it over TCP, they exchange addresses of queue pairs, and the one
that has connected writes into the memory of the server as fast as it can.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Callable, Collection, Iterator

from ..host.host import Host
from ..host.system import Finished
from ..model.errors import HostError
from ..model.record import dataclass, regex
from .timeout import TIMED_OUT, limited

PROGRAM = "ib_write_bw"

#: perftest_parameters.h: where the server listens unless it is set
TCP_PORT = 18515

#: perftest leaves out two seconds at each end (its --margin), and wants something to be left
LEAST_SECONDS = 5

#: What both sides do before and after: memory is registered, queue pairs are made, results exchanged. Of that
#: a second is perftest's own sleep; the rest is a slow machine.
_AROUND = 30

#: How long an end may take that was asked for with SIGTERM
_GRACE = 5

#: Between two attempts to reach a server that does not listen yet
_PAUSE = 1.0

_TITLE = "BW average[Gb/sec]"
_ROW = regex(
    r"^ *([0-9]{1,10}) +([0-9]{1,12}) +([0-9]{1,6}\.[0-9]{1,6}) +([0-9]{1,6}\.[0-9]{1,6})\s", re.MULTILINE
)
_NOT_YET = "Couldn't connect to"


@dataclass(frozen=True)
class Request:
    """One side of a measurement. peer: whom to connect to; "" serves. gid: None where the port has LIDs."""

    device: str
    port: int
    peer: str
    gid: int | None
    size: int
    seconds: int
    tcp_port: int
    wait: int

    @property
    def most(self) -> int:
        """The seconds after which it is over, whatever happens."""
        return self.seconds + _AROUND + (0 if self.peer else self.wait)

    @property
    def command(self) -> list[str]:
        argv = [PROGRAM, "-d", self.device, "-i", str(self.port), "-s", str(self.size), "-F"]
        argv += ["-D", str(self.seconds), "-p", str(self.tcp_port), "--report_gbits"]
        argv += [] if self.gid is None else ["-x", str(self.gid)]
        return [*argv, self.peer] if self.peer else argv

    @property
    def guarded(self) -> list[str]:
        """Under timeout(1), which ends it even if its parent was killed."""
        return limited(self.command, self.most, _GRACE)


@dataclass(frozen=True)
class Outcome:
    """gbits: None where nothing was measured; text and advice then have why, and what to do."""

    gbits: float | None
    words: str = ""
    advice: str = ""


def measure(
    host: Host,
    request: Request,
    cpus: Collection[int],
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Outcome:
    """Run one side to its end, on these CPUs. A server that does not listen yet is awaited."""
    end = now() + request.wait
    try:
        with running_on(cpus):
            while True:
                done = host.run(request.guarded, request.most + 2 * _GRACE)
                if not request.peer or _NOT_YET not in done.err or now() >= end:
                    return outcome(done, request)
                sleep(_PAUSE)
    except HostError as error:
        return Outcome(None, str(error), "look at the system, which has timeout(1) of coreutils")


@contextlib.contextmanager
def running_on(cpus: Collection[int]) -> Iterator[None]:
    """Have what is started meanwhile run there, with memory from there. None: as it was.

    CPUs of which this process may use none, as in a container, change nothing.
    """
    before = os.sched_getaffinity(0)
    allowed = before & {*cpus}
    if allowed:
        os.sched_setaffinity(0, allowed)
    try:
        yield
    finally:
        if allowed:
            os.sched_setaffinity(0, before)


# -- what it says --------------------------------------------------------------------------


def outcome(done: Finished, request: Request) -> Outcome:
    """Of one that has ended."""
    gbits = average(done.out)
    if done.rc == 0 and gbits is not None:
        return Outcome(gbits)
    if done.rc in TIMED_OUT and not request.peer:
        problem = f"no client connected and was done within {request.most} s"
        return Outcome(None, problem, "start the other side, and let TCP to this port through the firewall")
    text = f"{done.out}\n{done.err}"
    for sign, meaning in _MEANINGS:
        match = sign.search(text)
        if match:
            return Outcome(None, f"{PROGRAM}: {_line(match.group())}", meaning)
    lines = [line for line in done.err.splitlines() if line.strip()]
    if done.rc in TIMED_OUT:
        return Outcome(None, f"{PROGRAM} did not end within {request.most} s", _PATH)
    last = _line(lines[-1]) if lines else "it printed no average"
    return Outcome(None, f"{PROGRAM} ended with {done.rc}: {last}", "run it by hand on both sides")


def average(text: str) -> float | None:
    """Gb/s of the one row below the title of that column; None for anything else."""
    _before, title, below = text.partition(_TITLE)
    rows = _ROW.findall(below) if title else []
    gbits = float(rows[0][3]) if len(rows) == 1 else 0.0
    # A row of zeros is what is left where every write has failed.
    return gbits or None


def _line(text: str) -> str:
    return " ".join(text.split())[:160]


_PATH = (
    "packets get lost between the ports: look at their MTUs (path_mtu), at VLANs, and at firewalls and "
    "routes for UDP port 4791; are both sides on one rail?"
)
_QUEUES = (
    "the port cannot reach the other one's address: compare GID index, its type (rdma_check: gid) and the "
    "MTU of both sides, and that both are InfiniBand, or both RoCE"
)
_BUSY_PORT = (
    "something listens on this TCP port already, maybe another measurement: wait for its end, or give both "
    "sides another tcp_port"
)
_NO_SERVER = "no server listens there: start the other side first, and let its TCP port through the firewall"
_MEMORY = "a queue cannot be made or memory not be locked: look at that limit (rdma_check: memlock)"
_PROVIDER = "user space does not know the device: install its driver's part of rdma-core (ibverbs-providers)"

#: What it prints → what to do. The first one that is found counts: later lines follow from earlier ones
_MEANINGS = (
    (regex(r"failed to run command.*"), "install perftest on both sides"),
    (regex(r"Couldn't connect to \S+"), _NO_SERVER),
    (regex(r"Couldn't listen to port.*|Failed to bind socket.*"), _BUSY_PORT),
    (regex(r"Found Incompatibility issue with GID types.*"), _QUEUES),
    (regex(r".*[Ff]ailed to modify QP.*RTR.*|Unable to Connect the HCA's through the link"), _QUEUES),
    # 12 is IBV_WC_RETRY_EXC_ERR: no answer to any of the retries
    (regex(r"Failed status [0-9]+"), _PATH),
    (regex(r"Completion with error at (?:client|server)"), _PATH),
    (regex(r"Couldn't (?:allocate MR|create).*|[Ff]ailed to create (?:MR|mr)"), _MEMORY),
    (regex(r"Unable to find the Infiniband/RoCE device.*|Did not detect devices.*"), _PROVIDER),
    (
        regex(r"Unable to init the socket connection|Failed to exchange data.*|Couldn't read.*"),
        "the other side has ended: its own words say why",
    ),
)
