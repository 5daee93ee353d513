# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Priorities of a lossless fabric: data center bridging of NICs."""

from __future__ import annotations

from ...host import places
from ...host.host import Driver

TOP = places.DCB


def driver() -> Driver:
    """For Host.mounts."""
    from .files import Files

    return Files()
