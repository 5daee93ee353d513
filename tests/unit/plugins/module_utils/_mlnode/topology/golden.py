# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the topology of each machine of the fixtures looks like, as tests/fixtures/golden keeps it.

By hand, and then to be read line by line: PYTHONPATH=.ansible/collections python -m
ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.golden
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

from ansible_collections.mlnode.tuning.tests.fixtures.build import tree
from ansible_collections.mlnode.tuning.tests.fixtures.machines import MACHINES
from mlnode.host.host import Host
from mlnode.report import topology_table
from mlnode.report.topology import document
from mlnode.topology import hardware

FOLDER = pathlib.Path(__file__).parents[5] / "fixtures" / "golden"


def texts(name: str) -> dict[str, str]:
    """File name → what should be in it."""
    found = hardware.read(Host(tree(name), hardware.MOUNTS))
    data = document(found)
    data.pop("mlnode")  # it changes with every release
    return {
        f"{name}.topology.txt": topology_table.table(found, None) + "\n",
        f"{name}.topology.json": _dense(data) + "\n",
    }


def _dense(value: Any, indent: str = "") -> str:
    """JSON with one line for each thing: what fits on a line is on one."""
    line = json.dumps(value)
    if not isinstance(value, (dict, list)) or (indent and len(line) < 400):
        return line
    deeper = indent + "  "
    if isinstance(value, dict):
        inner = [f"{deeper}{json.dumps(key)}: {_dense(item, deeper)}" for key, item in value.items()]
        return "{\n" + ",\n".join(inner) + f"\n{indent}" + "}"
    return "[\n" + ",\n".join(deeper + _dense(item, deeper) for item in value) + f"\n{indent}]"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for machine in MACHINES:
        for file, text in texts(machine).items():
            (FOLDER / file).write_text(text, encoding="utf-8")
