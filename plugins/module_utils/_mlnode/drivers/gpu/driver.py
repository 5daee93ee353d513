# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interface of a driver of GPUs. Checks and areas use it, and know no vendor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Callable, Iterable, Iterator, Mapping, Protocol, Sequence, Tuple, Union

from ...host.host import Host
from ...model.check import Check, Subject, findings
from ...model.errors import HostError
from ...model.log import Event, Line
from ...model.record import NamedTuple, replace


class Card(Protocol):
    """A GPU on PCI. address: as in sysfs. device: the PCI device number. driver: of the kernel, None without
    one."""

    @property
    def address(self) -> str: ...
    @property
    def device(self) -> int: ...
    @property
    def driver(self) -> str | None: ...


#: Returns findings about GPUs, or raises Nothing or HostError
Ask = Callable[[Host, Sequence[Card]], Union[Check, Iterable[Check]]]
#: Topics, and the function that answers them
Look = Tuple[Tuple[Subject, ...], Ask]


def each(topic: Subject, cards: Sequence[Card], judge: Callable[[Subject, str], Check]) -> Iterator[Check]:
    """The finding about each GPU by its address; unknown if judge() raises HostError."""
    for card in cards:
        subject = replace(topic, target=f"GPU {card.address}")
        try:
            yield judge(subject, card.address)
        except HostError as error:
            yield subject.unknown(str(error))


def models(cards: Sequence[Card]) -> list[list[Card]]:
    """GPUs of each model together: others have other firmware and other links."""
    alike: dict[int, list[Card]] = {}
    for card in cards:
        alike.setdefault(card.device, []).append(card)
    return [*alike.values()]


def supports(looks: Sequence[Look], *topics: Subject, **others: str) -> dict[str, str]:
    """Feature → interface, for the documentation."""
    named = [topic for answers, _ask in looks for topic in answers]
    return {**{topic.name: f"`{topic.source}`" for topic in (*named, *topics)}, **others}


class Export(NamedTuple):
    """Whether the driver exports GPU memory as DMA-BUF. works: None if unknown."""

    works: bool | None
    words: str
    source: str


#: Words of a declaration for a GPU that is kept awake, and for one that is not
ON, OFF = "on", "off"


class Awake(NamedTuple):
    """The file that keeps a GPU awake. now: its text. on, off: the words that it takes. lacks: why the GPU
    has none. problem: why it is unknown."""

    path: str = ""
    now: str = ""
    on: str = ON
    off: str = OFF
    lacks: str = ""
    problem: str = ""

    def check(self, subject: Subject) -> Check:
        if self.problem:
            return subject.unknown(self.problem)
        if self.lacks:
            return subject.skip(f"it {self.lacks}")
        return subject.judged(self.now == self.on, self.now, expected=self.on)


class GpuDriver(ABC):
    """A vendor's driver.

    VENDOR: as in the topology. MODULE: name of the kernel's driver. LOADED: path that exists while it is
    loaded. PARAMETERS: file with the values of its parameters, and the prefix of their names; empty if sysfs
    has them. LOOKS: topics, with the source of each answer. MESSAGES: about errors in the kernel's log.
    SUPPORTS: features for the documentation.
    PEERS, PEER_MODULES: names under which its modules register with an RDMA core that takes peer memory, and
    these modules. PEER_ADVICE: how to let NICs access its memory. PEER_REBUILD: remedy for a module that does
    not fit the RDMA core. PEER_SOURCE: document about it.
    PERSISTENCE: whether a GPU is kept awake. DAEMON, DAEMON_LEAVES: unit that keeps GPUs awake, and the
    option with which it does not; empty without one.
    """

    VENDOR: str
    MODULE: str
    LOOKS: tuple[Look, ...]
    MESSAGES: Subject
    SUPPORTS: Mapping[str, str]
    PEERS: tuple[str, ...]
    PEER_MODULES: tuple[str, ...]
    PEER_ADVICE: str
    PEER_REBUILD: str = ""
    PEER_SOURCE: str = ""
    LOADED: str
    PERSISTENCE: Subject
    DAEMON: str = ""
    DAEMON_LEAVES: str = ""
    PARAMETERS: tuple[str, str] = ("", "")

    @abstractmethod
    def require(self, host: Host) -> None:
        """Raises Nothing if the driver is not loaded, and HostError."""

    @abstractmethod
    def awake(self, host: Host, cards: Sequence[Card]) -> Mapping[str, Awake]:
        """Address → the file that keeps a GPU awake. cards: the GPUs of this vendor. Raises Nothing,
        HostError."""

    @abstractmethod
    def events(self, lines: Sequence[Line]) -> Iterator[tuple[str, Event]]:
        """Errors in the kernel's log, the oldest first, with the GPU or switch that they are about."""

    @abstractmethod
    def alike(self, host: Host, cards: Sequence[Card]) -> str:
        """Versions of driver and firmware, and partitions, to compare nodes by. Raises HostError."""

    @abstractmethod
    def exports(self, host: Host, cards: Sequence[Card], release: str) -> Export:
        """release: of a kernel whose NIC drivers accept DMA-BUF."""

    @abstractmethod
    def computing(self, host: Host) -> Mapping[int, tuple[str, ...]]:
        """Process id → addresses of the GPUs that it computes on; empty if unknown."""

    @abstractmethod
    def numbered(self, host: Host, addresses: Iterable[str]) -> Sequence[str]:
        """Addresses of GPUs in the order in which its computing library counts them. addresses: of this
        vendor's. Raises HostError."""

    def checks(self, host: Host, cards: Sequence[Card]) -> Iterator[Check]:
        """Findings about all topics. cards: the GPUs of this vendor."""
        for topics, look in (*self.LOOKS[:1], ((self.PERSISTENCE,), self._awake), *self.LOOKS[1:]):
            yield from findings(topics, partial(self._look, look, host, cards))

    def _awake(self, host: Host, cards: Sequence[Card]) -> Iterator[Check]:
        for address, state in self.awake(host, cards).items():
            yield state.check(replace(self.PERSISTENCE, target=f"GPU {address}"))

    def _look(self, look: Ask, host: Host, cards: Sequence[Card]) -> Check | Iterable[Check]:
        self.require(host)
        return look(host, cards)
