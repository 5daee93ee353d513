# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Argument specs from the documentation of modules, for the actions that replace them."""

from __future__ import annotations

import functools
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleError

from . import yaml_text

_MODULES = pathlib.Path(__file__).parents[1] / "modules"

_DOCUMENTATION = re.compile(r'^DOCUMENTATION = r"""\n(.*?)^"""', re.MULTILINE | re.DOTALL)

#: Fields of a documented option that its argument spec has as well
_SPEC = ("type", "elements", "default", "choices", "required", "aliases")


@functools.lru_cache(maxsize=None)
def module(name: str) -> dict[str, Any]:
    """Argument spec of a module. A module contains only documentation, which is read without an import:
    Ansible compiles everything that it imports from a collection in each run."""
    match = _DOCUMENTATION.search((_MODULES / f"{name}.py").read_text(encoding="utf-8"))
    if match is None:
        raise AnsibleError(f"{name} is not documented")
    return _options(yaml_text.load(match[1])["options"])


def _options(documented: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {
            **{word: about[word] for word in _SPEC if word in about},
            **({"options": _options(about["suboptions"])} if "suboptions" in about else {}),
        }
        for name, about in documented.items()
    }
