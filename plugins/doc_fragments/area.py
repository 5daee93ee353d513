# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation that modules of one area share, with the options of each area from its argument tables."""

from __future__ import annotations

import json
from typing import Any

import yaml
from ansible_collections.mlnode.tuning.plugins.doc_fragments.declaration import (
    ModuleDocFragment as Declaration,
)
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.agent import registry
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.model import argument_spec, schema


class ModuleDocFragment:
    """Used as C(extends_documentation_fragment: mlnode.tuning.area.thp)."""


def _documented(name: str, option: schema.Option, argument: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """An option with its argument spec and its paragraphs of description."""
    inner = argument.pop("options", {})
    paragraphs = [" ".join(text.split()) for text in option.text.split("\n\n")]
    about = {"description": paragraphs, **argument}
    if inner:
        about["suboptions"] = dict(
            _documented(name, option.suboptions[name], argument) for name, argument in inner.items()
        )
    return name, about


def _module(area: str) -> str:
    """Fragment of one area as YAML, which includes JSON."""
    shared, attributes, group = map(
        yaml.safe_load, (Declaration.DOCUMENTATION, Declaration.ATTRIBUTES, Declaration.GROUP)
    )
    table = registry.options(area)
    arguments = argument_spec.of_area(table)
    options = dict(_documented(name, table[name], arguments[name]) for name in table)
    return json.dumps({
        **shared,
        **attributes,
        "options": {**shared["options"], **options},
        "attributes": {**attributes["attributes"], **group["attributes"]},
    })  # fmt: skip


def _all() -> str:
    """Fragment with one dictionary option for each area."""
    about = {
        area: {"description": f"As M(mlnode.tuning.{module}).", "type": "dict"}
        for area, module in registry.MODULES.items()
    }
    return json.dumps({"options": about})


for _name, _text in (("all", _all()), *((area, _module(area)) for area in registry.KINDS)):
    setattr(ModuleDocFragment, _name.upper(), _text)
