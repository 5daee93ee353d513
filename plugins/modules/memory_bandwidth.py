#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the memory of each NUMA node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: memory_bandwidth
short_description: Measure the memory of each NUMA node
version_added: 0.1.0
description:
  - Measures how fast one core of each NUMA node copies memory of that node, and how long a random read takes. The
    nodes are measured one after the other, for about three seconds each.
  - C(mbw) under C(numactl) measures copies if both are installed, otherwise the module itself. Random reads need
    C(sysbench) and C(numactl), as Python cannot time them. RV(nodes) contains the tool.
  - Each array has four times the size of the largest cache that the core reaches. If both arrays exceed a quarter of the
    NUMA node's free memory, it is not measured.
  - The result is the speed of one core, which is less than the speed of the NUMA node, and is not judged. Compare it with
    the same node before a change, as the playbook C(effect.yml) does, or with other nodes of the same model.
  - The measurement is refused if jobs run, or if a process holds a GPU or an RDMA device. Changes nothing.
options:
  allow:
    description: V(busy) measures even if a job or another program runs.
    type: list
    elements: str
    choices: [busy]
    default: []
extends_documentation_fragment:
  - mlnode.tuning.declaration.attributes
notes:
  - In check mode the module detects running programs, but measures nothing.
  - Random reads of C(sysbench) do not wait for each other. Their time is less than the latency of memory.
seealso:
  - module: mlnode.tuning.node_topology
  - module: mlnode.tuning.campaign
"""

EXAMPLES = r"""
- name: Measure the memory of each NUMA node
  mlnode.tuning.memory_bandwidth:
  register: memory

- name: Stop if a node was not measured
  ansible.builtin.assert:
    that: memory.nodes | map(attribute='copied.value') | select('none') | length == 0
"""

RETURN = r"""
nodes:
  description: Results of each NUMA node. Empty in check mode.
  returned: success
  type: list
  elements: dict
  contains:
    node:
      description: Number of the NUMA node.
      type: int
      sample: 0
    copied:
      description: Bytes that one core copies per second. Each byte is read once and written once.
      type: dict
      contains: &speed
        value:
          description: In GB/s for C(copied), in ns for C(read). Null if it was not measured.
          type: float
          sample: 11.4
        tool:
          description: The tool. C(mlnode) is the module itself.
          type: str
          sample: numactl, mbw
        reason:
          description: Why there is no measurement. Empty if there is one.
          type: str
    read:
      description: Time of one of many random reads of 8 bytes.
      type: dict
      contains: *speed
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks import memory


def main() -> None:
    check_module.run("memory_bandwidth", memory)


if __name__ == "__main__":
    main()
