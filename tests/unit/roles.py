# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of the roles, and what the profiles declare."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.mlnode.tuning.plugins.plugin_utils import profile

ROOT = pathlib.Path(__file__).parents[2]

#: Those that declare something by themselves, the name of the declaration being that of the role
ROLES = ("fabric", "node")

#: Each is also the name of the group whose hosts get it; and the role that the play for them has
PROFILES = {"fabric": "fabric", "inference": "inference_node", "training": "training_node"}

#: A node has one of these; that it is in a fabric comes on top.
NODES = ("inference", "training")


def current(output: str) -> str:
    """Of Ansible, which names here what a later version will refuse."""
    assert "[DEPRECATION WARNING]" not in output, output
    return output


def load(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def defaults(role: str) -> dict[str, Any]:
    found: dict[str, Any] = load(f"roles/{role}/defaults/main.yml")
    return found


def options(role: str) -> dict[str, Any]:
    found: dict[str, Any] = load(f"roles/{role}/meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    return found


def debian(scenario: str) -> list[str]:
    """The versions in the containers of a molecule scenario, oldest first."""
    inventories = [*ROOT.glob(f"molecule/{scenario}/inventory/*.yml")]
    assert inventories, scenario
    text = "".join(path.read_text(encoding="utf-8") for path in inventories)
    suites = {"bookworm": "12", "trixie": "13"}
    return sorted({suites[name] for name in re.findall(r"lab_suite: (\w+)", text)})


def name_of(profile_name: str) -> str:
    """The declaration's name on a node."""
    return "node" if profile_name in NODES else profile_name


def declaration(profile_name: str, **overrides: Any) -> dict[str, Any]:
    """By area. overrides: of areas."""
    return profile.combined(profile_name, overrides).areas


def task(role: str) -> dict[str, Any]:
    """The options of declare in the role."""
    found: dict[str, Any] = load(f"roles/{role}/tasks/main.yml")[0]["mlnode.tuning.declare"]
    return found


def profile_of(role: str, **variables: Any) -> Any:
    """The profiles that a role declares with these variables of an inventory."""
    named = task(role)["profile"]
    template = Templar(loader=DataLoader(), variables=variables).template
    # Trusted as Ansible loads the file of a role.
    if isinstance(named, str):
        return template(trust_as_template(named))
    return [template(trust_as_template(name)) for name in named]


def overrides(role: str, **variables: Any) -> dict[str, Any]:
    """By area, as the role hands them over."""
    template = Templar(loader=DataLoader(), variables=variables).template
    return profile.overrides(task(role)["variables"], variables, template)


def said(role: str, **variables: Any) -> dict[str, Any]:
    """What is declared with these variables of an inventory, by area."""
    return profile.combined(profile_of(role, **variables), overrides(role, **variables)).areas
