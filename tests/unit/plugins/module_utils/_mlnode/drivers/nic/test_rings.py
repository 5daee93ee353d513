# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from mlnode.drivers.nic import rings

KIB = 1024


@pytest.mark.parametrize(
    ("driver", "page", "expected"),
    [
        ("mlx5_core", 4 * KIB, 16 * KIB),
        ("mlx5_core", 64 * KIB, 16 * KIB),
        ("igb", 4 * KIB, 8 * KIB),
        ("ixgbe", 4 * KIB, 8 * KIB),
        ("i40e", 4 * KIB, 8 * KIB),
        ("ice", 4 * KIB, 8 * KIB),
        ("ena", 4 * KIB, 4 * KIB),
        ("virtio_net", 4 * KIB, 4 * KIB),
        ("virtio_net", 64 * KIB, 64 * KIB),
        pytest.param("bnxt_en", 4 * KIB, 20 * KIB, id="a page, and four for the rest of it"),
        pytest.param("unheard_of", 4 * KIB, 20 * KIB, id="the most of those that are known"),
        pytest.param(None, 4 * KIB, 20 * KIB, id="no driver"),
    ],
)
def test_memory_behind_an_entry_of_a_receive_ring(driver: str | None, page: int, expected: int) -> None:
    assert rings.ring_entry_bytes(driver, page) == expected
