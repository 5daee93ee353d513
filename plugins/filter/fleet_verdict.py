# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One verdict on a fleet, from the results of a module on all of its nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet_verdict
short_description: Judge the results of a module on all nodes of a fleet
version_added: 0.1.0
description:
  - For M(mlnode.tuning.node_preflight), makes one table of the results of all nodes. The worst finding comes
    first, then the rarest. Nodes with the same finding share a line.
  - For M(mlnode.tuning.node_job), joins the ranks of each job over all nodes. Lists the values in which few
    ranks differ from the rest, missing and repeated ranks, and values that are unknown on some ranks.
  - For M(mlnode.tuning.path_mtu), finds the nodes and paths to blame. Two groups of nodes without any
    connection are one line, as they have one switch or uplink in common. A node that is low towards most of
    its peers is also one line. Each other path has a line, with its direction.
  - For M(mlnode.tuning.rdma_check), compares nodes, and lists those that differ from the majority in
    adapter, board, firmware, link layer, rate and width, RDMA MTU, MTU of the interface, or the index of
    the usable GID. Adds the findings of each node's own checks and of M(mlnode.tuning.ib_subnet).
  - An option of another module is an error.
author:
  - mlnode.tuning contributors (!UNKNOWN)
positional: _input, module
options:
  _input:
    description: A dictionary with the name of each node and its result, or the failure in its place.
    type: dict
    required: true
  module:
    description: The module that returned the results.
    type: str
    choices: [node_job, node_preflight, path_mtu, rdma_check]
    required: true
  fail_on:
    description:
      - The verdicts that fail, as O(mlnode.tuning.rdma_check#module:fail_on). A node without a result
        always fails. Not for V(path_mtu).
    type: str
    choices: [fail, unknown, warn, never]
    default: unknown
  accept_unknown:
    description:
      - For V(node_preflight), names of checks that may be V(unknown), such as V(jobs). They stay in the
        table, but do not count.
    type: list
    elements: str
    default: []
  nodes:
    description:
      - For V(path_mtu), a dictionary with the name of each node and its address for the others, one or a
        list, as O(mlnode.tuning.path_mtu#module:peers). Each node has sent to all others, in this order.
    type: dict
    default: {}
  subnet:
    description:
      - For V(rdma_check), a dictionary with the node that ran M(mlnode.tuning.ib_subnet), and the result.
    type: dict
    default: {}
seealso:
  - module: mlnode.tuning.node_job
  - module: mlnode.tuning.node_preflight
  - module: mlnode.tuning.path_mtu
  - module: mlnode.tuning.rdma_check
  - module: mlnode.tuning.ib_subnet
"""

EXAMPLES = r"""
- name: Show the table
  ansible.builtin.debug:
    msg: "{{ (found | mlnode.tuning.fleet_verdict('node_preflight')).table }}"
  run_once: true
  vars:
    found: "{{ dict(ansible_play_hosts_all | zip(results)) }}"
    nodes: "{{ ansible_play_hosts_all | map('extract', hostvars) }}"
    results: "{{ nodes | map(attribute='preflight', default={}) }}"
"""

RETURN = r"""
_value:
  description:
    - For V(node_job), V(node_preflight) and V(path_mtu), C(verdict) is the worst verdict, V(unknown) if a
      node has no result. C(success) is true if all nodes have a result and nothing fails. C(table) has lines
      for a terminal; the last one is a summary. For V(node_preflight), C(nodes) has the verdict of each
      node. For V(node_job), C(document) follows C(docs/schema/jobs.schema.json), and C(verdict) is V(skip)
      if no node has a job.
    - For V(rdma_check), C(failures) has one line for each failed check, C(warnings) for each other
      deviation, and C(notes) for each part of the comparison and of the subnet without a deviation.
      C(summary) is the number of checks by verdict, without the nodes' own successful checks. C(fleet) is
      the comparison, as RV(mlnode.tuning.rdma_check#module:checks).
  type: dict
  sample: {verdict: unknown, success: false, nodes: {gpu001: pass, gpu002: unknown}, table: []}
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.model import FAIL_ON
from ansible_collections.mlnode.tuning.plugins.plugin_utils import (
    agent_answer,
    fabric_report,
    path_report,
    preflight,
)
from ansible_collections.mlnode.tuning.plugins.plugin_utils.jobs import report as jobs_report

#: Module → the options that its verdict takes
_TAKES = {
    "node_job": ("fail_on",),
    "node_preflight": ("fail_on", "accept_unknown"),
    "path_mtu": ("nodes",),
    "rdma_check": ("fail_on", "subnet"),
}


def fleet_verdict(
    results: Any,
    module: str,
    fail_on: str | None = None,
    accept_unknown: Any = None,
    nodes: Any = None,
    subnet: Any = None,
) -> dict[str, Any]:
    options = {"fail_on": fail_on, "accept_unknown": accept_unknown, "nodes": nodes, "subnet": subnet}
    try:
        if module not in _TAKES:
            raise ValueError(f"module: expected {', '.join(_TAKES)}, got {module!r}")
        for name, value in options.items():
            if value is not None and name not in _TAKES[module]:
                raise ValueError(f"{name}: {module} takes only {', '.join(_TAKES[module])}")
        given, asked, peers = (_of_nodes(by_node) for by_node in (results, subnet or {}, nodes or {}))
        fail_on = "unknown" if fail_on is None else fail_on
        if fail_on not in FAIL_ON:
            raise ValueError(f"fail_on: must be one of {', '.join(FAIL_ON)}, got {fail_on!r}")
        if module == "node_job":
            return jobs_report.report(given, fail_on)._asdict()
        if module == "node_preflight":
            accepted = () if accept_unknown is None else accept_unknown
            return preflight.report(given, fail_on, accepted)._asdict()
        if module == "path_mtu":
            return path_report.report(peers, given)._asdict()
        return fabric_report.report(_answers(given), fail_on, _answers(asked))
    except ValueError as error:
        raise AnsibleFilterError(f"fleet_verdict: {error}") from error


def _of_nodes(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ValueError(f"expected a dictionary with all nodes, got {given!r}")
    return {str(name): value for name, value in given.items()}


def _answers(results: Mapping[str, Any]) -> dict[str, Any]:
    return {name: agent_answer.of_task("look", result) for name, result in results.items()}


class FilterModule:
    """As Ansible finds it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"fleet_verdict": fleet_verdict}
