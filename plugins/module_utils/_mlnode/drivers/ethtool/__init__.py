# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of NICs, as ethtool(8) shows and sets them."""

from __future__ import annotations

from ...host import places
from ...host.host import Driver

TOP = places.ETHTOOL


def driver() -> Driver:
    """For Host.mounts."""
    from .files import Files

    return Files()
