# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs and other accelerators, found by PCI class. Needs no vendor tool and no driver."""

from __future__ import annotations

from typing import Iterable, Iterator

from ..model import accelerators
from .model import Gpu, PciDevice

#: NVIDIA's GPUs with a coherent link to their CPU, by the kernel's own list of them (drivers/vfio/pci/
#: nvgrace-gpu/main.c: nvgrace_gpu_vfio_pci_table): GH200 three times, GB200, GB300
_COHERENT = frozenset((0x2342, 0x2345, 0x2348, 0x2941, 0x31C2))

#: Graphics built into Intel processors, which drive a monitor
_INTEGRATED = (accelerators.INTEL, accelerators.VGA, "0000:00:02.0")


def find(devices: Iterable[PciDevice]) -> tuple[Gpu, ...]:
    """By address, which is the order of nvidia-smi and of CUDA_DEVICE_ORDER=PCI_BUS_ID."""
    return tuple(
        Gpu(
            device.address,
            name,
            device.device,
            device.node,
            device.driver,
            device.link,
            coherent=device.vendor == accelerators.NVIDIA and device.device in _COHERENT,
        )
        for device, name in _named(devices)
    )


def unknown(devices: Iterable[PciDevice]) -> tuple[PciDevice, ...]:
    """Processing accelerators of vendors that are not in the table, so nothing is known of their files."""
    return tuple(
        device
        for device in devices
        if device.class_code >> 8 == accelerators.PROCESSING
        and device.vendor not in accelerators.VENDORS
        and device.physfn is None
    )


def _named(devices: Iterable[PciDevice]) -> Iterator[tuple[PciDevice, str]]:
    for device in devices:
        vendor = accelerators.vendor_of(device.vendor, device.device, device.class_code)
        here = (device.vendor, device.class_code >> 8, device.address)
        if vendor is not None and device.physfn is None and here != _INTEGRATED:
            yield device, vendor.name
