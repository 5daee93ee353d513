# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kind of measurement: what each of them offers to those who run it and to those who judge it, and a node's
part of a campaign, which all of them take."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any, Protocol, Sequence

from ...host.host import Host
from ...host.system import Finished
from ...linux import iproute
from ...model.errors import HostError, UnfitError
from ...model.record import NamedTuple

#: Before the first connection of a round, in seconds, in which the peer's servers have to be there, and for
#: as long the connection is tried again. Clocks may differ by so much.
LEAD = 1.0
#: After a program's time is over, in seconds: results are exchanged, processes end
GAP = 1.5


#: Why a slot has no result: nothing listened at the peer; no connection could be made; a program did not
#: end in time; nothing came through a connection; a node missed the start of the slot; a program is missing
#: or ended with an error; anything else
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
    """key: as in the names of fields. words: for people. lower: less is better."""

    key: str
    words: str
    lower: bool = False


GBITS = Unit("gbits", "Gb/s")
USEC = Unit("usec", "usec", lower=True)


class Slot(NamedTuple):
    """One round. rails: own address and the peer's, on each rail at the same time."""

    round: int
    peer: str
    serves: bool
    rails: tuple[tuple[str, str], ...]


class Device(NamedTuple):
    """An RDMA port as it is given. gid: None for the entry that is found."""

    name: str
    port: int = 1
    gid: int | None = None


class Part(NamedTuple):
    """start: of round 0, in seconds since 1970; 0 if it is given later. addresses: own ones, one for each
    rail. devices: RDMA ports of the rails; none for those that have the addresses. rounds: of the whole
    campaign, in some of which this node may rest."""

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
        """Seconds from the first round to the end of the last one."""
        return self.rounds * self.round_seconds

    @property
    def end(self) -> float:
        return self.start + self.lasts

    def begin(self, slot: Slot) -> float:
        return self.start + slot.round * self.round_seconds


class End(NamedTuple):
    """Own end of a rail. interface: through which its address is reached; "" if not known.

    The others are of an RDMA port. gid: entry of its GID table, None where it has LIDs. addressed: that entry
    is the address of the rail. gpu: number of the nearest GPU, in the order of PCI addresses, and gpu_address
    where it is.
    """

    interface: str
    device: str = ""
    port: int = 0
    gid: int | None = None
    addressed: bool = False
    cpus: tuple[int, ...] = ()
    gpu: int | None = None
    gpu_address: str = ""


class Rail(NamedTuple):
    """One rail of a pair. here, there: addresses of this node and of the peer. number: from 0 on."""

    here: str
    there: str
    number: int
    end: End


class Flow(Protocol):
    """A program at each end, with the commands that are called there. here, there: addresses of this node and
    of the peer. backward: the peer sends."""

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
    """A module of this package with these names. A round has steps, one after the other; in each of them, all
    flows of all rails run at the same time."""

    #: As in declarations and results
    NAME: str
    UNIT: Unit
    #: Its rails are ports of RDMA devices
    RDMA: bool
    #: The main program, for messages
    PROGRAM: str
    #: Part of what port and PCIe link carry that has to be measured; None: it is not compared with hardware
    SHARE: float | None
    #: A limit is never nearer to the median of like pairs than this part of it.
    MARGIN: float
    #: What answer() has at least, each of them an amount; and those that are judged: the worst of them counts
    FIELDS: tuple[str, ...]
    JUDGED: tuple[str, ...]
    STEPS: int
    #: Seconds of a step beside those that are measured
    AROUND: float
    #: What count() and carried() count
    COUNTED: str
    #: The failure of a client whose server is_early() until the end
    EARLY: str

    def require(self, host: Host) -> None:
        """Raises HostError where a program is missing or cannot do this."""

    def ends(self, host: Host, part: Part) -> list[End]:
        """Own ends of all rails. Raises RefusedError, HostError where one cannot be used."""

    def flows(self, part: Part, rail: Rail, step: int) -> Sequence[Flow]:
        """Of one rail in one step, in the same order at both ends."""

    def cpus(self, flow: Any, /) -> Sequence[int]:
        """Where its programs run; none for anywhere."""

    def place(self, host: Host, flow: Any) -> str:
        """Where the traffic leaves. Raises HostError, UnfitError if it would not leave."""

    def count(self, host: Host, flow: Any, place: str) -> float:
        """How much has passed there in the direction of the flow so far. Raises HostError, UnfitError."""

    def resent(self, host: Host, flow: Any, place: str) -> float | None:
        """Number of packets in the direction of the flow that were lost and sent again so far, as the place
        counts them; None if it does not."""

    def loss(self, measured: Sequence[Any], resent: float | None, crossed: float) -> float | None:
        """Share, from 0 to 1, of what the flows of one step sent that was sent again; None if it is not
        known. resent, crossed: rise of resent() and of count() meanwhile."""

    def is_early(self, done: Finished) -> bool:
        """The server of the client that has ended does not listen yet."""

    def read(self, done: Finished, flow: Any) -> Any:
        """Result of a client. Raises UnfitError for all that is not this measurement as a whole."""

    def carried(self, measured: Any) -> float:
        """How much was sent for it at least, as count() counts."""

    def stranger(self, done: Finished, flow: Any) -> str:
        """Address of a client that came in place of the peer; "" for none. Raises UnfitError."""

    def answer(self, steps: Sequence[Sequence[Any]], cpus: int, /) -> dict[str, Any]:
        """Fields of the slot's answer, of what the flows of each step have measured. Raises UnfitError."""

    def overhead(self, mtu: int) -> tuple[int, int]:
        """Bytes of payload in a full packet, and of all that is around them on the wire."""


def round_seconds(kind: Kind, duration: int) -> float:
    """How long a round takes in which each step is measured for so many seconds."""
    return LEAD + kind.STEPS * (duration + kind.AROUND)


def started(host: Host, command: Sequence[str], package: str) -> Finished:
    """A program with words that end it at once. Raises HostError where it does not start."""
    try:
        return host.run(command)
    except HostError as error:
        advice = f": install {package}" if error.absent else ""
        raise HostError("use", command[0], None, f"{error.kernel}{advice}") from error


def leaves_by(host: Host, here: str, there: str) -> str:
    """Interface through which a peer is reached. Raises HostError, UnfitError."""
    try:
        interface = iproute.leaves_by(host, ip_address(here), ip_address(there))
    except HostError as error:
        if error.absent:
            raise
        raise UnfitError(str(error), UNREACHABLE) from error
    if interface == "lo":
        raise UnfitError(f"{there} is an address of this node itself: nothing would cross the network")
    return interface
