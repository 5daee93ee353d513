# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine with one card of each kind."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import rdma_bench as bench
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine


@pytest.fixture
def roce(tmp_path: pathlib.Path) -> Machine:
    return bench.node(tmp_path, bench.roce())


@pytest.fixture
def infiniband(tmp_path: pathlib.Path) -> Machine:
    return bench.node(tmp_path, bench.infiniband())
