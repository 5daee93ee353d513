# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine

from .looking import training_node


@pytest.fixture
def trainer(tmp_path: pathlib.Path) -> Machine:
    return training_node(tmp_path / "trainer")
