# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines that the kernel lab replaces by faulty ones are there: the lab itself runs much later."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.lab.collection import Collection
from ansible_collections.mlnode.tuning.tests.lab.faults import FAULTS, Fault


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_the_fault_can_be_planted(fault: Fault, tmp_path: pathlib.Path) -> None:
    Collection.copy(tmp_path).patch(fault.file, fault.old, fault.new)
