# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes look at which others before a job."""

from __future__ import annotations

DOCUMENTATION = r"""
name: preflight_peers
short_description: Choose two other nodes for each node of a fleet
version_added: 0.1.0
description:
  - Makes O(mlnode.tuning.node_preflight#module:peers) of each node, as the playbook C(preflight.yml) gives
    them. The nodes that are worked on at the same time are a ring, and each has its two neighbours, on each
    rail.
author:
  - mlnode.tuning contributors (!UNKNOWN)
positional: _input
options:
  _input:
    description:
      - A dictionary with the name of each node and where it is reached, in the order in which they are
        started - a list of its addresses, one for each rail, from which it sends as well, or one address or
        name.
    type: dict
    required: true
  at_once:
    description: How many nodes are worked on at the same time, C(ansible_forks).
    type: int
    required: true
seealso:
  - module: mlnode.tuning.node_preflight
"""

EXAMPLES = r"""
- name: Choose peers
  ansible.builtin.set_fact:
    peers: "{{ {'gpu001': ['10.0.0.1'], 'gpu002': ['10.0.0.2']} | mlnode.tuning.preflight_peers(2) }}"
"""

RETURN = r"""
_value:
  description: A dictionary with the name of each node and a list of its peers.
  type: dict
  sample: {gpu001: [{address: 10.0.0.2, source: 10.0.0.1}], gpu002: [{address: 10.0.0.1, source: 10.0.0.2}]}
"""

from typing import Any, Callable

from ansible_collections.mlnode.tuning.plugins.plugin_utils import preflight


class FilterModule:
    """As Ansible finds it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"preflight_peers": preflight.peers}
