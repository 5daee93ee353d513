# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interface of the kernel module of a vendor's GPUs: its parameters, and peer memory for NICs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol, Sequence

from ...host.host import Host
from ...model.record import NamedTuple


class Card(Protocol):
    """A GPU on PCI. address: as in sysfs. device: the PCI device number. driver: of the kernel, None without
    one."""

    @property
    def address(self) -> str: ...
    @property
    def device(self) -> int: ...
    @property
    def driver(self) -> str | None: ...


class Export(NamedTuple):
    """Whether the driver exports GPU memory as DMA-BUF. works: None if unknown."""

    works: bool | None
    words: str
    source: str


class GpuModule(ABC):
    """A vendor's module.

    VENDOR: as in the topology. MODULE: name of the kernel's driver. LOADED: path that exists while it is
    loaded. PARAMETERS: file with the values of its parameters, and the prefix of their names; empty if sysfs
    has them.
    PEERS, PEER_MODULES: names under which its modules register with an RDMA core that takes peer memory, and
    these modules. PEER_ADVICE: how to let NICs access its memory. PEER_REBUILD: remedy for a module that does
    not fit the RDMA core. PEER_SOURCE: document about it.
    """

    VENDOR: str
    MODULE: str
    LOADED: str
    PARAMETERS: tuple[str, str] = ("", "")
    PEERS: tuple[str, ...]
    PEER_MODULES: tuple[str, ...]
    PEER_ADVICE: str
    PEER_REBUILD: str = ""
    PEER_SOURCE: str = ""

    @abstractmethod
    def require(self, host: Host) -> None:
        """Raises Nothing if the driver is not loaded, and HostError."""

    @abstractmethod
    def exports(self, host: Host, cards: Sequence[Card], release: str) -> Export:
        """release: of a kernel whose NIC drivers accept DMA-BUF."""
