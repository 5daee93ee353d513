# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes can take part in runs of nccl-tests, and how."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_nodes
short_description: Choose the nodes that can take part in runs of nccl-tests
version_added: 0.1.0
description:
  - Reads what the playbook C(nccl.yml) has asked the nodes. A node without nccl-tests, with other GPUs than
    the rest, or whose GPUs are in use does not take part, and is V(unknown) in the result.
author:
  - mlnode.tuning contributors (!UNKNOWN)
positional: _input
options:
  _input:
    description:
      - For each node C(probe) and C(topology), the results of tasks, and what was given for it, C(gpus),
        C(hostname), C(rails_gbits) and C(nvlink_gbits).
    type: dict
    required: true
  limits:
    description: Absolute limits that the site declares, refused here before anything is measured.
    type: dict
    default: {}
seealso:
  - plugin: mlnode.tuning.nccl_report
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Choose nodes
  ansible.builtin.set_fact:
    group: "{{ asked | mlnode.tuning.nccl_nodes }}"
"""

RETURN = r"""
_value:
  description: How they take part.
  type: dict
  contains:
    nodes:
      description: Names of those that do.
      type: list
      elements: str
    hostnames:
      description: Their hostnames by name.
      type: dict
    problems:
      description: For each of the others the reason.
      type: dict
    program:
      description: Path of C(all_reduce_perf).
      type: str
    gpus:
      description: Number of GPUs of each node.
      type: int
    json:
      description: Whether nccl-tests can write JSON.
      type: bool
    times:
      description: Whether nccl-tests can write the time of each iteration on each process.
      type: bool
"""

from typing import Any, Callable, Mapping

from ansible.errors import AnsibleFilterError
from ansible_collections.mlnode.tuning.plugins.plugin_utils.nccl_tests import facts, presets


def nccl_nodes(asked: Mapping[str, Mapping[str, Any]], limits: Any = None) -> dict[str, Any]:
    try:
        nodes = facts.fleet(asked)
        presets.declared(limits or {})
    except ValueError as error:
        raise AnsibleFilterError(f"nccl_nodes: {error}") from error
    taking = [node for node in nodes.values() if not node.problem]
    first = taking[0] if taking else facts.Node("")
    return {
        "nodes": [node.name for node in taking],
        "hostnames": {node.name: node.hostname for node in taking},
        "problems": {node.name: node.problem for node in nodes.values() if node.problem},
        "program": first.program,
        "gpus": first.gpus or 0,
        "json": "--output_file" in first.options,
        "times": "--per_iter_timing" in first.options,
    }


class FilterModule:
    """As Ansible finds it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"nccl_nodes": nccl_nodes}
