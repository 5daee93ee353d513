# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of the option `expect`."""

from __future__ import annotations

from collections.abc import Collection

from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks import expect


def _named(keys: Collection[str]) -> str:
    return ", ".join(f"C({key})" for key in keys)


class ModuleDocFragment:
    """Used as C(extends_documentation_fragment: mlnode.tuning.expect)."""

    DOCUMENTATION = rf"""
options: {{}}
notes:
  - Keys of ports and devices in O(expect) are {_named(expect.PORT_KEYS)}. Keys of the node, in C(all) only, are
    {_named(expect.NODE_KEYS)}. An unknown key is refused with the nearest known key.
"""
