# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of rdma_check on all nodes of a fleet, in one."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fabric_report
short_description: Sum up what rdma_check and ib_subnet found on a fleet
version_added: 0.1.0
description:
  - Compares results of M(mlnode.tuning.rdma_check) between nodes, and names those that differ from the
    majority in adapter, board, firmware, link layer, rate and width, RDMA MTU, MTU of the interface, or the
    index of the usable GID.
  - Adds what each node's own checks and M(mlnode.tuning.ib_subnet) have found.
author:
  - mlnode.tuning contributors (!UNKNOWN)
positional: _input
options:
  _input:
    description:
      - A dictionary with the name of each node and its result of M(mlnode.tuning.rdma_check). A node without
        one, as it is not reachable, has an empty value.
    type: dict
    required: true
  fail_on:
    description:
      - For which verdicts there is a line in RV(_value.failures), as in
        O(mlnode.tuning.rdma_check#module:fail_on). Others that are not as expected are in
        RV(_value.warnings).
    type: str
    choices: [fail, unknown, warn, never]
    default: unknown
  subnet:
    description:
      - A dictionary with the name of the node on which M(mlnode.tuning.ib_subnet) ran, and its result.
    type: dict
    default: {}
seealso:
  - module: mlnode.tuning.rdma_check
  - module: mlnode.tuning.ib_subnet
"""

EXAMPLES = r"""
- name: Name the nodes that differ
  ansible.builtin.debug:
    msg: "{{ (dict(ansible_play_hosts_all | zip(results)) | mlnode.tuning.fabric_report).failures }}"
  run_once: true
  vars:
    nodes: "{{ ansible_play_hosts_all | map('extract', hostvars) }}"
    results: "{{ nodes | map(attribute='rdma_result', default={}) }}"
"""

RETURN = r"""
_value:
  description: What was found.
  type: dict
  contains:
    failures:
      description: One line for each check that counts as a failure.
      type: list
      elements: str
      sample:
        - >-
          gpu017 mlx5_3: fleet fail: firmware 28.39.1002, where 511 of 512 have 28.39.2048; bring all to one
          firmware
    warnings:
      description: One line for each other check that is not as expected.
      type: list
      elements: str
    told:
      description:
        - One line for each part of the comparison and of the subnet that is well, or has nothing to be
          compared with.
      type: list
      elements: str
    summary:
      description:
        - How many checks ended with each verdict. Of the nodes' own those that are well do not
          count.
      type: dict
      sample: {fail: 1}
    fleet:
      description: The comparison, as RV(mlnode.tuning.rdma_check#module:checks).
      type: list
      elements: dict
"""

from typing import Any, Callable, Mapping

from ansible.errors import AnsibleFilterError
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_answer
from ansible_collections.mlnode.tuning.plugins.plugin_utils import fabric_report as fleet


def fabric_report(
    nodes: Any, fail_on: str = "unknown", subnet: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    if not isinstance(nodes, Mapping):
        raise AnsibleFilterError("fabric_report: the input must be a dictionary with a result for each node")
    answers, looked = (
        {str(name): agent_answer.of_task("look", result) for name, result in given.items()}
        for given in (nodes, subnet or {})
    )
    try:
        return fleet.report(answers, fail_on, looked)
    except ValueError as error:
        raise AnsibleFilterError(f"fabric_report: {error}") from error


class FilterModule:
    """As Ansible finds it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"fabric_report": fabric_report}
