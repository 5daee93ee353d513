# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the tables of docs/values.md, so that they cannot differ from what the profiles declare.

Run by `make docs`; with --check it only reports stale tables.
"""

from __future__ import annotations

import pathlib
import re
import sys
from typing import Any

from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.agent.registry import KINDS
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.model.setting import Value
from ansible_collections.mlnode.tuning.plugins.plugin_utils import profile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/values.md"
TABLE = re.compile(r"(<!-- table of (\w+) -->\n).*?(<!-- end of table -->\n)", re.DOTALL)
HEAD = "| setting | default | severity | reason | source |\n|---|---|---|---|---|\n"


def declaration(name: str) -> dict[str, Any]:
    """Area and its specification, in the order in which they are applied, of a profile without overrides."""
    found = profile.areas(name, {})
    return {area: found[area] for area in KINDS if area in found}


def table(name: str) -> str:
    """One row for each setting, in the order in which they are applied."""
    settings = [item for area, spec in declaration(name).items() for item in KINDS[area].parse(spec, None)]
    rows = []
    for setting in settings:
        info = KINDS[setting.kind].info(setting.key, Value())
        cells = (f"`{setting.key}`", f"`{setting.claim}`", str(info.severity), info.reason, info.source)
        rows.append(f"| {' | '.join(cells)} |\n")
    return HEAD + "".join(rows)


def fresh(page: str) -> str:
    """The page with the tables of today. Raises ValueError where the table of a profile is missing."""
    missing = {*profile.known()}.symmetric_difference(match[2] for match in TABLE.finditer(page))
    if missing:
        raise ValueError(
            f"{PAGE.relative_to(ROOT)}: profile or table is missing: {', '.join(sorted(missing))}"
        )
    return TABLE.sub(lambda match: match[1] + table(match[2]) + match[3], page)


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    new = fresh(page)
    if new == page:
        return 0
    if "--check" in sys.argv:
        print(f"{PAGE.relative_to(ROOT)} is stale: run `make docs`")
        return 1
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
