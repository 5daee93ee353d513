# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups of an inventory that a playbook would leave alone by mistake."""

from __future__ import annotations

DOCUMENTATION = r"""
name: node_groups
short_description: Verify the groups of an inventory before a run
version_added: 0.1.0
description:
  - A play without hosts ends with a zero status, so a misspelled group would look like a tuned fleet.
author:
  - mlnode.tuning contributors (!UNKNOWN)
positional: _input, known, chosen
options:
  _input:
    description: The groups with their hosts, C(groups).
    type: dict
    required: true
  known:
    description: Names of the groups with nodes.
    type: list
    elements: str
    required: true
  chosen:
    description: The hosts that C(--limit) leaves, or all.
    type: list
    elements: str
    required: true
  all:
    description: All hosts of the inventory are nodes if none of these groups has any.
    type: bool
    default: false
  strangers:
    description: Hosts in none of these groups are treated, too.
    type: bool
    default: false
  also:
    description: Groups of other hosts that the playbook works on, such as C(monitoring).
    type: list
    elements: str
    default: []
  option:
    description: The extra variable that names the one group.
    type: str
    default: ''
  least:
    description: How many nodes it takes.
    type: int
    default: 1
  within:
    description: Whether it takes as many with C(--limit).
    type: bool
    default: false
  limit:
    description: C(ansible_limit), if given.
    type: str
    default: ''
  exclusive:
    description: Two groups that have no host in common.
    type: list
    elements: str
    default: []
  needed:
    description: Groups that each need a selected host.
    type: list
    elements: str
    default: []
  others:
    description: Groups of other hosts, left alone on purpose.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Verify the inventory
  ansible.builtin.assert:
    that: not (groups | mlnode.tuning.node_groups(['training'], groups['all'])).faults
"""

RETURN = r"""
_value:
  description: What was found.
  type: dict
  contains:
    faults:
      description: Reasons to stop.
      type: list
      elements: str
    left_alone:
      description: Each host that is in none of these groups, and the groups that it is in.
      type: dict
      sample: {web001: web}
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.mlnode.tuning.plugins.plugin_utils import node_groups as inventory


def node_groups(
    groups: Mapping[str, Sequence[str]], known: Sequence[str], chosen: Sequence[str], **options: Any
) -> dict[str, Any]:
    return inventory.check(groups, known, chosen, options)._asdict()


class FilterModule:
    """As Ansible finds it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"node_groups": node_groups}
