# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plans of the profiles for each machine of the fixtures, against texts that were read by hand."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures.machines import MACHINES
from ansible_collections.mlnode.tuning.tests.unit import plans


@pytest.mark.parametrize("name", MACHINES)
def test_the_plans_for_every_machine(name: str, tmp_path: pathlib.Path) -> None:
    kept = (plans.FOLDER / f"{name}.plan.txt").read_text(encoding="utf-8")
    advice = f"if the new text is right, python -m {plans.__name__} writes it"
    of_most = plans.parsed((plans.FOLDER / plans.MOST).read_text(encoding="utf-8"))
    assert plans.text(name, tmp_path, of_most) == kept, advice
