# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine of each driver."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit.cpu_machine import CpuMachine


@pytest.fixture
def root(tmp_path: pathlib.Path) -> str:
    return str(tmp_path / "node")


@pytest.fixture
def intel(root: str) -> CpuMachine:
    return CpuMachine.intel(root)


@pytest.fixture
def amd(root: str) -> CpuMachine:
    return CpuMachine.amd(root)


@pytest.fixture
def acpi(root: str) -> CpuMachine:
    return CpuMachine.acpi(root)
