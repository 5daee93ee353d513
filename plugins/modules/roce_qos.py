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
  - Sets the priority of packets, the lossless priorities (PFC), and the reports of congestion (ECN, congestion
    notifications), and reads every value back.
  - Priorities are set through C(dcb) of iproute2 (5.11 or newer), or through C(mlnx_qos) if only that is installed, which
    the setting then reports. Congestion control is set through files of the RDMA driver (mlx5, bnxt_re, irdma); a NIC
    of AMD's ionic is set with C(nicctl). Settings that a driver lacks are V(unsupported).
  - A NIC loses all of its settings at every boot. The node keeps the declaration as a rule for NICs. The boot service
    applies it again at boot, when a NIC arrives later, and when its driver is reloaded.
  - The switches and all other nodes of the fabric must match. RV(switch) lists the required settings.
  - Within a NIC the order is global pause, trust, priorities of DSCPs, ETS, PFC, buffers, ECN, notifications, RDMA. NICs
    are changed one at a time. The module waits until link and RDMA ports are back before the next one.
  - A change that resets the link of the management interface, or of a NIC while jobs run, is refused unless O(allow)
    permits it. With the driver C(mlx5_core) this applies to PFC, and on some cards to trust.
extends_documentation_fragment:
  - mlnode.tuning.area.qos
  - mlnode.tuning.declaration.by_agent
notes:
  - Contradictions are refused, such as a DSCP of O(rules[].traffic_class) in a priority without PFC.
  - To read O(rules[].rdma_cm_tos), and O(rules[].ecn) and O(rules[].cnp) of bnxt_re and irdma, a folder is created in
    configfs and removed again, also in check mode.
  - A change of the management path that O(allow) permits is not undone automatically, unlike with
    M(mlnode.tuning.nic_ethtool).
seealso:
  - module: mlnode.tuning.nic_ethtool
"""

EXAMPLES = r"""
- name: Make priority 3 lossless for RoCE, and use priority 6 for congestion notifications
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

- name: Show the settings that the switches must match
  ansible.builtin.debug:
    var: qos.switch

- name: Reserve half of the link and a separate buffer for RoCE
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
    - Commands for the same settings on this node, for the whole declaration. Trust is left out, as it follows from the
      priorities of DSCPs on most NICs.
  returned: success
  type: list
  elements: str
  sample: ["dcb pfc set dev eth2 prio-pfc all:off 3:on"]
switch:
  description: Settings that the ports of switches, and all other nodes, must have.
  returned: success
  type: list
  elements: str
  sample:
    - PFC on priority 3 and on no other, on every port between two nodes
    - trust DSCP on the ports, towards nodes and between switches
reboot_required:
  description: Whether a setting takes effect only after a reboot; never for this module.
  returned: success
  type: bool
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.qos.kind import kind as qos


def main() -> None:
    tuning_module.run(qos)


if __name__ == "__main__":
    main()
