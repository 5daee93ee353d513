# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kind of measurement: the interface for running it and for judging it, and a node's part of a campaign."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any, Protocol, Sequence

from ...host.host import Host
from ...host.system import Finished
from ...linux import iproute
from ...model.errors import HostError, UnfitError
from ...model.record import NamedTuple

#: Seconds before the first connection of a round. The peer's servers must start within them, and the
#: connection is retried for as long. Clocks may differ by as much.
LEAD = 1.0
#: Seconds after a program's time: results are exchanged and processes end
GAP = 1.5


#: Why a slot has no result: nothing listened at the peer; no connection could be made; a program did not end
#: in time. Or a connection carried nothing; the node missed the start of the slot; a program is missing or
#: ended with an error; any other reason
FAILED = REFUSED, UNREACHABLE, TIMEOUT, NOTHING, LATE, PROGRAM, OTHER = (
    "refused",
    "unreachable",
    "timeout",
    "nothing",
    "late",
    "program",
    "other",
)


class Unit(NamedTuple):
    """key: as in field names. words: for people. lower: less is better."""

    key: str
    words: str
    lower: bool = False


GBITS = Unit("gbits", "Gb/s")
USEC = Unit("usec", "usec", lower=True)


class Slot(NamedTuple):
    """One round. rails: (own address, peer's address) of each rail; all rails run at the same time."""

    round: int
    peer: str
    serves: bool
    rails: tuple[tuple[str, str], ...]


class Device(NamedTuple):
    """An RDMA port as declared. gid: None to find the entry."""

    name: str
    port: int = 1
    gid: int | None = None


class Part(NamedTuple):
    """A node's part of a campaign.

    start: of round 0, in seconds since 1970; 0 if it is given later. addresses: one of this node per rail.
    devices: RDMA ports of the rails; empty to use the ports with the addresses. rounds: of the whole
    campaign; this node may rest in some.
    """

    id: str
    kind: Kind
    start: float
    rounds: int
    duration: int
    streams: int
    tcp_port: int
    addresses: tuple[str, ...]
    slots: tuple[Slot, ...]
    allow: tuple[str, ...] = ()
    devices: tuple[Device, ...] = ()

    @property
    def step_seconds(self) -> float:
        return self.duration + self.kind.AROUND

    @property
    def round_seconds(self) -> float:
        return round_seconds(self.kind, self.duration)

    @property
    def lasts(self) -> float:
        """Seconds from the first round to the end of the last."""
        return self.rounds * self.round_seconds

    @property
    def end(self) -> float:
        return self.start + self.lasts

    def begin(self, slot: Slot) -> float:
        return self.start + slot.round * self.round_seconds


class End(NamedTuple):
    """This node's end of a rail. interface: holds or reaches its address; "" if unknown.

    The other fields describe an RDMA port. gid: entry of its GID table, None if it has LIDs. addressed: the
    entry is the address of the rail. gpu: number of the nearest GPU, as its vendor's library counts;
    gpu_address: its PCI address. dmabuf: the port reaches its memory as DMA-BUF.
    """

    interface: str
    device: str = ""
    port: int = 0
    gid: int | None = None
    addressed: bool = False
    cpus: tuple[int, ...] = ()
    gpu: int | None = None
    gpu_address: str = ""
    gpu_vendor: str = ""
    dmabuf: bool = False


class Rail(NamedTuple):
    """One rail of a pair. here, there: addresses of this node and of the peer. number: from 0."""

    here: str
    there: str
    number: int
    end: End


class Flow(Protocol):
    """A program at each end, with its command there.

    here, there: addresses of this node and of the peer. backward: the peer sends.
    """

    @property
    def here(self) -> str: ...
    @property
    def there(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def backward(self) -> bool: ...
    @property
    def client(self) -> list[str]: ...
    @property
    def server(self) -> list[str]: ...


class Kind(Protocol):
    """A module of this package with these names.

    A round has consecutive steps. In each step, all flows of all rails run at the same time.
    """

    #: Name in declarations and results
    NAME: str
    UNIT: Unit
    #: True if its rails are ports of RDMA devices
    RDMA: bool
    #: The main program, for messages
    PROGRAM: str
    #: Least share of the capacity of port and PCIe link; None: no comparison with the hardware
    SHARE: float | None
    #: Least distance of a limit from the median of similar pairs, as a share of the median
    MARGIN: float
    #: Fields that answer() always has, all amounts, and the judged ones: the worst of them counts
    FIELDS: tuple[str, ...]
    JUDGED: tuple[str, ...]
    STEPS: int
    #: Seconds of a step that are not measured
    AROUND: float
    #: The unit of count() and carried()
    COUNTED: str
    #: The failure of a client whose server is_early() until the end
    EARLY: str

    def require(self, host: Host) -> None:
        """Raises HostError if a program is missing or lacks a feature."""

    def ends(self, host: Host, part: Part) -> list[End]:
        """This node's ends of all rails. Raises RefusedError or HostError if one cannot be used."""

    def flows(self, part: Part, rail: Rail, step: int) -> Sequence[Flow]:
        """Flows of one rail in one step, in the same order at both ends."""

    def cpus(self, flow: Any, /) -> Sequence[int]:
        """CPUs for its programs; empty for all."""

    def place(self, host: Host, flow: Any) -> str:
        """Counting point of the traffic. Raises HostError, and UnfitError if it stays on the node."""

    def count(self, host: Host, flow: Any, place: str) -> float:
        """Amount that has passed there in the flow's direction so far. Raises HostError, UnfitError."""

    def resent(self, host: Host, flow: Any, place: str) -> float | None:
        """Lost and resent packets in the flow's direction so far; None if the place does not count them."""

    def loss(self, measured: Sequence[Any], resent: float | None, crossed: float) -> float | None:
        """Share of resent data in all data that the flows of one step sent, 0 to 1; None if unknown.

        resent, crossed: increase of resent() and of count() during the step.
        """

    def is_early(self, done: Finished) -> bool:
        """True if the client ended because its server did not listen yet."""

    def read(self, done: Finished, flow: Any) -> Any:
        """Result of a client. Raises UnfitError unless the output is this measurement, complete."""

    def carried(self, measured: Any) -> float:
        """Least amount sent for a result, in the unit of count()."""

    def stranger(self, done: Finished, flow: Any) -> str:
        """Address of a client that connected instead of the peer; "" if none did. Raises UnfitError."""

    def answer(self, steps: Sequence[Sequence[Any]], cpus: int, /) -> dict[str, Any]:
        """Fields of the slot's answer, from the results of the flows of each step. Raises UnfitError."""

    def overhead(self, mtu: int) -> tuple[int, int]:
        """Bytes of payload in a full packet, and bytes of its headers on the wire."""


def round_seconds(kind: Kind, duration: int) -> float:
    """Seconds of a round whose steps are measured for `duration` seconds each."""
    return LEAD + kind.STEPS * (duration + kind.AROUND)


def started(host: Host, command: Sequence[str], package: str) -> Finished:
    """Run a program with arguments that end it at once. Raises HostError if it does not start."""
    try:
        return host.run(command)
    except HostError as error:
        advice = f": install {package}" if error.absent else ""
        raise HostError("use", command[0], None, f"{error.kernel}{advice}") from error


def leaves_by(host: Host, here: str, there: str) -> str:
    """Interface that leads to a peer. Raises HostError, UnfitError."""
    try:
        interface = iproute.leaves_by(host, ip_address(here), ip_address(there))
    except HostError as error:
        if error.absent:
            raise
        raise UnfitError(str(error), UNREACHABLE) from error
    if interface == "lo":
        raise UnfitError(f"{there} is an address of this node itself: nothing would cross the network")
    return interface
