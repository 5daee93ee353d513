# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of node_preflight on all nodes of a fleet, in one table."""

from __future__ import annotations

DOCUMENTATION = r"""
name: preflight_report
short_description: Sum up what node_preflight found on a fleet
version_added: 0.1.0
description:
  - Makes one table of the results of all nodes. The worst comes first, then what the fewest nodes have.
    Nodes with the same finding share a line.
author:
  - mlnode.tuning contributors (!UNKNOWN)
positional: _input
options:
  _input:
    description:
      - A dictionary with the name of each node and its result of M(mlnode.tuning.node_preflight), or what
        there is in place of one.
    type: dict
    required: true
  fail_on:
    description:
      - For which verdicts RV(_value.success) is false, as O(mlnode.tuning.node_preflight#module:fail_on).
        A node without a result makes it false, whatever this is.
    type: str
    choices: [fail, unknown, warn, never]
    default: unknown
  accept_unknown:
    description:
      - Names of checks that may be V(unknown), such as V(jobs). They stay in the table, and count for no
        verdict.
      - A node without a result is never accepted.
    type: list
    elements: str
    default: []
seealso:
  - module: mlnode.tuning.node_preflight
"""

EXAMPLES = r"""
- name: Show the table
  ansible.builtin.debug:
    msg: "{{ (dict(ansible_play_hosts_all | zip(results)) | mlnode.tuning.preflight_report).table }}"
  run_once: true
  vars:
    nodes: "{{ ansible_play_hosts_all | map('extract', hostvars) }}"
    results: "{{ nodes | map(attribute='preflight', default={}) }}"
"""

RETURN = r"""
_value:
  description: What was found.
  type: dict
  contains:
    verdict:
      description:
        - The worst verdict of a node. A node without a result is V(unknown), which is worse than V(pass).
      type: str
      sample: unknown
    success:
      description: Whether all nodes have a result, and none a verdict of O(fail_on).
      type: bool
      sample: true
    nodes:
      description: The verdict of each node, which is its worst one.
      type: dict
      sample: {gpu001: pass, gpu002: unknown}
    table:
      description: Lines for a terminal. The last one is a summary.
      type: list
      elements: str
"""

from typing import Any, Callable, Mapping

from ansible.errors import AnsibleFilterError
from ansible_collections.mlnode.tuning.plugins.plugin_utils import preflight


def preflight_report(results: Any, fail_on: str = "unknown", accept_unknown: Any = ()) -> dict[str, Any]:
    if not isinstance(results, Mapping):
        raise AnsibleFilterError(
            "preflight_report: the input must be a dictionary with a result for each node"
        )
    if not isinstance(accept_unknown, (list, tuple)) or not all(
        isinstance(one, str) for one in accept_unknown
    ):
        raise AnsibleFilterError(
            f"preflight_report: accept_unknown: expected a list of names of checks, got {accept_unknown!r}"
        )
    try:
        return preflight.report(results, fail_on, accept_unknown)._asdict()
    except ValueError as error:
        raise AnsibleFilterError(f"preflight_report: {error}") from error


class FilterModule:
    """As Ansible finds it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"preflight_report": preflight_report}
