# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI configuration space as a function shows it: `config(...)` gives the bytes of `config` in sysfs.

Knows the registers by itself, so that a mistake in the library is none here. Names and offsets are those of
include/uapi/linux/pci_regs.h.
"""

from __future__ import annotations

import struct

#: Port types of the PCI Express capability, and whether the header is a bridge's
KINDS = {
    "endpoint": (0x0, False),
    "root port": (0x4, True),
    "upstream": (0x5, True),
    "downstream": (0x6, True),
    "conventional": (None, False),
}

#: What the kernel switches on in a bridge where there is an IOMMU (drivers/pci/pci.c: pci_std_enable_acs):
#: source validation, request redirect, completion redirect, upstream forwarding
ACS_BY_KERNEL = 0x01 | 0x04 | 0x08 | 0x10
#: What a switch's downstream port usually offers: all but egress control
ACS_OFFERED = 0x5F

#: How much is read by whom (drivers/pci/pci-sysfs.c: pci_read_config), and where there is no extended space
FOR_ANYBODY, CONVENTIONAL, WHOLE = 64, 256, 4096

_EXPRESS, _VPD, _POWER = 0x60, 0x48, 0x40
_AER, _ACS, _ATS = 0x100, 0x1C0, 0x230
_SPEEDS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}


def config(
    kind: str = "endpoint",
    *,
    ident: str = "15b3:1021",
    payload: int = 256,
    payload_supported: int = 512,
    read_request: int = 4096,
    relaxed_ordering: bool = True,
    speed: str = "32.0",
    width: int = 16,
    max_speed: str = "32.0",
    max_width: int = 16,
    acs: int | None = None,
    ats: bool | None = None,
    size: int = WHOLE,
) -> bytes:
    """A function's configuration space, by default a ConnectX-7 as it should be.

    acs: the control word, such as ACS_BY_KERNEL; ats: whether it is enabled; None for no such capability.
    size: how many bytes were read of it.
    """
    space = bytearray(WHOLE)
    port, bridge = KINDS[kind]
    vendor, device = (int(part, 16) for part in ident.split(":"))
    struct.pack_into("<HHHH", space, 0, vendor, device, 0x0406, 0x0010)
    space[0x0E] = 1 if bridge else 0
    space[0x34] = _VPD if port is None else _EXPRESS
    if port is not None:
        struct.pack_into("<BBH", space, _EXPRESS, 0x10, _VPD, port << 4 | 2)
        struct.pack_into("<I", space, _EXPRESS + 0x04, _size(payload_supported) | 0x8020)
        control = 0x0F | relaxed_ordering << 4 | _size(payload) << 5 | 1 << 8 | _size(read_request) << 12
        struct.pack_into("<H", space, _EXPRESS + 0x08, control)
        struct.pack_into("<I", space, _EXPRESS + 0x0C, _SPEEDS[max_speed] | max_width << 4)
        struct.pack_into("<H", space, _EXPRESS + 0x12, _SPEEDS[speed] | width << 4)
        _extended(space, acs, ats)
    struct.pack_into("<BB", space, _VPD, 0x03, _POWER)
    struct.pack_into("<BBH", space, _POWER, 0x01, 0, 0x0003)
    return bytes(space[:size])


def _size(octets: int) -> int:
    """The code of 128, 256 ... 4096."""
    return octets.bit_length() - 8


def _extended(space: bytearray, acs: int | None, ats: bool | None) -> None:
    """Error reporting, which every function has, then what is asked for."""
    places = [(_AER, 0x0001)]
    if acs is not None:
        places.append((_ACS, 0x000D))
        struct.pack_into("<HH", space, _ACS + 4, ACS_OFFERED | acs, acs)
    if ats is not None:
        places.append((_ATS, 0x000F))
        struct.pack_into("<HH", space, _ATS + 4, 0x0020, 0x8000 if ats else 0)
    for at, (place, name) in enumerate(places):
        following = places[at + 1][0] if at + 1 < len(places) else 0
        struct.pack_into("<I", space, place, name | 1 << 16 | following << 20)
