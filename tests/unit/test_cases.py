# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""No table of cases lies beside a test that does not take it."""

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
