# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that keep unused GPUs awake, and the daemons that do."""

from __future__ import annotations

from abc import abstractmethod
from typing import Mapping, Sequence

from ...host.host import Host, Mounts
from ...model.check import Check, Subject, if_installed
from ...model.errors import HostError
from ...model.record import NamedTuple
from . import nvidia_smi as smi
from .amd_module import AmdModule
from .amd_sysfs import path_of, required, strange
from .module import Card, GpuModule
from .nvidia_module import NvidiaModule

#: Words of a declaration: a GPU is kept awake, or not
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


class GpuAwake(GpuModule):
    """DAEMON, DAEMON_LEAVES: unit that keeps GPUs awake, and the option with which it does not; empty without
    one."""

    DAEMON: str = ""
    DAEMON_LEAVES: str = ""

    @abstractmethod
    def awake(self, host: Host, cards: Sequence[Card]) -> Mapping[str, Awake]:
        """Address → the file that keeps a GPU awake. cards: the GPUs of this vendor. Raises Nothing,
        HostError."""


class NvidiaAwake(NvidiaModule, GpuAwake):
    DAEMON = "nvidia-persistenced.service"
    #: With this the daemon runs and leaves all GPUs as they are, as Ubuntu starts it
    DAEMON_LEAVES = "--no-persistence-mode"

    def awake(self, host: Host, cards: Sequence[Card]) -> Mapping[str, Awake]:
        """As nvidia-persistenced sets it if it runs, else the driver (nvidia-persistenced(1))."""
        with if_installed():
            modes = smi.persistence(host)
        return {card.address: self._mode(card, modes.get(card.address, "")) for card in cards}

    def _mode(self, card: Card, mode: str) -> Awake:
        if mode in (smi.ON, smi.OFF):
            return Awake(smi.file_of(card.address), mode)
        if mode in smi.NOT_THERE:
            return Awake(lacks="has no persistence mode")
        if mode:
            return Awake(problem=str(smi.strange(mode)))
        if card.driver not in (None, self.MODULE):
            return Awake(lacks=f"belongs to {card.driver}")
        unseen = f"{smi.TOOL} does not show GPU {card.address}: it may have failed (look for Xid in dmesg)"
        return Awake(problem=unseen)


class AmdAwake(AmdModule, GpuAwake):
    def awake(self, host: Host, cards: Sequence[Card]) -> Mapping[str, Awake]:
        return {card.address: _awake(host, card) for card in cards}


def _awake(host: Host, card: Card) -> Awake:
    """auto: the kernel suspends an unused GPU."""
    if card.driver not in (None, AmdModule.MODULE):
        return Awake(lacks=f"belongs to {card.driver}")
    path = path_of(card.address, "power/control")
    try:
        mode = required(host, path).strip()
        if mode not in ("on", "auto"):
            raise strange(path, mode)
    except HostError as error:
        return Awake(problem=str(error))
    return Awake(path, mode, off="auto")


#: Folder of settings that only a vendor's tool reads and sets, and its virtual files
TOP = smi.TOP
MOUNTS: Mounts = {TOP: lambda: smi}
ALL: tuple[GpuAwake, ...] = (NvidiaAwake(), AmdAwake())
