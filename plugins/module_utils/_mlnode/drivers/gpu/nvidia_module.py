# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel modules of NVIDIA's driver."""

from __future__ import annotations

from typing import Sequence

from ...host.host import Host
from ...model.check import Nothing
from ...model.errors import HostError
from ...model.record import regex
from .module import Card, Export, GpuModule

#: Exists while the driver is loaded
DRIVER = "/proc/driver/nvidia/version"
#: The first line of the driver's version identifies the open or proprietary modules; only the open ones
#: export DMA-BUF
_OPEN = regex(r"NVIDIA UNIX Open Kernel Module", 0)


class NvidiaModule(GpuModule):
    VENDOR = "NVIDIA"
    MODULE = "nvidia"
    LOADED = DRIVER
    #: kernel-open/nvidia/nv-procfs.c
    PARAMETERS = ("/proc/driver/nvidia/params", "NVreg_")
    PEERS = ("nv_mem", "nv_mem_nc", "nvidia-peermem")
    PEER_MODULES = ("nvidia_peermem", "nv_peer_mem", "efa_nv_peermem")
    PEER_ADVICE = (
        "load nvidia_peermem with the RDMA drivers of DOCA-OFED, or install NVIDIA's open kernel "
        "modules on a kernel since 5.12"
    )

    #: nv_mem_client_init() of a module without these symbols only returns EINVAL
    #: (kernel-open/nvidia-peermem/nvidia-peermem.c)
    PEER_REBUILD = "build NVIDIA's driver again with DOCA-OFED installed"
    PEER_SOURCE = "NVIDIA GPUDirect RDMA, nvidia-peermem"

    def require(self, host: Host) -> None:
        try:
            host.read(DRIVER)
        except HostError as error:
            if error.absent:
                raise Nothing(f"{error.missing}: NVIDIA's driver is not loaded", DRIVER) from error
            raise

    def exports(self, host: Host, cards: Sequence[Card], release: str) -> Export:
        del release
        version = host.value(DRIVER)
        bound = any(card.driver == self.MODULE for card in cards)
        if version.unreadable is not None or (version.text is None and bound):
            return Export(None, version.problem, DRIVER)
        if version.text is None:
            return Export(False, f"no driver of NVIDIA is loaded ({version.problem})", DRIVER)
        first = version.text.split("\n", 1)[0].strip()
        if not first:
            return Export(None, f"{DRIVER} is empty", DRIVER)
        if _OPEN.search(first):
            return Export(True, "the open kernel modules export DMA-BUF", DRIVER)
        return Export(False, f"not the open kernel modules, so no DMA-BUF ({first[:90]})", DRIVER)
