# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All kinds of measurement by their names."""

from __future__ import annotations

from .kind import Kind

NAMES = ("tcp", "rdma_bw", "rdma_lat", "gpudirect")


def kind(name: str) -> Kind:
    """Raises ValueError."""
    # Import only one of them: on the node, Python compiles every import at each call.
    if name == "tcp":
        from . import tcp

        return tcp
    if name == "rdma_bw":
        from . import rdma_bw

        return rdma_bw
    if name == "rdma_lat":
        from . import rdma_lat

        return rdma_lat
    if name == "gpudirect":
        from . import gpudirect

        return gpudirect
    raise ValueError(f"kind: {name!r} is not one of {', '.join(NAMES)}")
