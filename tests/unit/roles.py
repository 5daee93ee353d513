# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of the roles, and what the profiles declare."""

from __future__ import annotations

import pathlib
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


def load(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def defaults(role: str) -> dict[str, Any]:
    found: dict[str, Any] = load(f"roles/{role}/defaults/main.yml")
    return found


def options(role: str) -> dict[str, Any]:
    found: dict[str, Any] = load(f"roles/{role}/meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    return found


def name_of(profile_name: str) -> str:
    """The declaration's name on a node."""
    return "node" if profile_name in NODES else profile_name


def declaration(profile_name: str, **overrides: Any) -> dict[str, Any]:
    """By area. overrides: of areas."""
    return profile.areas(profile_name, overrides)


def says(role: str, **variables: Any) -> dict[str, Any]:
    """What a role, and playbooks/drift.yml, make of the variables of an inventory."""
    text = _trusted(load(f"roles/{role}/vars/main.yml")[f"{role}_declared"])
    found: dict[str, Any] = Templar(loader=DataLoader(), variables=variables).template(text)
    return found


def _trusted(value: Any) -> Any:
    """As Ansible loads the file of a role: it does not template what comes from anywhere else."""
    if isinstance(value, dict):
        return {name: _trusted(item) for name, item in value.items()}
    return trust_as_template(value)


def said(role: str, **variables: Any) -> dict[str, Any]:
    """What is declared with these variables of an inventory, by area."""
    given = says(role, **variables)
    return profile.areas(given["profile"], {area: spec for area, spec in given.items() if area != "profile"})
