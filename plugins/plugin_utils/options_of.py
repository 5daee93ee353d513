# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a module, from its documentation: what an action takes that stands in for it."""

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

#: Of an option's documentation, what its argument spec has as well
_SPEC = ("type", "elements", "default", "choices", "required", "aliases")


@functools.lru_cache(maxsize=None)
def module(name: str) -> dict[str, Any]:
    """The argument spec. The module has nothing but its documentation, which is read and not imported:
    Ansible compiles what it imports of a collection in each run."""
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
