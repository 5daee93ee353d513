# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA devices for RoCE: packet marking, congestion control and counters, one module for each driver."""

from __future__ import annotations

from ...host.host import Driver

TOP = "/roce"


def driver() -> Driver:
    """For Host.mounts."""
    from . import files

    return files
