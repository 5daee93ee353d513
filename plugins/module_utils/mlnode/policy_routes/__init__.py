# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Routing by the source address, so that each rail answers by itself."""

from __future__ import annotations

from ..host import Driver

TOP = "/rail"


def driver() -> Driver:
    """For Host.mounts."""
    from . import files

    return files
