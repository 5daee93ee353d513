# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands, result tables and error messages of ib_write_bw and ib_write_lat (perftest).

The server listens, the client connects over TCP, and they exchange addresses of queue pairs. For bandwidth
the client writes into the server's memory as fast as it can. For latency both write in turn, each after it
has seen the other's write.
"""

from __future__ import annotations

import contextlib
import os
import re
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Collection, Iterator, Mapping

from ..host.system import Finished
from ..model.record import NamedTuple, dataclass, regex
from .perftest_errors import MEANINGS, OF_CUDA, OF_ROCM, PATH, WITHOUT_CUDA, WITHOUT_ROCM, completion, line_of
from .timeout import TIMED_OUT

PROGRAM = "ib_write_bw"
LATENCY = "ib_write_lat"

#: Bytes of a message of a latency, as perftest has it (perftest_parameters.h, DEF_SIZE_LAT)
LEAST_SIZE = 2

#: Setup and end on both sides: registering memory, making queue pairs, exchanging results. One second of it
#: is perftest's own sleep; the rest is for a slow machine.
_AROUND = 30

_TITLE = "BW average[Gb/sec]"
_ROW = regex(
    r"^ *([0-9]{1,10}) +([0-9]{1,12}) +([0-9]{1,6}\.[0-9]{1,6}) +([0-9]{1,6}\.[0-9]{1,6})"
    r"[ \t]+([0-9]{1,6}\.[0-9]{1,6})[ \t]*\r?\n",
    re.MULTILINE,
)
#: perftest_parameters.h, RESULT_FMT_LAT
_LATENCY_TITLE = (
    "#bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] t_stdev[usec] "
    "99% percentile[usec] 99.9% percentile[usec]"
)
_LATENCY_ROW = regex(
    r"^ *([0-9]{1,10}) +([0-9]{1,12})" + 7 * r"[ \t]+([0-9]{1,9}\.[0-9]{2})" + r"[ \t]*\r?\n", re.MULTILINE
)

#: Two digits after the point, for small bandwidths; and a share beyond any rounding
_DIGIT, _ROUNDING = 0.01, 0.02

_DEVICE = regex(r"Device +: (\S+)")
_TRANSPORT = regex(r"Transport type : (\S+)")
_MTU = regex(r"^ Mtu +: ([0-9]{3,4})\[B\]", re.MULTILINE)
#: Bytes in decimal digits (perftest_communication.h, PERF_GID_FMT)
_GID = regex(r"^ GID: ((?:[0-9]{2,3}:){15}[0-9]{2,3})$", re.MULTILINE)

#: cuda_memory.c of perftest, init_gpu()
_GPU = regex(r"^CUDA device ([0-9]+): PCIe address is ([0-9A-F]{2}:[0-9A-F]{2})$", re.MULTILINE)
_PICKED = regex(r"^Picking device No\. ([0-9]+)$", re.MULTILINE)
#: rocm_memory.c, init_rocm(): the bus alone
_BUS = regex(r"^Using ROCm Device with ID: [0-9]+, .*PCI Bus ID: 0x([0-9a-f]{1,2}),", re.MULTILINE)
_ALLOCATED = regex(r"^allocated (?:[0-9]+ bytes of )?GPU buffer", re.MULTILINE)

#: Error of a client that could not reach the server yet
NOT_YET = "Couldn't connect to"


@dataclass(frozen=True)
class Request:
    """One side of a measurement. peer: the server's address; "" serves. gid: None if the port has LIDs.

    seconds: of a bandwidth, including the margins at both ends. margin: their length, None for perftest's
    own. iterations: of a latency, in place of seconds; 0 for a bandwidth. backward: the server writes. gpu:
    number of the GPU whose memory is used, as its library counts; None for the host's. vendor: of it. dmabuf:
    the port reaches this memory as DMA-BUF.
    """

    device: str
    port: int
    peer: str
    gid: int | None
    size: int
    seconds: int
    tcp_port: int
    margin: int | None = None
    iterations: int = 0
    backward: bool = False
    gpu: int | None = None
    vendor: str = ""
    dmabuf: bool = False

    @property
    def most(self) -> int:
        """Seconds after which it ends in any case."""
        return self.seconds + _AROUND

    @property
    def program(self) -> str:
        return LATENCY if self.iterations else PROGRAM

    @property
    def command(self) -> list[str]:
        memory = None if self.gpu is None else MEMORIES[self.vendor]
        argv = [] if memory is None else [*memory.order]
        argv += [self.program, "-d", self.device, "-i", str(self.port), "-s", str(self.size), "-F"]
        argv += ["-n", str(self.iterations)] if self.iterations else ["-D", str(self.seconds)]
        argv += [] if self.margin is None else ["-f", str(self.margin)]
        argv += ["-p", str(self.tcp_port)]
        argv += [] if self.iterations else ["--report_gbits"]
        argv += [] if self.gid is None else ["-x", str(self.gid)]
        argv += ["--reversed"] if self.backward else []
        argv += [] if memory is None else [f"{memory.option}={self.gpu}"]
        argv += [memory.dmabuf] if memory is not None and self.dmabuf else []
        return [*argv, self.peer] if self.peer else argv


@dataclass(frozen=True)
class Failure:
    """Why nothing was measured, and the remedy."""

    words: str
    advice: str


@contextlib.contextmanager
def running_on(cpus: Collection[int]) -> Iterator[None]:
    """Run programs started in the block on these CPUs, with memory near them. Empty: no change.

    CPUs that this process may not use, as in a container, are ignored; without any other, nothing changes.
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


# -- output --------------------------------------------------------------------------------


def failure(done: Finished, request: Request) -> Failure:
    """Why a finished program has no result."""
    text = f"{done.out}\n{done.err}"
    failed = completion(text)
    if failed:
        return Failure(f"{request.program}: {failed[0]}", failed[1])
    if done.rc in TIMED_OUT and not request.peer:
        problem = f"no client connected and was done within {request.most} s"
        return Failure(problem, "start the other side, and let TCP to this port through the firewall")
    of_memory = () if request.gpu is None else MEMORIES[request.vendor].meanings
    for sign, meaning in (*of_memory, *MEANINGS):
        match = sign.search(text)
        if match:
            return Failure(f"{request.program}: {line_of(match.group())}", meaning)
    lines = [line for line in done.err.splitlines() if line.strip()]
    if done.rc in TIMED_OUT:
        return Failure(f"{request.program} did not end within {request.most} s", PATH)
    last = line_of(lines[-1]) if lines else "it printed no result"
    return Failure(f"{request.program} ended with {done.rc}: {last}", "run it by hand on both sides")


def is_path(why: Failure) -> bool:
    """True if the queue pairs were made, but their packets were lost."""
    return why.advice == PATH


class Bandwidth(NamedTuple):
    """size: of a message, in bytes. messages: per second."""

    size: int
    iterations: int
    gbits: float
    messages: float


def bandwidth(text: str) -> Bandwidth | None:
    """The one row below its title; None for any other output, and for numbers in different units."""
    _before, title, below = text.partition(_TITLE)
    rows = _ROW.findall(below) if title else []
    if len(rows) != 1:
        return None
    size, iterations, _peak, average, millions = rows[0]
    measurement = Bandwidth(int(size), int(iterations), float(average), 1e6 * float(millions))
    # A row of zeros remains if every write has failed.
    if not measurement.gbits or not measurement.iterations or not measurement.messages:
        return None
    by_messages = measurement.messages * measurement.size * 8 / 1e9
    fits = abs(measurement.gbits - by_messages) <= _DIGIT + _ROUNDING * measurement.gbits
    return measurement if fits else None


class Latency(NamedTuple):
    """In usec, one way. typical: the median. p99, p999: percentiles 99 and 99.9."""

    size: int
    iterations: int
    least: float
    most: float
    typical: float
    average: float
    deviation: float
    p99: float
    p999: float


def latency(text: str) -> Latency | None:
    """As bandwidth(); also None for numbers out of order."""
    lines = text.splitlines(keepends=True)
    title = next(
        (place for place, line in enumerate(lines) if " ".join(line.split()) == _LATENCY_TITLE), None
    )
    rows = _LATENCY_ROW.findall("".join(lines[title + 1 :])) if title is not None else []
    if len(rows) != 1:
        return None
    size, iterations, *numbers = rows[0]
    times = Latency(int(size), int(iterations), *map(float, numbers))
    ordered = 0 < times.least <= times.typical <= times.p99 <= times.p999 <= times.most
    return times if ordered else None


class Header(NamedTuple):
    """Port and addresses of a measurement. gids: the own one and the peer's; empty if ports have LIDs."""

    device: str
    transport: str
    mtu: int
    gids: tuple[IPv4Address | IPv6Address, ...]


def header(text: str) -> Header | None:
    """The header; None if it is incomplete, as before the other side connects."""
    device, transport, mtu = (sign.search(text) for sign in (_DEVICE, _TRANSPORT, _MTU))
    if device is None or transport is None or mtu is None:
        return None
    try:
        raw = [bytes(map(int, digits.split(":"))) for digits in _GID.findall(text)]
    except ValueError:
        return None
    addresses = [IPv6Address(octets) for octets in raw]
    gids = tuple(address.ipv4_mapped or address for address in addresses)
    return Header(device.group(1), transport.group(1), int(mtu.group(1)), gids)


def gpu(text: str) -> str:
    """Bus and device of the GPU whose memory was used, such as 17:00, or the bus alone; "" for the host's."""
    if not _ALLOCATED.search(text):
        return ""
    bus = _BUS.search(text)
    if bus:
        return f"{int(bus.group(1), 16):02X}"
    picked = _PICKED.search(text)
    return dict(_GPU.findall(text)).get(picked.group(1), "") if picked else ""


def place(address: str, vendor: str) -> str:
    """Part of a PCI address by which perftest names a GPU: 17:00 or 17 for 0000:17:00.0."""
    _domain, bus, slot = address.upper().split(":")
    return bus if MEMORIES[vendor].by_bus else f"{bus}:{slot.partition('.')[0]}"


class Memory(NamedTuple):
    """Memory of a vendor's GPUs. option: takes the number of the GPU. dmabuf: option for DMA-BUF; without it
    perftest registers the memory like a program's own, which needs an RDMA core with peer memory. by_bus:
    perftest names a GPU by its bus alone. order: words before the program, by which the vendor's library
    counts GPUs as drivers/gpu does. without: advice if the option is not built in.
    """

    option: str
    dmabuf: str
    by_bus: bool
    order: tuple[str, ...]
    without: str
    meanings: tuple[tuple[Any, str], ...]


#: By default CUDA counts from the fastest GPU on (CUDA_DEVICE_ORDER).
MEMORIES: Mapping[str, Memory] = {
    "NVIDIA": Memory(
        "--use_cuda",
        "--use_cuda_dmabuf",
        False,
        ("env", "CUDA_DEVICE_ORDER=PCI_BUS_ID"),
        WITHOUT_CUDA,
        OF_CUDA,
    ),
    "AMD": Memory("--use_rocm", "--use_rocm_dmabuf", True, (), WITHOUT_ROCM, OF_ROCM),
}
