# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI configuration space, read as far as permitted: bytes in, registers out. Pure functions, except read().

Every reader has three results: the capability, None if it is surely absent, and ConfigError if it is unknown
because the bytes end too early or contradict each other. Offsets and masks come from
include/uapi/linux/pci_regs.h.
"""

from __future__ import annotations

import struct

from ..host.host import Host
from ..model.errors import HostError, MlnodeError
from ..model.record import dataclass
from .model import Link

#: Sizes in bytes: the header, which any user may read, and all of a conventional function
_HEADER, _CONVENTIONAL = 64, 256

_STATUS, _HAS_CAPABILITIES = 0x06, 0x10
_HEADER_TYPE, _CARDBUS = 0x0E, 2
_FIRST, _FIRST_CARDBUS = 0x34, 0x14

_EXPRESS, _ACS, _ATS = 0x10, 0x000D, 0x000F

#: Offsets of the registers of the PCI Express capability
_FLAGS, _DEVCAP, _DEVCTL, _LNKCAP, _LNKSTA = 0x02, 0x04, 0x08, 0x0C, 0x12
_RELAXED_ORDERING = 0x0010

_ATS_ENABLE = 0x8000

#: Code → the kernel's text (drivers/pci/probe.c: pci_speed_string)
_SPEEDS = {
    number: f"{speed} GT/s PCIe"
    for number, speed in enumerate(("2.5", "5.0", "8.0", "16.0", "32.0", "64.0"), 1)
}

#: The highest code with a meaning: 128 << 5 is 4096 bytes
_LARGEST = 5

#: Bit → its name in lspci(8)
_ACS_WORDS = (
    (0x01, "SrcValid"),
    (0x02, "TransBlk"),
    (0x04, "ReqRedir"),
    (0x08, "CmpltRedir"),
    (0x10, "UpstreamFwd"),
    (0x20, "EgressCtrl"),
    (0x40, "DirectTrans"),
)
#: Bits that send a packet for a neighbour up to the CPU: request and completion redirect, egress control
#: (drivers/pci/p2pdma.c: pci_bridge_has_acs_redir)
REDIRECT = 0x04 | 0x08 | 0x20


def with_bits(control: int, bits: str) -> int:
    """A register with `bits` applied. The last character is bit 0; x leaves a bit unchanged.

    This is the format of pci=config_acs= (Documentation/admin-guide/kernel-parameters.txt).
    """
    for place, bit in enumerate(reversed(bits)):
        if bit in "01":
            control = control & ~(1 << place) | int(bit) << place
    return control


class ConfigError(MlnodeError):
    """Configuration space without the requested part; the text gives the reason, without the path."""


@dataclass(frozen=True)
class Express:
    """The PCI Express capability. Sizes in bytes: the largest payload in use and possible, the largest read.

    link: None if the function has no link, or reports an unknown speed or width.
    """

    payload: int
    payload_supported: int
    read_request: int
    relaxed_ordering: bool
    link: Link | None


@dataclass(frozen=True)
class Acs:
    """Access Control Services: the offered and the enabled bits."""

    offered: int
    control: int

    @property
    def redirects(self) -> bool:
        return bool(self.control & REDIRECT)

    def __str__(self) -> str:
        """0x001d (SrcValid+ ReqRedir+ CmpltRedir+ UpstreamFwd+)"""
        flags = " ".join(f"{word}+" for bit, word in _ACS_WORDS if self.control & bit)
        return f"0x{self.control:04x}" + (f" ({flags})" if flags else "")


@dataclass(frozen=True)
class Ats:
    """Address Translation Services."""

    enabled: bool


def path(address: str) -> str:
    return f"/sys/bus/pci/devices/{address}/config"


def read(host: Host, address: str) -> bytes:
    """A function's configuration space, as far as permitted, read once per run. Raises ConfigError."""
    return host.once(f"config {address}", lambda: _read(host, path(address)))


def _read(host: Host, file: str) -> bytes:
    try:
        return host.read_bytes(file)
    except HostError as error:
        raise ConfigError(error.missing if error.absent else str(error)) from error


def express(data: bytes) -> Express | None:
    """Raises ConfigError."""
    at = _find(data, _EXPRESS)
    if at is None:
        return None
    control = _word(data, at + _DEVCTL)
    return Express(
        payload=_size(control >> 5, "MaxPayload"),
        payload_supported=_size(_word(data, at + _DEVCAP), "MaxPayload that is possible"),
        read_request=_size(control >> 12, "MaxReadReq"),
        relaxed_ordering=bool(control & _RELAXED_ORDERING),
        link=_link(_word(data, at + _LNKSTA), _word(data, at + _LNKCAP)),
    )


def acs(data: bytes) -> Acs | None:
    """Raises ConfigError."""
    at = _find_extended(data, _ACS)
    return None if at is None else Acs(_word(data, at + 4), _word(data, at + 6))


def ats(data: bytes) -> Ats | None:
    """Raises ConfigError."""
    at = _find_extended(data, _ATS)
    return None if at is None else Ats(bool(_word(data, at + 6) & _ATS_ENABLE))


def _size(code: int, name: str) -> int:
    code &= 7
    if code > _LARGEST:
        raise ConfigError(f"{name} has the code {code}, which stands for nothing")
    return 128 << code


def _link(now: int, most: int) -> Link | None:
    speed, max_speed = _SPEEDS.get(now & 0xF), _SPEEDS.get(most & 0xF)
    width, max_width = now >> 4 & 0x3F, most >> 4 & 0x3F
    return Link(speed, width, max_speed, max_width) if speed and max_speed and width and max_width else None


def _word(data: bytes, at: int) -> int:
    if at + 2 > len(data):
        raise ConfigError(_short(data))
    word: int = struct.unpack_from("<H", data, at)[0]
    return word


def _short(data: bytes) -> str:
    size = len(data)
    if size < _CONVENTIONAL:
        return f"only the first {size} bytes can be read: it takes root (CAP_SYS_ADMIN) outside of containers"
    if size == _CONVENTIONAL:
        return "has 256 bytes: nothing here reaches the extended space (no ECAM of firmware or hypervisor)"
    return f"ends after {size} bytes, inside a capability"


def _check_header(data: bytes) -> None:
    if len(data) < _HEADER:
        raise ConfigError(f"has {len(data)} bytes, and the header alone has {_HEADER}")
    # The vendor alone is not enough: it reads 0xffff for every virtual function.
    if data[:_HEADER] == b"\xff" * _HEADER:
        raise ConfigError(
            "reads as all ones: the function does not answer, look for a lost link in the kernel log"
        )


def _find(data: bytes, wanted: int) -> int | None:
    """Offset of a capability; None if the list surely lacks it. Raises ConfigError."""
    _check_header(data)
    if not _word(data, _STATUS) & _HAS_CAPABILITIES:
        return None
    first = _FIRST_CARDBUS if data[_HEADER_TYPE] & 0x7F == _CARDBUS else _FIRST
    at = data[first] & 0xFC
    seen = set()
    while at:
        if at in seen or at < _HEADER:
            raise ConfigError(f"the list of capabilities is broken: it leads to 0x{at:02x}")
        seen.add(at)
        word = _word(data, at)
        if word & 0xFF == wanted:
            return at
        if word & 0xFF == 0xFF:
            raise ConfigError(f"the list of capabilities is broken: 0x{at:02x} reads as all ones")
        at = word >> 8 & 0xFC
    return None


def _find_extended(data: bytes, wanted: int) -> int | None:
    """Like _find(), for the space above 256 bytes, which only PCI Express functions have."""
    if _find(data, _EXPRESS) is None:
        return None
    if len(data) <= _CONVENTIONAL:
        raise ConfigError(_short(data))
    at = _CONVENTIONAL
    seen = set()
    while at:
        if at in seen or at < _CONVENTIONAL:
            raise ConfigError(f"the list of extended capabilities is broken: it leads to 0x{at:03x}")
        seen.add(at)
        header = _word(data, at) | _word(data, at + 2) << 16
        if header == 0xFFFFFFFF:
            raise ConfigError(f"the extended configuration space reads as all ones at 0x{at:03x}")
        if header & 0xFFFF == wanted:
            return at
        at = header >> 20 & 0xFFC
    return None
