# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with NICs of several drivers."""

from __future__ import annotations

import pathlib

import pytest

from .node import NicNode


@pytest.fixture
def node(tmp_path: pathlib.Path) -> NicNode:
    return NicNode.made(tmp_path / "node")
