# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import Tree


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> Tree:
    """A machine of which nothing but an x86 processor is known."""
    return Tree(tmp_path / "tree")
