# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interface of a driver of GPUs. Checks and areas use it, and know no vendor."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Callable, Iterable, Iterator, Mapping, Sequence, Tuple, Union

from ...host.host import Host
from ...model.check import Check, Subject, findings
from ...model.errors import HostError
from ...model.log import Event, Line
from ...model.record import replace
from .awake import GpuAwake
from .module import Card

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


class GpuDriver(GpuAwake):
    """A vendor's driver.

    LOOKS: topics, with the source of each answer. MESSAGES: about errors in the kernel's log. SUPPORTS:
    features for the documentation. PERSISTENCE: whether a GPU is kept awake.
    """

    LOOKS: tuple[Look, ...]
    MESSAGES: Subject
    SUPPORTS: Mapping[str, str]
    PERSISTENCE: Subject

    @abstractmethod
    def events(self, lines: Sequence[Line]) -> Iterator[tuple[str, Event]]:
        """Errors in the kernel's log, the oldest first, with the GPU or switch that they are about."""

    @abstractmethod
    def alike(self, host: Host, cards: Sequence[Card]) -> str:
        """Versions of driver and firmware, and partitions, to compare nodes by. Raises HostError."""

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
