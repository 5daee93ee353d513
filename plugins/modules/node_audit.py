#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report what slows a node down or may be broken, with or without declarations."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_audit
short_description: Report what slows a node down or may be broken, with or without declarations
version_added: 0.1.0
description:
  - Checks kernel, CPUs, memory, GPUs, their links, the CPUs of processes that hold a GPU, the network, interrupts and
    messages of NICs, disks and mounts, daemons, and services that tune. It needs no declaration and no installation; run
    it first on a new machine.
  - Each check has a severity, the reason, advice, and a reference. Changes nothing, in check mode or out of it.
  - V(skip) and V(unknown) are never V(pass).
  - The checks are the same as in C(mlnode audit) on the node.
options:
  skip:
    description: Names of checks to leave out, from C(name) in RV(checks).
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - mlnode.tuning.fail_on.never
notes:
  - Runs C(nvidia-smi), C(amd-smi), C(dmesg) and C(chronyc) if they are installed and have something to query. If one fails, or does
    not answer within a minute, its checks are V(unknown).
  - Without root the kernel's log and the limits of daemons may be hidden, which is V(unknown).
seealso:
  - module: mlnode.tuning.node_topology
  - module: mlnode.tuning.rdma_check
  - module: mlnode.tuning.tuning_services
  - module: mlnode.tuning.gpu_persistence
"""

EXAMPLES = r"""
- name: Check a new machine
  mlnode.tuning.node_audit:
  register: audit

- name: Show deviations
  ansible.builtin.debug:
    var: audit.failures

- name: Refuse machines on which a check of high severity fails
  mlnode.tuning.node_audit:
    fail_on: fail
    skip: [kernel]
"""

RETURN = r"""
checks:
  description:
    - All checks, the most important first. The fields are the same as in M(mlnode.tuning.rdma_check), with three more.
      C(severity) is V(high), V(medium) or V(low), C(reason) is its explanation, and C(reference) the source.
    - C(target) is the GPU, PCIe bridge, daemon or service; V(node) for the node itself.
    - C(verdict) is V(pass), as expected; V(warn), not as expected; V(fail), not as expected and severe; V(skip), reported
      without a judgement, or not there; V(unknown), it could not be read.
  returned: success, or if checks fail
  type: list
  elements: dict
  sample:
    - name: governor
      target: node
      verdict: fail
      expected: performance
      found: schedutil
      severity: high
      advice: "set it to performance: the module cpu_governor"
failures:
  description: One line for each check with V(fail), V(unknown), V(pending) or V(warn), in this order, for any O(fail_on).
  returned: success, or if checks fail
  type: list
  elements: str
summary:
  description: Number of checks by verdict.
  returned: success, or if checks fail
  type: dict
  sample: {fail: 1, pass: 17, skip: 6}
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.audit import run


def main() -> None:
    check_module.run("node_audit", run)


if __name__ == "__main__":
    main()
