# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The texts of `mlnode render` for nodes with various declarations, as tests/fixtures/golden/render has them.

By hand, and then to be read line by line: PYTHONPATH=.ansible/collections python -m
ansible_collections.mlnode.tuning.tests.unit.rendered
"""

from __future__ import annotations

import json
import pathlib
import tempfile
from typing import Any

import yaml
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import arguments
from mlnode.agent.render import FORMATS
from mlnode.knobs.containers.render.needs import Needs, needs

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "fixtures" / "golden" / "render"

#: Name of a node → what it has: profiles, other declared areas, and files
NODES: dict[str, dict[str, Any]] = cases.load(pathlib.Path(__file__).with_suffix(".yml"))


def node(name: str, folder: str) -> Machine:
    """A machine with the declarations of a node."""
    given, machine = NODES[name], Machine.debian(f"{folder}/{name}")
    documents = {
        "fabric" if profile == "fabric" else "node": yaml.safe_load(
            (ROOT / f"roles/node/profiles/{profile}.yml").read_text(encoding="utf-8")
        )
        for profile in given.get("profiles", ())
    }
    documents.setdefault("node", {}).update(given.get("kinds", {}))
    for document, kinds in documents.items():
        declare(machine, document, kinds)
    for path, text in given.get("files", {}).items():
        machine.put(path, text)
    return machine


def declare(machine: Machine, name: str, kinds: dict[str, Any]) -> None:
    document = {"format": 1, "name": name, "kinds": {kind: spec for kind, spec in kinds.items() if spec}}
    machine.put(f"/etc/mlnode/declared.d/{name}.json", json.dumps(document))


def asked(machine: Machine, what: str) -> Needs:
    """Needs on a machine whose declarations are sound."""
    problems: list[str] = []
    needed = needs(machine, FORMATS[what].service, problems)
    assert needed is not None
    assert not problems, problems
    return needed


def text(machine: Machine, what: str) -> str:
    """What `mlnode render` prints there."""
    return "\n".join(FORMATS[what].make(asked(machine, what))) + "\n"


def texts(machine: Machine) -> str:
    """All texts of a node, each below a line with its name."""
    return "\n".join(f"==> {what} <==\n{text(machine, what)}" for what in arguments.CONTAINERS)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in NODES:
        with tempfile.TemporaryDirectory() as made:
            (FOLDER / f"{name}.txt").write_text(texts(node(name, made)), encoding="utf-8")
