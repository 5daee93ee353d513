# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of path_mtu on all nodes of a fleet, in one table."""

from __future__ import annotations

DOCUMENTATION = r"""
name: path_mtu_report
short_description: Find the nodes and paths to blame in the results of path_mtu on a fleet
version_added: 0.1.0
description:
  - Makes one table of the results of all nodes. Two groups of nodes between which nothing arrives are one
    line, as they have one switch or uplink in common. A node that is low towards most of its peers is one
    line as well, with how many it does not reach, and how many do not reach it. All other paths are a line
    each, with their direction.
author:
  - mlnode.tuning contributors (!UNKNOWN)
positional: _input
options:
  _input:
    description:
      - A dictionary with the name of each node that sent and its result of M(mlnode.tuning.path_mtu), or
        what there is in place of one.
    type: dict
    required: true
  nodes:
    description:
      - A dictionary with the name of each node and where the others reach it, one or a list, as
        O(mlnode.tuning.path_mtu#module:peers). Each node has sent to all others, in this order.
    type: dict
    required: true
seealso:
  - module: mlnode.tuning.path_mtu
"""

EXAMPLES = r"""
- name: Show the table
  ansible.builtin.debug:
    msg: "{{ (dict(ansible_play_hosts_all | zip(results)) | mlnode.tuning.path_mtu_report(addresses)).table
    }}"
  run_once: true
  vars:
    addresses: {gpu001: 10.0.0.1, gpu002: 10.0.0.2}
    nodes: "{{ ansible_play_hosts_all | map('extract', hostvars) }}"
    results: "{{ nodes | map(attribute='path_mtu', default={}) }}"
"""

RETURN = r"""
_value:
  description: What was found.
  type: dict
  contains:
    verdict:
      description: The worst verdict of a way. A node that has not sent is V(unknown).
      type: str
      sample: fail
    success:
      description: Whether all nodes have sent, and no way fails or is unknown.
      type: bool
      sample: false
    table:
      description: Lines for a terminal. The last one is a summary.
      type: list
      elements: str
"""

from typing import Any, Callable, Mapping

from ansible.errors import AnsibleFilterError
from ansible_collections.mlnode.tuning.plugins.plugin_utils import path_report


def path_mtu_report(results: Any, nodes: Any) -> dict[str, Any]:
    if not isinstance(results, Mapping) or not isinstance(nodes, Mapping):
        raise AnsibleFilterError("path_mtu_report: the input and nodes must be dictionaries with all nodes")
    try:
        return path_report.report(nodes, results)._asdict()
    except ValueError as error:
        raise AnsibleFilterError(f"path_mtu_report: {error}") from error


class FilterModule:
    """As Ansible finds it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"path_mtu_report": path_mtu_report}
