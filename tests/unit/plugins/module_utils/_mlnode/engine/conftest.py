# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of these tests are in memory, and nothing waits for the disk."""

from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory, no_disk

quick = pytest.fixture(autouse=True, scope="module")(no_disk)
tmp_path = pytest.fixture(in_memory)
