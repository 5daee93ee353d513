# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Peers of each node for the checks before a job."""

from __future__ import annotations

DOCUMENTATION = r"""
name: preflight_peers
short_description: Choose two other nodes for each node of a fleet
version_added: 0.1.0
description:
  - Computes O(mlnode.tuning.node_preflight#module:peers) of each node for the playbook C(preflight.yml). The
    nodes of one batch form a ring, and the peers of a node are its two neighbours, on each rail.
author:
  - mlnode.tuning contributors (!UNKNOWN)
positional: _input
options:
  _input:
    description:
      - A dictionary with the name of each node and its addresses, in the order of their start. The addresses
        are one name or address, or a list with one address for each rail, from which the node also sends.
    type: dict
    required: true
  at_once:
    description: Number of nodes in a batch, C(ansible_forks).
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
