# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the table of defaults into docs/values.md, so that it cannot differ from what the role declares.

Run by `make docs`; with --check it only tells whether the table is fresh.
"""

from __future__ import annotations

import pathlib
import sys

import yaml
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.registry import KINDS
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.setting import Value

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/values.md"
START, END = "<!-- table -->\n", "<!-- end of table -->\n"


def rows() -> list[str]:
    defaults = yaml.safe_load((ROOT / "roles/training_node/defaults/main.yml").read_text())
    interrupts = defaults["training_node_irq_defaults"]
    specs = {
        "thp": defaults["training_node_thp_defaults"],
        "sysctl": {"settings": defaults["training_node_sysctl_defaults"]},
        "cpu": defaults["training_node_cpu_defaults"],
        "irq": {**interrupts, "rules": [*interrupts["rules"].values()]},
        "boot": defaults["training_node_boot_defaults"],
    }
    settings = [setting for name, kind in KINDS.items() for setting in kind.parse(specs[name], None)]
    found = []
    for setting in settings:
        info = KINDS[setting.kind].info(setting.key, Value())
        cells = (f"`{setting.key}`", f"`{setting.claim}`", str(info.severity), info.reason, info.source)
        found.append(f"| {' | '.join(cells)} |\n")
    return found


def main() -> int:
    page = PAGE.read_text()
    head, rest = page.split(START)
    tail = rest.split(END)[1]
    table = ["| setting | default | severity | reason | source |\n", "|---|---|---|---|---|\n", *rows()]
    fresh = head + START + "".join(table) + END + tail
    if fresh == page:
        return 0
    if "--check" in sys.argv:
        print(f"{PAGE.relative_to(ROOT)} is stale: run `make docs`")
        return 1
    PAGE.write_text(fresh)
    return 0


if __name__ == "__main__":
    sys.exit(main())
