# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All kinds of measurement by their names."""

from __future__ import annotations

from . import gpudirect, rdma_bw, rdma_lat, tcp
from .kind import Kind

_ALL: list[Kind] = [tcp, rdma_bw, rdma_lat, gpudirect]

NAMES = tuple(kind.NAME for kind in _ALL)


def of(name: str) -> Kind:
    """Raises ValueError."""
    for kind in _ALL:
        if name == kind.NAME:
            return kind
    raise ValueError(f"kind: {name!r} is not one of {', '.join(NAMES)}")
