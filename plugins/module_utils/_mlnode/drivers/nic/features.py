# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drivers that switch one feature off together with another one: ndo_fix_features."""

from __future__ import annotations

#: bnxt.c: bnxt_fix_features; qede_filter.c: qede_fix_features
HARDWARE_GRO_NEEDS_GRO = ("bnxt_en", "qede")
#: ixgbe_main.c: ixgbe_fix_features; bnx2x_cmn.c: bnx2x_fix_features
LRO_NEEDS_CHECKSUM = ("ixgbe", "bnx2x", "netxen_nic")
#: mlx5/core/en_main.c: mlx5e_fix_features
COMPRESSED_WITHOUT_HASH = ("mlx5_core",)
