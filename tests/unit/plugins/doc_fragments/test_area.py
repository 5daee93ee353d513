# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ansible-doc shows of each area, and what its module takes."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.doc_fragments.area import ModuleDocFragment
from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import DECLARING
from mlnode.agent import registry
from mlnode.agent.registry import KINDS
from mlnode.model import argument_spec, schema

#: Options of a module that are no part of the declaration
CALL = {"nic_ethtool": {"confirm_seconds"}}


@pytest.fixture(scope="module")
def documented() -> dict[str, Any]:
    """Module → its options, as ansible-doc shows them."""
    names = [f"mlnode.tuning.{module.__name__.rpartition('.')[2]}" for module in DECLARING]
    collections = pathlib.Path(tuning_module.__file__).parents[5]
    done = subprocess.run(
        [sys.executable, "-m", "ansible", "doc", "--type", "module", "--json", *names],
        check=True,
        capture_output=True,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(collections)},
    )
    found = json.loads(done.stdout)
    return {name.rpartition(".")[2]: found[name]["doc"]["options"] for name in names}


def as_argument(about: dict[str, Any]) -> dict[str, Any]:
    """The argument spec of a documented option."""
    named = {"type", "elements", "choices", "default", "required"}
    found = {name: about[name] for name in about if name in named}
    inner = about.get("suboptions", {})
    return {**found, **({"options": {name: as_argument(inner[name]) for name in inner}} if inner else {})}


AREAS = {
    about.__name__.rpartition(".")[2]: next(area for area in KINDS if f"mlnode.tuning.area.{area}\n" in text)
    for about in DECLARING
    for text in [about.DOCUMENTATION]
}


def test_every_area_has_its_module_and_its_fragment() -> None:
    assert sorted(AREAS.values()) == sorted(KINDS)
    assert {name.lower() for name in vars(ModuleDocFragment) if name.isupper()} == {*KINDS, "all"}


@pytest.mark.parametrize("module", DECLARING, ids=lambda module: module.__name__.rpartition(".")[2])
def test_a_module_takes_what_it_documents(documented: dict[str, Any], module: Any) -> None:
    name = module.__name__.rpartition(".")[2]
    options = documented[name]

    own = {key for key in options if key not in argument_spec.DECLARATION} - CALL.get(name, set())
    assert {key: as_argument(options[key]) for key in own} == argument_spec.of_area(
        registry.options(AREAS[name])
    )


@pytest.mark.parametrize("area", KINDS)
def test_the_files_of_an_area_import_its_table(area: str) -> None:
    """Ansible sends along what the files of a module import by name, which registry.options() does not."""
    knobs = schema.__name__.rpartition(".model.")[0] + ".knobs"
    code = f"import sys, {knobs}.{area}.kind; sys.exit('{knobs}.{area}.schema' not in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})
