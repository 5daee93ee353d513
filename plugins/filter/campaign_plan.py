# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a campaign: which nodes measure each other in which round."""

from __future__ import annotations

DOCUMENTATION = r"""
name: campaign_plan
short_description: Plan which nodes of a fleet measure each other in which round
version_added: 0.1.0
description:
  - Makes the plan that the playbook C(campaign.yml) gives to the nodes. In every round each node is in one
    pair at most, and no pair comes twice. After as many rounds as there are other nodes, all have met.
  - The peers of a node are spread evenly over the leaves, if they are given.
author:
  - mlnode.tuning contributors (!UNKNOWN)
positional: _input
options:
  _input:
    description:
      - A dictionary with the name of each node and its IP addresses, a list with one for each rail.
    type: dict
    required: true
  kind:
    description: What is measured, as O(mlnode.tuning.campaign#module:kind).
    type: str
    default: tcp
  devices:
    description:
      - A dictionary with the name of a node and a list of its RDMA devices, one for each rail, as
        O(mlnode.tuning.campaign#module:devices). If a node has one address, it is that of all its devices.
        Not used for V(tcp).
    type: dict
    default: {}
  leaves:
    description:
      - A dictionary with the name of a node and that of its leaf switch. A node without one has none that is
        known.
    type: dict
    default: {}
  rounds:
    description: How many rounds, V(0) for all.
    type: int
    default: 8
  seed:
    description: Another number measures other pairs.
    type: int
    default: 0
  duration:
    description: Seconds for which each direction is measured.
    type: int
    default: 4
seealso:
  - module: mlnode.tuning.campaign
  - plugin: mlnode.tuning.campaign_report
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Plan four rounds
  ansible.builtin.set_fact:
    plan: "{{ nodes | mlnode.tuning.campaign_plan(rounds=4) }}"
  vars:
    nodes:
      gpu001: [10.0.0.1]
      gpu002: [10.0.0.2]
"""

RETURN = r"""
_value:
  description: The plan.
  type: dict
  contains:
    rounds:
      description: Number of rounds, which may be fewer than asked for.
      type: int
    round_seconds:
      description: How long one takes.
      type: float
    slots:
      description: For each node its rounds, as O(mlnode.tuning.campaign#module:slots), as JSON.
      type: dict
    nodes:
      description: For each node its C(addresses) and its C(leaf), and C(devices) if they are given.
      type: dict
    kind:
      description: What was given.
      type: str
    seed:
      description: What was given.
      type: int
"""

from typing import Any, Callable, Mapping

from ansible.errors import AnsibleFilterError
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign import schedule


def campaign_plan(
    addresses: Any,
    leaves: Mapping[str, str] | None = None,
    devices: Mapping[str, Any] | None = None,
    kind: str = "tcp",
    rounds: int = schedule.ROUNDS,
    seed: int = 0,
    duration: int = 4,
) -> dict[str, Any]:
    try:
        nodes = schedule.nodes(addresses, leaves or {}, devices, kind)
        return schedule.as_texts(schedule.document(nodes, kind, rounds or None, seed, duration))
    except ValueError as error:
        raise AnsibleFilterError(f"campaign_plan: {error}") from error


class FilterModule:
    """As Ansible finds it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"campaign_plan": campaign_plan}
