# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit.fabric_tree import healthy
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import Tree


@pytest.fixture
def fabric(tmp_path: pathlib.Path) -> Tree:
    """A training node whose PCIe, GPUDirect and limits are as they should be."""
    return healthy(Tree(tmp_path / "fabric"))
