# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel modules of all drivers of GPUs."""

from __future__ import annotations

from .amd_module import AmdModule
from .module import GpuModule
from .nvidia_module import NvidiaModule

ALL: tuple[GpuModule, ...] = (NvidiaModule(), AmdModule())
