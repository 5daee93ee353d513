# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory

from .node import IrqNode


@pytest.fixture
def folder() -> Iterator[pathlib.Path]:
    """On a tmpfs, as a tree is a thousand small files."""
    yield from in_memory()


@pytest.fixture
def bare(folder: pathlib.Path) -> IrqNode:
    found = IrqNode.made(str(folder / "node"))
    found.enable_agent()
    return found


@pytest.fixture
def node(bare: IrqNode) -> IrqNode:
    return bare
