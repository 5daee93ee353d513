# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel module of AMD's GPUs."""

from __future__ import annotations

from typing import Sequence

from ...host.host import Host
from ...model.check import Nothing
from .amd_sysfs import LOADED, MODULE
from .module import Card, Export, GpuModule

#: Options that amdgpu requires (as perftest and RCCL check); newer kernels have only the first
_NEEDED, _FORMERLY_NEEDED = "CONFIG_PCI_P2PDMA", "CONFIG_DMABUF_MOVE_NOTIFY"


class AmdModule(GpuModule):
    VENDOR = "AMD"
    MODULE = MODULE
    LOADED = LOADED
    PEERS = ("amdkfd",)
    PEER_MODULES = ()
    PEER_ADVICE = "load amdgpu on a kernel since 5.12 that was built with CONFIG_PCI_P2PDMA"

    def require(self, host: Host) -> None:
        if not host.exists(LOADED):
            raise Nothing(f"{LOADED} does not exist: AMD's driver is not loaded", LOADED)

    def exports(self, host: Host, cards: Sequence[Card], release: str) -> Export:
        if not any(card.driver == MODULE for card in cards):
            return Export(False, "the driver amdgpu is not loaded", "/sys/bus/pci/devices")
        path = f"/boot/config-{release}"
        built = host.value(path)
        if "CONFIG_" not in (built.text or ""):
            return Export(None, built.problem or f"{path} names no option of a kernel", path)
        lines = frozenset(str(built.text).splitlines())
        if f"{_NEEDED}=y" not in lines or f"# {_FORMERLY_NEEDED} is not set" in lines:
            return Export(False, f"the kernel was built without {_NEEDED} or {_FORMERLY_NEEDED}", path)
        return Export(True, "amdgpu exports DMA-BUF", path)
