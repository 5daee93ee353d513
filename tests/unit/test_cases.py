# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each table in a test_x.yml belongs to a test in test_x.py."""

from __future__ import annotations

import pathlib
import re

from ansible_collections.mlnode.tuning.tests.unit import cases

UNIT = pathlib.Path(__file__).parent
TABLES = sorted(path for path in UNIT.rglob("test_*.yml"))


def test_every_table_is_that_of_a_test() -> None:
    assert TABLES
    for path in TABLES:
        text = path.with_suffix(".py").read_text(encoding="utf-8")
        taken = re.findall(r"@cases\.table\n(?:@.*\n)*def (\w+)", text)
        assert sorted(taken) == sorted(cases.load(path)), path
