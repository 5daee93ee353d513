# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that nobody knows, each with the known one that was probably meant."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode import options

DOCUMENTATION = r"""
name: unknown_names
short_description: Names that nobody knows, each with the known one that was probably meant
version_added: 0.1.0
author:
  - mlnode.tuning contributors (!UNKNOWN)
description:
  - A misspelled variable is no error to Ansible. The default counts then, and nobody sees it.
positional: known
options:
  _input:
    description: The names that are there.
    type: list
    elements: str
    required: true
  known:
    description: The names that there may be.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Find variables that the role does not know
  ansible.builtin.debug:
    msg: "{{ query('ansible.builtin.varnames', '^training_node_') | mlnode.tuning.unknown_names(known) }}"
"""

RETURN = r"""
_value:
  description: The unknown ones in the order of the alphabet, each with what was probably meant.
  type: list
  elements: str
"""


def unknown_names(given: Iterable[str], known: Collection[str]) -> list[str]:
    """See DOCUMENTATION."""
    return [f"{name}{options.meant(name, known)}" for name in sorted({*given} - {*known})]


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name → filter."""
        return {"unknown_names": unknown_names}
