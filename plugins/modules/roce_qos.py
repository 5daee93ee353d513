#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare priorities, PFC and ECN of RoCE NICs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: roce_qos
short_description: Declare priorities, PFC and ECN of RoCE NICs
version_added: 0.1.0
description:
  - Sets which packets a NIC puts into which priority, which priorities are not lost (PFC), and how congestion is reported
    (ECN, congestion notifications), and reads every value back.
  - Priorities are set through C(dcb) of iproute2 (5.11 or newer), or C(mlnx_qos) where only that is installed, which the
    status of a setting then says. What only the vendor's driver has is set through its files in sysfs; of a NIC without
    them these settings end in V(unsupported).
  - A NIC forgets all of it at every boot. What is declared is kept on the node as a rule for NICs, which the boot service
    re-applies, also when a NIC arrives later or its driver is loaded again.
  - The switches and all other nodes of the fabric must match. RV(switch) says what that means.
  - Within a NIC the order is global pause, trust, priorities of DSCPs, ETS, PFC, buffers, ECN, notifications, RDMA. NICs are
    changed one at a time. The next one has to wait until the link and the RDMA ports of the last are back.
  - A change that resets the link of the interface over which the node is managed, or of a NIC while jobs run, is refused
    unless O(allow) lets it through. With the driver C(mlx5_core) that is PFC, and trust on some cards.
extends_documentation_fragment:
  - mlnode.tuning.area.qos
  - mlnode.tuning.declaration.by_agent
notes:
  - What contradicts itself is refused, such as a DSCP of O(rules[].traffic_class) in a priority without PFC.
  - To look at O(rules[].rdma_cm_tos) a folder is made in configfs, and removed again, also in check mode.
  - A change of the management path that O(allow) lets through is not undone by itself, unlike with
    M(mlnode.tuning.nic_ethtool).
seealso:
  - module: mlnode.tuning.nic_ethtool
"""

EXAMPLES = r"""
- name: RoCE in priority 3, which is not lost; congestion notifications in priority 6
  mlnode.tuning.roce_qos:
    rules:
      - name: fabric
        nics:
          rails: true
        global_pause: false
        trust: dscp
        dscp:
          26: 3
          48: 6
        pfc: [3]
        ecn: [3]
        cnp:
          dscp: 48
          priority: 6
        rdma_cm_tos: 106
        traffic_class: 106
  register: qos

- name: What the switches must match
  ansible.builtin.debug:
    var: qos.switch

- name: Half of the link for RoCE, and a buffer of its own
  mlnode.tuning.roce_qos:
    rules:
      - name: fabric
        nics:
          drivers: [mlx5_core]
        ets:
          prio_tc: [0, 0, 0, 1, 0, 0, 2, 0]
          tc_tsa: [ets, ets, strict, strict, strict, strict, strict, strict]
          tc_bw: [50, 50, 0, 0, 0, 0, 0, 0]
        buffer:
          prio_buffer: [0, 0, 0, 1, 0, 0, 0, 0]
          buffer_size: [131072, 131072, 0, 0, 0, 0, 0, 0]
"""

RETURN = r"""
settings:
  description: One entry for each value of each rule.
  returned: success
  type: list
  elements: dict
  sample:
    - key: qos.fabric.pfc
      want: "eth2, eth3: 3"
      runtime: "eth2, eth3: 3"
      boot: "eth2, eth3: 3"
      status: changed
commands:
  description:
    - What to type for the same on this node, for all that is declared. Trust is not among them, as it follows from the
      priorities of DSCPs on most NICs.
  returned: success
  type: list
  elements: str
  sample: ["dcb pfc set dev eth2 prio-pfc all:off 3:on"]
switch:
  description: What the ports of switches, and all other nodes, must have for it to work.
  returned: success
  type: list
  elements: str
  sample:
    - PFC on priority 3 and on no other, on every port between two nodes
    - trust DSCP on the ports, towards nodes and between switches
reboot_required:
  description: Whether something takes effect only after a reboot. Never, for NICs.
  returned: success
  type: bool
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.qos.kind import kind as qos


def main() -> None:
    tuning_module.run(qos)


if __name__ == "__main__":
    main()
