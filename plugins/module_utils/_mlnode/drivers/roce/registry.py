# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver of an interface or RDMA device."""

from __future__ import annotations

from ...host.host import Host
from .bnxt import Bnxt
from .ionic import Ionic
from .irdma import Irdma
from .mlx5 import Mlx5
from .model import RoceDriver, Simulated, Unknown

#: Driver of the interface, and of its PCI function, → RDMA driver
DRIVERS: dict[str, RoceDriver] = {
    "mlx5_core": Mlx5(),
    "bnxt_en": Bnxt(),
    "ionic": Ionic(),
    **dict.fromkeys(("ice", "idpf", "i40e"), Irdma()),
    "netdevsim": Simulated(),
}
_UNKNOWN = Unknown()


def named(name: str | None) -> RoceDriver:
    """The driver with the name of the PCI function's."""
    return DRIVERS.get(name or "", _UNKNOWN)


def of_nic(host: Host, nic: str) -> RoceDriver:
    """Raises HostError."""
    return named(_linked(host, f"/sys/class/net/{nic}"))


def of_device(host: Host, device: str) -> RoceDriver:
    """Raises HostError."""
    return named(_linked(host, f"/sys/class/infiniband/{device}"))


def _linked(host: Host, folder: str) -> str:
    return host.link_target(f"{folder}/device/driver").rpartition("/")[2]
