#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report what slows a node down or may be broken, whatever is declared."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_audit
short_description: Report what slows a node down or may be broken, whatever is declared
version_added: 0.1.0
description:
  - Looks at kernel, CPUs, memory, GPUs, their links, the place of processes that hold a GPU, the network, interrupts and
    messages of NICs, disks and mounts, daemons, and services that tune. Nothing has to be declared or installed, so that
    it is what to run first on a new machine.
  - Each check has a severity, the reason, what to do, and where that is written. Changes nothing, in check mode or out of
    it.
  - V(skip) and V(unknown) are never V(pass).
  - The checks are those that C(mlnode audit) shows on the node.
options:
  skip:
    description: Names of checks to leave out, as the C(name) of each in RV(checks).
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - mlnode.tuning.fail_on.never
notes:
  - Runs C(nvidia-smi), C(dmesg) and C(chronyc) where they are installed and there is something to query. One that
    fails, or does not answer within a minute, leaves its checks V(unknown).
  - Without root the kernel's log and the limits of daemons may be hidden, which is V(unknown).
seealso:
  - module: mlnode.tuning.node_topology
  - module: mlnode.tuning.rdma_check
  - module: mlnode.tuning.tuning_services
  - module: mlnode.tuning.gpu_persistence
"""

EXAMPLES = r"""
- name: Look at a new machine
  mlnode.tuning.node_audit:
  register: audit

- name: Show what is not as expected
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
    - Everything that was looked at, what matters most first. The fields are those of M(mlnode.tuning.rdma_check). Beside these, C(severity) is how much it
      matters, V(high), V(medium) or V(low), C(reason) is why, and C(reference) is where that is written.
    - C(target) is the GPU, PCIe bridge, daemon or service; V(node) for the node itself.
    - C(verdict) is V(pass), as expected; V(warn) and V(fail), it is not; V(fail) where that is severe; V(skip),
      reported and not judged, or not there; V(unknown), it could not be read.
  returned: success, and where checks fail
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
  description: One line for each check that is V(fail), V(unknown), V(pending) or V(warn), in this order, whatever O(fail_on) is.
  returned: success, and where checks fail
  type: list
  elements: str
summary:
  description: How many checks ended with each verdict.
  returned: success, and where checks fail
  type: dict
  sample: {fail: 1, pass: 17, skip: 6}
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.audit import run


def main() -> None:
    check_module.run("node_audit", run)


if __name__ == "__main__":
    main()
