# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that an inventory gives to the groups of nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
name: known_groups
short_description: Names that an inventory gives to the groups of nodes
version_added: 0.1.0
description:
  - The name of the group C(training) is the extra variable C(mlnode_training), otherwise the variable with
    that name on localhost, as in C(group_vars/all), otherwise C(training). The same applies to each other
    group.
  - For C(hosts) of a play, which Ansible reads before it has a host. C(--list-hosts) and C(--syntax-check)
    see extra variables only.
author:
  - mlnode.tuning contributors (!UNKNOWN)
options:
  _terms:
    description: Groups by their usual names. C(training), C(inference) and C(fabric) if none is given.
    type: list
    elements: str
  in_use:
    description: Whether to return only groups that have hosts.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Verify training nodes
  hosts: "{{ lookup('mlnode.tuning.known_groups', 'training') }}"
  gather_facts: false
  tasks: []
"""

RETURN = r"""
_raw:
  description: Names of groups in the inventory.
  type: list
  elements: str
  sample: [dgx, inference, fabric]
"""

from collections.abc import Mapping
from typing import Any

from ansible.plugins.lookup import LookupBase

#: Groups of nodes, by their usual names
NODES = ("training", "inference", "fabric")


class LookupModule(LookupBase):  # type: ignore[misc]  # LookupBase has no types
    """The name ansible-core looks for."""

    def run(self, terms: list[str], variables: Mapping[str, Any] | None = None, **kwargs: Any) -> list[str]:
        self.set_options(var_options=variables, direct=kwargs)
        known = variables or {}
        names = [self._name(group, known) for group in terms or NODES]
        if not self.get_option("in_use"):
            return names
        return [name for name in names if known.get("groups", {}).get(name)]

    def _name(self, group: str, known: Mapping[str, Any]) -> str:
        name = f"mlnode_{group}"
        if name in known:
            return str(self._templar.template(known[name]))
        # hostvars is missing when plays are listed or their syntax is checked.
        return str((known.get("hostvars") or {"localhost": {}})["localhost"].get(name, group))
