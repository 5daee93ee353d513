# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer of a node in the result of a task, validated."""

from __future__ import annotations

DOCUMENTATION = r"""
name: node_answer
short_description: Validate the answer of a node in the result of a task
version_added: 0.1.0
description:
  - Returns the fields of a result that a report may use, each of its type and of bounded length. Control
    characters are spelled out. Unknown fields are left out.
  - A result that does not fit becomes a failure with the reason, so that one node does not end a report about
    all.
  - The modules of this collection return validated answers already. Use it for the results of
    C(ansible.builtin.command), C(ansible.builtin.shell) and C(ansible.builtin.async_status).
author:
  - mlnode.tuning contributors (!UNKNOWN)
positional: _input
options:
  _input:
    description: The registered result of a task. An empty one stays empty.
    type: dict
    required: true
  kind:
    description:
      - What was asked. V(command) is a module that runs a program, and V(look) one of this collection that
        looks at a node, such as M(mlnode.tuning.rdma_bandwidth).
    type: str
    choices: [command, look]
    default: look
seealso:
  - plugin: mlnode.tuning.fleet_report
    plugin_type: callback
"""

EXAMPLES = r"""
- name: Show the versions of all nodes
  ansible.builtin.debug:
    msg: "{{ answers | map(attribute='stdout', default='') }}"
  run_once: true
  vars:
    nodes: "{{ ansible_play_hosts_all | map('extract', hostvars) }}"
    results: "{{ nodes | map(attribute='version', default={}) }}"
    answers: "{{ results | map('mlnode.tuning.node_answer', 'command') }}"
"""

RETURN = r"""
_value:
  description: The answer, or C(failed) and C(msg).
  type: dict
"""

from typing import Any, Callable

from ansible.errors import AnsibleFilterError
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_answer

_KINDS = ("command", "look")


def node_answer(result: Any, kind: str = "look") -> dict[str, Any]:
    if kind not in _KINDS:
        raise AnsibleFilterError(f"node_answer: kind must be one of {', '.join(_KINDS)}, got {kind!a}")
    return agent_answer.of_task(kind, result)


class FilterModule:
    """As Ansible finds it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"node_answer": node_answer}
