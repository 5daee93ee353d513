# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The IP addresses between which nodes measure."""

from __future__ import annotations

DOCUMENTATION = r"""
name: campaign_addresses
short_description: Find the IP addresses between which nodes measure
version_added: 0.1.0
description:
  - Resolves host names on the controller. IP addresses stay as they are.
  - All nodes get addresses of one IP version on each rail. This is IPv4 if all of them have an IPv4 address,
    otherwise IPv6.
  - Loopback and link-local addresses do not count, such as C(127.0.1.1) in C(/etc/hosts) of Debian.
author:
  - mlnode.tuning contributors (!UNKNOWN)
positional: _input
options:
  _input:
    description:
      - A dictionary with the name of each node and a list of its addresses or names, one for each rail.
    type: dict
    required: true
seealso:
  - plugin: mlnode.tuning.campaign_plan
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show the addresses
  ansible.builtin.debug:
    msg: "{{ {'gpu001': ['gpu001.example'], 'gpu002': ['10.0.0.2']} | mlnode.tuning.campaign_addresses }}"
"""

RETURN = r"""
_value:
  description: What was found.
  type: dict
  contains:
    addresses:
      description: For each node a list of its IP addresses. Empty if there is a problem.
      type: dict
    problem:
      description: One line that says what is wrong and what to set. Empty if nothing is wrong.
      type: str
"""

from typing import Any, Callable, Mapping

from ansible.errors import AnsibleFilterError
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign import addresses


def campaign_addresses(nodes: Any) -> dict[str, Any]:
    if not isinstance(nodes, Mapping):
        raise AnsibleFilterError(
            "campaign_addresses: the input must be a dictionary with a list for each node"
        )
    found, problem = addresses.resolved(nodes)
    return {"addresses": found, "problem": problem}


class FilterModule:
    """As Ansible finds it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"campaign_addresses": campaign_addresses}
