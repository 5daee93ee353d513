# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine with one NIC, eth0."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import Nic, NicMachine


@pytest.fixture
def nic() -> Nic:
    return Nic()


@pytest.fixture
def machine(tmp_path: pathlib.Path, nic: Nic) -> NicMachine:
    return NicMachine.with_nics(str(tmp_path / "node"), eth0=nic)
