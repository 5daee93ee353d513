# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/guide/compared.md: its columns of this collection are what the profiles declare."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit.roles import NODES, ROOT, declaration

PAGE = (ROOT / "docs/guide/compared.md").read_text(encoding="utf-8")

#: Setting, tuned, NVIDIA, and what the two profiles of a node have
ROW = re.compile(
    r"^\| `([a-z]+\.[\w.-]+)` \|([^|]+)\|([^|]+)\| (\S[^|]*) \| (\S[^|]*) \|[^|]+\|$", re.MULTILINE
)

ROWS = {match[1]: {"training": match[4], "inference": match[5]} for match in ROW.finditer(PAGE)}


def shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"`at least {value['at_least']}`" if isinstance(value, dict) else f"`{value}`"


def test_there_are_rows() -> None:
    assert len(ROWS) > 25
    assert len(ROWS) == len(re.findall(r"^\| `(?:vm|kernel|fs|net)\.", PAGE, re.MULTILINE))


@pytest.mark.parametrize("name", NODES)
def test_the_page_has_the_values_of_the_profile(name: str) -> None:
    settings = declaration(name)["sysctl"]["settings"]

    assert {key: row[name] for key, row in ROWS.items()} == {key: shown(settings.get(key)) for key in ROWS}
