# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of the profile training for each machine of the fixtures, against texts that were read by hand."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures.machines import MACHINES

from .plans import FOLDER, text


@pytest.mark.parametrize("name", MACHINES)
def test_the_plan_for_every_machine(name: str, tmp_path: pathlib.Path) -> None:
    assert text(name, tmp_path) == (FOLDER / f"{name}.plan.txt").read_text(encoding="utf-8")
