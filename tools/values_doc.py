# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the tables of defaults into docs/values.md, so that they cannot differ from what the roles declare.

Run by `make docs`; with --check it only tells whether the tables are fresh.
"""

from __future__ import annotations

import pathlib
import re
import sys
from typing import Any

import yaml
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.registry import KINDS
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.setting import Value

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/values.md"
TABLE = re.compile(r"(<!-- table of (\w+) -->\n).*?(<!-- end of table -->\n)", re.DOTALL)
HEAD = "| setting | default | severity | reason | source |\n|---|---|---|---|---|\n"


def declaration(role: str) -> dict[str, Any]:
    """What the defaults of a role declare, by kind, as its tasks hand it to the modules."""
    defaults = yaml.safe_load((ROOT / f"roles/{role}/defaults/main.yml").read_text(encoding="utf-8"))
    here = [kind for kind in KINDS if f"{role}_{kind}_defaults" in defaults]
    specs = {kind: _given(kind, defaults[f"{role}_{kind}_defaults"]) for kind in here}
    specs["sysctl"]["sizing"] = defaults.get(f"{role}_sizing_defaults", defaults[f"{role}_sizing"])
    return specs


def _given(kind: str, declared: dict[str, Any]) -> dict[str, Any]:
    """As roles/node/tasks/declare.yml hands it to the module of the kind."""
    if kind == "modules":
        return {"modules": [name for name, wanted in declared.items() if wanted]}
    named = {"services": "services", "sysctl": "settings", "nccl": "variables"}
    if kind in named:
        return {named[kind]: declared}
    if "rules" in declared:
        return {**declared, "rules": [*declared["rules"].values()]}
    return declared


def table(role: str) -> str:
    """One row for each setting, in the order in which they are applied."""
    specs = declaration(role)
    settings = [setting for name, spec in specs.items() for setting in KINDS[name].parse(spec, None)]
    rows = []
    for setting in settings:
        info = KINDS[setting.kind].info(setting.key, Value())
        cells = (f"`{setting.key}`", f"`{setting.claim}`", str(info.severity), info.reason, info.source)
        rows.append(f"| {' | '.join(cells)} |\n")
    return HEAD + "".join(rows)


def fresh(page: str) -> str:
    """The page with the tables of today. Raises ValueError where the table of a role is missing."""
    roles = {path.parent.parent.name for path in ROOT.glob("roles/*/defaults/main.yml")}
    missing = roles.symmetric_difference(match[2] for match in TABLE.finditer(page))
    if missing:
        raise ValueError(f"{PAGE.relative_to(ROOT)}: role or table is missing: {', '.join(sorted(missing))}")
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
