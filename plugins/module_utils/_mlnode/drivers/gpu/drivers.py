# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All drivers of GPUs."""

from __future__ import annotations

from typing import Iterable

from .amd import Amd
from .driver import GpuDriver
from .nvidia import Nvidia

ALL: tuple[GpuDriver, ...] = (Nvidia(), Amd())


def for_vendors(vendors: Iterable[str]) -> list[GpuDriver]:
    """Drivers for these vendors of the topology; a vendor without a driver has none."""
    names = {*vendors}
    return [driver for driver in ALL if driver.VENDOR in names]
