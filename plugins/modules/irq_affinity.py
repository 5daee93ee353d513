#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare on which CPUs the interrupts and packets of NICs are handled."""

from __future__ import annotations

DOCUMENTATION = r"""
module: irq_affinity
short_description: Declare on which CPUs the interrupts and packets of NICs are handled
version_added: 0.1.0
description:
  - Puts the interrupts of NICs on chosen CPUs by rules, and steers packets with RPS, XPS and RFS.
  - The node keeps the rules, not the numbers of interrupts, which change with every boot. The agent applies them again
    at boot, and when a NIC arrives or changes its queues.
  - Interrupts are found below the NIC's device in sysfs. Interrupts without a queue, such as C(mlx5_async), keep their
    CPUs.
  - Every interrupt is read back after it was written. An interrupt that the kernel manages is left out; if this applies
    to all interrupts of a rule, its status is V(managed).
  - CPUs that C(isolcpus) or C(nohz_full) reserves get no interrupt, unless O(allow) permits it.
  - irqbalance can be configured to leave the declared interrupts alone, or be switched off.
extends_documentation_fragment:
  - mlnode.tuning.area.irq
  - mlnode.tuning.declaration.by_agent
notes:
  - The number of queues is changed with C(ethtool -L), which renumbers interrupts. Do that before this module.
  - >-
    In summaries, C(eth0: 0..27) means queue 0 on CPU 0, queue 1 on CPU 1 and so on, C(0..54:2) takes every second
    CPU, and C(0-7 x4) are four queues that may each use CPUs 0 to 7.
  - In a container, rules apply only to NICs whose interface is there too. Declare the others on the host.
seealso:
  - module: mlnode.tuning.node_topology
  - module: mlnode.tuning.sysctl_ml
"""

EXAMPLES = r"""
- name: Put queues of rails on the cores of their NUMA node, and leave the rest to irqbalance
  mlnode.tuning.irq_affinity:
    name: site
    rules:
      - name: rails
        nics:
          rails: true
        strategy: spread
    irqbalance: agree

- name: Keep the NICs of a serving node on four cores of each socket
  mlnode.tuning.irq_affinity:
    name: site
    rules:
      - name: serving
        nics:
          drivers: [ice, mlx5_core]
        strategy: housekeeping
        xps: auto
    irqbalance: disable

- name: Spread one queue over 16 CPUs on a small virtual machine
  mlnode.tuning.irq_affinity:
    rules:
      - name: virtio
        nics:
          drivers: [virtio_net]
        rps: auto
        rfs_entries: 32768

- name: Put two ports on selected CPUs
  mlnode.tuning.irq_affinity:
    rules:
      - name: storage
        nics:
          names: [ens1f0, ens1f1]
        strategy: list
        cpus: 0-3,64-67
"""

RETURN = r"""
settings:
  description: Every rule with its four states and its one status, as in M(mlnode.tuning.sysctl_ml).
  returned: success
  type: list
  elements: dict
  sample:
    - key: irq.rails
      want: "eth2, eth3: 0..27; eth4, eth5: 28..55"
      runtime: "eth2, eth3: 0..27; eth4, eth5: 0..27"
      boot: "eth2, eth3: 0..27; eth4, eth5: 28..55"
      status: drifted
reboot_required:
  description: Whether a setting takes effect only after a reboot.
  returned: success
  type: bool
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.irq.kind import kind as irq


def main() -> None:
    tuning_module.run(irq)


if __name__ == "__main__":
    main()
