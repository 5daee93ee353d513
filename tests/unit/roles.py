# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of the roles, and what they declare."""

from __future__ import annotations

import importlib.util
import pathlib
from typing import Any

import yaml

ROOT = pathlib.Path(__file__).parents[2]
ROLES = sorted(path.parent.parent.name for path in ROOT.glob("roles/*/defaults/main.yml"))


def load(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def defaults(role: str) -> dict[str, Any]:
    found: dict[str, Any] = load(f"roles/{role}/defaults/main.yml")
    return found


def options(role: str) -> dict[str, Any]:
    found: dict[str, Any] = load(f"roles/{role}/meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    return found


def declaration(role: str) -> dict[str, Any]:
    """By kind, as docs/values.md shows it."""
    found = importlib.util.spec_from_file_location("values_doc", ROOT / "tools/values_doc.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    specs: dict[str, Any] = module.declaration(role)
    return specs
