# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NICs as they answer SIOCETHTOOL: bytes in, bytes out, by net/ethtool/ioctl.c and with the moods of drivers.

Knows the structures by itself, so that a mistake in the library is none here.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.drivers import ethtool
from mlnode.drivers.ethtool import files
from mlnode.drivers.ethtool.device import Device
from mlnode.drivers.ethtool.ioctls import Kernel
from mlnode.host.host import Host
from mlnode.model.errors import HostError

T = TypeVar("T")

#: What the kernel calls its features here; an empty name is a bit that nothing uses
FEATURES = (
    "tx-scatter-gather", "tx-checksum-ipv4", "tx-checksum-ip-generic", "", "tx-tcp-segmentation",
    "tx-tcp-ecn-segmentation", "tx-tcp6-segmentation", "tx-generic-segmentation", "rx-gro", "rx-gro-hw",
    "rx-lro", "rx-checksum", "rx-hashing", "rx-ntuple-filter", "rx-vlan-hw-parse", "tx-vlan-hw-insert",
    *[""] * 20, "tx-lockless", "tx-scatter-gather-fraglist", "tx-udp-segmentation",
)  # fmt: skip

_COALESCE = (
    "rx-usecs", "rx-frames", "rx-usecs-irq", "rx-frames-irq", "tx-usecs", "tx-frames", "tx-usecs-irq",
    "tx-frames-irq", "stats-block-usecs", "adaptive-rx", "adaptive-tx", "pkt-rate-low", "rx-usecs-low",
    "rx-frames-low", "tx-usecs-low", "tx-frames-low", "pkt-rate-high", "rx-usecs-high", "rx-frames-high",
    "tx-usecs-high", "tx-frames-high", "sample-interval",
)  # fmt: skip

#: Command that asks → command that sets, and what the numbers are
TABLES = {
    0x10: ("ring", ("rx", "rx-mini", "rx-jumbo", "tx")),
    0x3C: ("channels", ("rx", "tx", "other", "combined")),
    0x0E: ("coalesce", _COALESCE),
    0x12: ("pause", ("autoneg", "rx", "tx")),
}
_WITH_MAXIMUM = ("ring", "channels")


@dataclass
class Bits:
    """One feature: may it be changed, is it wanted, is it active; may none ever change it?"""

    available: bool = False
    requested: bool = False
    active: bool = False
    never: bool = False


def _some_features() -> dict[str, Bits]:
    found = {name: Bits() for name in FEATURES if name}
    for name in ("tx-scatter-gather", "tx-checksum-ip-generic", "tx-tcp-segmentation", "tx-tcp6-segmentation",
                 "tx-generic-segmentation", "rx-gro", "rx-checksum", "rx-hashing"):  # fmt: skip
        found[name] = Bits(True, True, True)
    for name in ("rx-lro", "rx-ntuple-filter", "tx-udp-segmentation"):
        found[name] = Bits(True)
    found["tx-lockless"] = Bits(False, True, True, never=True)
    return found


@dataclass
class Nic:
    """A NIC and its driver; a group that is None is one that the driver does not have.

    fails: command → errno. ignores: fields and features whose change is accepted without effect. most: field
    → what the driver makes of a greater number. along: called after every change. supported: the coalescing
    parameters that the driver takes. answers: command → the whole answer, where a driver lies.
    """

    driver: str | None = "mlx5_core"
    firmware: str = "28.39.1002 (MT_0000000838)"
    bus: str = "0000:18:00.0"
    ring: dict[str, int] | None = field(default_factory=lambda: {"rx": 1024, "tx": 1024})
    ring_max: dict[str, int] = field(default_factory=lambda: {"rx": 8192, "tx": 8192})
    channels: dict[str, int] | None = field(default_factory=lambda: {"combined": 63})
    channels_max: dict[str, int] = field(default_factory=lambda: {"combined": 63})
    coalesce: dict[str, int] | None = field(
        default_factory=lambda: {"adaptive-rx": 1, "adaptive-tx": 1, "rx-usecs": 8, "rx-frames": 128}
    )
    supported: tuple[str, ...] = (
        "adaptive-rx",
        "adaptive-tx",
        "rx-usecs",
        "rx-frames",
        "tx-usecs",
        "tx-frames",
    )
    pause: dict[str, int] | None = field(default_factory=lambda: {"rx": 1, "tx": 1})
    features: dict[str, Bits] = field(default_factory=_some_features)
    flags: dict[str, bool] | None = field(
        default_factory=lambda: {"rx_cqe_moder": True, "rx_striding_rq": False}
    )
    fec: tuple[int, int] | None = (0b10, 0b1000)  # auto, and rs active
    statistics: dict[str, int] | None = field(
        default_factory=lambda: {"rx_packets": 1 << 40, "rx_discards_phy": 0, "rx_prio3_pause": 12}
    )
    speed: int | None = 400000
    detected: int | None = 1
    blocks: int = 2
    mask_words: int = 4
    fails: dict[int, int] = field(default_factory=dict)
    ignores: set[str] = field(default_factory=set)
    most: dict[str, int] = field(default_factory=dict)
    along: Callable[[Nic], object] = lambda _nic: None
    answers: dict[int, bytes] = field(default_factory=dict)
    calls: list[int] = field(default_factory=list)

    def call(self, name: str, request: bytes) -> tuple[int, bytes]:
        """Instead of ioctls.ioctl."""
        command = struct.unpack_from("=I", request)[0]
        self.calls.append(command)
        if command in self.fails:
            raise OSError(self.fails[command], os.strerror(self.fails[command]))
        if command in self.answers:
            return 0, self.answers[command]
        returned, answer = self._answer(command, request)
        assert len(answer) <= len(request), f"command {command:#x} has written past what it was given"
        return returned, answer + request[len(answer) :]

    def _answer(self, command: int, request: bytes) -> tuple[int, bytes]:
        if command in TABLES:
            return 0, self._table(command)
        if command - 1 in TABLES:
            return self._set_table(command - 1, request)
        other = {
            0x03: self._drvinfo, 0x0A: self._glink, 0x37: self._sset_info, 0x1B: self._strings,
            0x3A: self._gfeatures, 0x3B: self._sfeatures, 0x27: self._gflags, 0x28: self._sflags,
            0x50: self._gfec, 0x51: self._sfec, 0x4C: self._link, 0x1D: self._gstats,
        }  # fmt: skip
        return other[command](request)

    # -- tables ------------------------------------------------------------------------

    def _table(self, command: int) -> bytes:
        group, names = TABLES[command]
        now = _there(getattr(self, group))
        most = (
            [getattr(self, f"{group}_max").get(name, 0) for name in names] if group in _WITH_MAXIMUM else []
        )
        return struct.pack(f"={1 + len(most) + len(names)}I", command, *most, *(now.get(n, 0) for n in names))

    def _set_table(self, command: int, request: bytes) -> tuple[int, bytes]:
        group, names = TABLES[command]
        now = _there(getattr(self, group))
        numbers = struct.unpack(f"={len(request) // 4}I", request)[-len(names) :]
        for name, number in zip(names, numbers):
            if group in _WITH_MAXIMUM and number > getattr(self, f"{group}_max").get(name, 0):
                raise OSError(errno.EINVAL, "beyond the maximum")
            if group == "coalesce" and number and name not in self.supported:
                raise OSError(errno.EOPNOTSUPP, "not supported")
        for name, number in zip(names, numbers):
            if f"{group}/{name}" not in self.ignores:
                now[name] = min(number, self.most.get(f"{group}/{name}", number))
        self.along(self)
        return 0, b""

    # -- the others ----------------------------------------------------------------------

    def _drvinfo(self, _request: bytes) -> tuple[int, bytes]:
        texts = [_there(self.driver), "6.12.0", self.firmware, self.bus, "", ""]
        return 0, struct.pack("=I32s32s32s32s32s12s5I", 3, *(text.encode() for text in texts), 2, 0, 0, 0, 0)

    def _glink(self, _request: bytes) -> tuple[int, bytes]:
        return 0, struct.pack("=II", 0x0A, _there(self.detected))

    def _link(self, request: bytes) -> tuple[int, bytes]:
        speed = _there(self.speed)
        if request[15] != self.mask_words:
            return 0, struct.pack("=I11xb32x", 0x4C, -self.mask_words)
        assert len(request) == 48 + 12 * self.mask_words
        return 0, struct.pack(
            "=IIBBBBBBBb4B28x", 0x4C, speed, 1, 3, 0, 1, 0, 0, 0, self.mask_words, 0, 0, 0, 0
        )

    def _names(self, string_set: int) -> list[str]:
        if string_set == 4:
            return list(FEATURES)
        return list(_there(self.statistics if string_set == 1 else self.flags))

    def _sset_info(self, request: bytes) -> tuple[int, bytes]:
        _command, _reserved, mask = struct.unpack_from("=IIQ", request)
        try:
            names = self._names(mask.bit_length() - 1)
        except OSError:
            return 0, struct.pack("=IIQ", 0x37, 0, 0)
        return 0, struct.pack("=IIQI", 0x37, 0, mask, len(names))

    def _strings(self, request: bytes) -> tuple[int, bytes]:
        _command, string_set, _len = struct.unpack_from("=III", request)
        names = self._names(string_set)
        assert names, "the kernel warns of a bug here: WARN_ON_ONCE"
        texts = b"".join(name.encode().ljust(32, b"\0") for name in names)
        return 0, struct.pack("=III", 0x1B, string_set, len(names)) + texts

    def _gfeatures(self, request: bytes) -> tuple[int, bytes]:
        size = struct.unpack_from("=I", request, 4)[0]
        answer = struct.pack("=II", 0x3A, self.blocks)
        for block in range(min(size, self.blocks)):
            for part in ("available", "requested", "active", "never"):
                answer += struct.pack("=I", self._mask(block, part))
        return 0, answer

    def _mask(self, block: int, part: str) -> int:
        names = FEATURES[32 * block : 32 * block + 32]
        return sum(1 << bit for bit, name in enumerate(names) if name and getattr(self.features[name], part))

    def _sfeatures(self, request: bytes) -> tuple[int, bytes]:
        size = struct.unpack_from("=I", request, 4)[0]
        if size != self.blocks or len(request) != 8 + 8 * size:
            raise OSError(errno.EINVAL, "wrong size")
        returned = 0
        for bit, name in enumerate(FEATURES):
            valid, wanted = struct.unpack_from("=II", request, 8 + 8 * (bit // 32))
            if not valid >> bit % 32 & 1:
                continue
            state = self.features[name]
            if state.never:
                raise OSError(errno.EINVAL, "never changed")
            if not state.available:
                returned |= 1
                continue
            state.requested = bool(wanted >> bit % 32 & 1)
            if name not in self.ignores:
                state.active = state.requested
        self.along(self)
        return returned, b""

    def _gflags(self, _request: bytes) -> tuple[int, bytes]:
        flags = list(_there(self.flags).values())[:32]
        return 0, struct.pack("=II", 0x27, sum(1 << bit for bit, on in enumerate(flags) if on))

    def _sflags(self, request: bytes) -> tuple[int, bytes]:
        mask = struct.unpack_from("=I", request, 4)[0]
        flags = _there(self.flags)
        for bit, name in enumerate(flags):
            if name not in self.ignores:
                flags[name] = bool(mask >> bit & 1)
        return 0, b""

    def _gstats(self, _request: bytes) -> tuple[int, bytes]:
        numbers = list(_there(self.statistics).values())
        return 0, struct.pack(f"=II{len(numbers)}Q", 0x1D, len(numbers), *numbers)

    def _gfec(self, _request: bytes) -> tuple[int, bytes]:
        mask, active = _there(self.fec)
        return 0, struct.pack("=IIII", 0x50, active, mask, 0)

    def _sfec(self, request: bytes) -> tuple[int, bytes]:
        _command, active, mask, reserved = struct.unpack("=IIII", request)
        assert (active, reserved) == (0, 0)
        if not mask or mask & 1:
            raise OSError(errno.EINVAL, "no mode")
        self.fec = (mask, _there(self.fec)[1])
        return 0, b""


def _there(group: T | None) -> T:
    """What the driver has. Raises EOPNOTSUPP."""
    if group is None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
    return group


#: What a driver such as veth does not have
BARE: dict[str, Any] = dict.fromkeys(
    ("ring", "channels", "coalesce", "pause", "flags", "fec", "speed", "statistics")
)


class NicMachine(Machine):
    """A node with these NICs."""

    nics: dict[str, Nic]

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.mounts = {**self.mounts, ethtool.TOP: lambda: files.Files(lambda _host, name: self.nic(name))}

    @classmethod
    def with_nics(cls, root: str, **nics: Nic) -> NicMachine:
        machine = cls.debian(root)
        machine.nics = nics
        for name in nics:
            machine.put(f"/sys/class/net/{name}/operstate", "up\n")
        return machine

    def nic(self, name: str) -> Device:
        """A NIC without a driver of its own is one of the captured tree."""
        return Kernel(name, self.nics[name].call) if name in self.nics else files.device(self, name)

    def write_kernel(self, path: str, value: str) -> None:
        if not path.startswith("/ethtool/"):
            super().write_kernel(path, value)
            return
        if path in self.fails:
            raise HostError(f"write {value!r} to", path, self.fails[path])
        self.writes.append((path, value))
        Host.write_kernel(self, path, value)

    def blocked(self, path: str) -> str:
        return super().blocked(path) or (Host.blocked(self, path) if path.startswith("/ethtool/") else "")
