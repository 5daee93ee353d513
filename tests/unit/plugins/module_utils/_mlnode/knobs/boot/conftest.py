# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Debian node whose GRUB reads drop-ins."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import GrubMachine


@pytest.fixture
def node(tmp_path: pathlib.Path) -> GrubMachine:
    return GrubMachine.debian_with_grub(str(tmp_path / "node"))
