# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs and other accelerators, found by PCI class. Needs no vendor tool and no driver."""

from __future__ import annotations

from typing import Iterable

from .model import Gpu, PciDevice

#: Base and sub class (PCI Code and ID Assignment): VGA, 3D and other display controllers, accelerators
_VGA, _3D, _DISPLAY, _ACCELERATOR = 0x0300, 0x0302, 0x0380, 0x1200

_NVIDIA = 0x10DE

#: Vendors of accelerators for training, and the PCI classes they use. A display of any other vendor belongs
#: to a management controller (ASPEED, Matrox) or a hypervisor (Cirrus, Bochs, virtio, QXL, VMware, Hyper-V).
_VENDORS = {
    _NVIDIA: ("NVIDIA", (_VGA, _3D, _DISPLAY)),
    0x1002: ("AMD", (_VGA, _3D, _DISPLAY, _ACCELERATOR)),
    0x8086: ("Intel", (_VGA, _3D, _DISPLAY)),
    0x1DA3: ("Habana", (_ACCELERATOR,)),
}

#: NVIDIA's GPUs with a coherent link to their CPU, by the kernel's own list of them (drivers/vfio/pci/
#: nvgrace-gpu/main.c: nvgrace_gpu_vfio_pci_table): GH200 three times, GB200, GB300
_COHERENT = frozenset((0x2342, 0x2345, 0x2348, 0x2941, 0x31C2))

#: Address of the graphics built into Intel processors, which drive a monitor
_INTEGRATED = "0000:00:02.0"


def find(devices: Iterable[PciDevice]) -> tuple[Gpu, ...]:
    """By address, which is the order of nvidia-smi and of CUDA_DEVICE_ORDER=PCI_BUS_ID."""
    return tuple(
        Gpu(
            device.address,
            _VENDORS[device.vendor][0],
            device.device,
            device.node,
            device.driver,
            device.link,
            coherent=device.vendor == _NVIDIA and device.device in _COHERENT,
        )
        for device in devices
        if _is_gpu(device)
    )


def _is_gpu(device: PciDevice) -> bool:
    if device.vendor not in _VENDORS or device.physfn is not None:
        return False
    kind = device.class_code >> 8
    if device.vendor == 0x8086 and kind == _VGA and device.address == _INTEGRATED:
        return False
    return kind in _VENDORS[device.vendor][1]
