# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans that are refused, and RDMA devices in a plan."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign import schedule
from ansible_collections.mlnode.tuning.tests.unit import cases


def test_a_plan_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="it takes two nodes"):
        schedule.plan({"a": ["10.0.0.1"]})


@cases.table
def test_what_cannot_be_planned(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        schedule.plan({"a": ["10.0.0.1", "10.0.1.1"], "b": ["10.0.0.2"]}, **more)


def test_devices_share_an_address_to_agree_over_and_are_of_rdma_alone() -> None:
    nodes, devices = {"a": ["10.0.0.1"], "b": ["10.0.0.2"]}, {name: ["mlx5_0", "mlx5_1"] for name in "ab"}

    rdma = schedule.plan(nodes, devices=devices, kind="rdma_bw")
    tcp = schedule.plan(nodes, devices=devices)

    assert rdma["nodes"]["a"] == {"addresses": ["10.0.0.1"] * 2, "devices": ["mlx5_0", "mlx5_1"], "leaf": ""}
    assert len(rdma["slots"]["a"][0]["rails"]) == 2
    assert tcp["nodes"]["a"] == {"addresses": ["10.0.0.1"], "leaf": ""}
    assert rdma["round_seconds"] == 1 + 2 * (4 + 6)
