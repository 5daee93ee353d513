#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare priorities, PFC and ECN of RoCE NICs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: roce_qos
short_description: Declare priorities, PFC and ECN of RoCE NICs
version_added: 0.1.0
description:
  - Sets which packets a NIC puts into which priority, which priorities are not lost (PFC), and how congestion is told
    (ECN, congestion notifications), and reads every value back.
  - Priorities are set through C(dcb) of iproute2 (5.11 or newer), or C(mlnx_qos) where only that is installed, which the
    status of a setting then says. What only the vendor's driver has is set through its files in sysfs; of a NIC without
    them these settings end in V(unsupported).
  - A NIC forgets all of it at every boot. What is declared is kept on the node as a rule for NICs, which the boot service
    re-applies, also when a NIC arrives later or its driver is loaded anew.
  - The switches and all other nodes of the fabric must match. RV(switch) says what that means.
  - Within a NIC the order is global pause, trust, priorities of DSCPs, ETS, PFC, buffers, ECN, notifications, RDMA. NICs are
    changed one at a time. The next one has to wait until the link and the RDMA ports of the last are back.
  - A change that resets the link of the interface over which the node is managed, or of a NIC while jobs run, is refused
    unless O(allow) lets it through. With the driver C(mlx5_core) that is PFC, and trust on some cards.
author:
  - mlnode.tuning contributors (!UNKNOWN)
options:
  rules:
    description:
      - What is wanted of which NICs. Every value that is left out is left untouched.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description:
          - A word for the rule, of a to z, 0 to 9 and C(_). The settings are called C(qos.NAME.pfc), C(qos.NAME.dscp)
            and so on.
        type: str
        required: true
      nics:
        description:
          - Which NICs; one of each list that is given. Without any, all that have hardware of their own.
          - Virtual functions are meant only where they are named, or given by their address, PCI id or RDMA device.
        type: dict
        suboptions:
          names:
            description: Interfaces. A bond, bridge or VLAN stands for the NICs below it.
            type: list
            elements: str
          drivers:
            description: Kernel drivers, such as V(mlx5_core). That of a virtio NIC is V(virtio_net).
            type: list
            elements: str
          addresses:
            description: PCI addresses, such as V(0000:41:00.0). Eight digits of the domain are understood.
            type: list
            elements: str
          pci_ids:
            description: PCI vendor and device, such as V(15b3:101e); in quotes, as YAML would take digits for a number.
            type: list
            elements: str
          rdma:
            description: RDMA devices, such as V(mlx5_0).
            type: list
            elements: str
          rails:
            description: V(true) for all rails, or a list of their numbers, as C(mlnode topology) shows them.
            type: raw
          nodes:
            description: NUMA nodes, by their numbers.
            type: list
            elements: int
          speeds:
            description: Speeds in Mbit/s of links that are up, such as V(400000).
            type: list
            elements: int
          link:
            description: Only NICs whose link is up, or down.
            type: str
            choices: [up, down]
          link_layer:
            description: Only NICs with an RDMA port of that kind.
            type: str
            choices: [Ethernet, InfiniBand]
          management:
            description:
              - V(false) leaves out, and V(true) means only, interfaces that carry a default route or the connection of
                who runs this, and what these stand on.
            type: bool
      trust:
        description:
          - What the priority of a packet is taken from. V(dscp) is the header of IP, V(pcp) the tag of a VLAN.
          - Many drivers trust DSCPs as soon as one of them has a priority. Of these V(dscp) gives priority 0 to DSCP 0, which it
            has anyway, and V(pcp) takes all of them away.
        type: str
        choices: [dscp, pcp]
      dscp:
        description:
          - >-
            Priorities of DSCPs, such as C({26: 3, 48: 6}) or C({24-31: 3}). Others are left as they are.
        type: dict
      pfc:
        description:
          - Priorities with priority flow control, and no others; an empty list is none at all.
          - More than one is refused without V(pfc_priorities) in O(allow).
          - It is refused while global pause is on, unless O(rules[].global_pause) switches that off.
        type: list
        elements: int
      global_pause:
        description:
          - Pause frames for all traffic (IEEE 802.3x), in both directions. Beside PFC it has to be off.
        type: bool
      ets:
        description: Traffic classes and their share of the link. All three lists are set together.
        type: dict
        suboptions:
          prio_tc:
            description: The traffic class of each of the priorities 0 to 7.
            type: list
            elements: int
            required: true
          tc_tsa:
            description: Of each of the eight classes, V(strict), V(ets), V(cbs) or V(vendor).
            type: list
            elements: str
            required: true
          tc_bw:
            description: Of each of the eight classes its percentage. Those of V(ets) have 100 together, all others 0.
            type: list
            elements: int
            required: true
      buffer:
        description: Receive buffers, where the driver lets them be set. Both lists are set together.
        type: dict
        suboptions:
          prio_buffer:
            description: The buffer of each of the priorities 0 to 7.
            type: list
            elements: int
            required: true
          buffer_size:
            description:
              - Bytes of each of the eight buffers. A driver that rounds them fails the task; use what it has made of them then.
            type: list
            elements: int
            required: true
      ecn:
        description:
          - Priorities for which the NIC tells of congestion and slows down (DCQCN, both ends of it). Others are left as they are.
          - Only the vendor's mlx5 driver has switches for it. With the kernel's own it is in the firmware.
        type: list
        elements: int
      cnp:
        description: What congestion notifications look like.
        type: dict
        suboptions:
          dscp:
            description: Their DSCP, often V(48) or V(46).
            type: int
          priority:
            description: Their priority, often V(6).
            type: int
      rdma_cm_tos:
        description:
          - The type of service of connections that are made through rdma_cm, four times the DSCP, plus 2 for ECN, such as V(106).
        type: int
      traffic_class:
        description:
          - The same of all RDMA packets, whatever the programs ask for. Only the vendor's mlx5 driver has that.
        type: int
  max_disruption:
    description:
      - What a change may do to a NIC off the management path. V(none) keeps traffic flowing, V(link_reset) interrupts it
        for a moment, V(driver_reload) lets RDMA devices and virtual functions vanish and come back.
      - On the management path it is V(none), unless O(allow) has V(management).
    type: str
    choices: [none, link_reset, driver_reload]
    default: link_reset
  allow:
    description:
      - Guards to switch off. V(management) lets changes through that interrupt the interface over which the node is managed;
        V(busy) those that interrupt a NIC while a Slurm job runs, or a process has a GPU or an RDMA device open;
        V(pfc_priorities) lets PFC be on several priorities.
    type: list
    elements: str
    choices: [management, busy, pfc_priorities]
    default: []
extends_documentation_fragment:
  - mlnode.tuning.declaration
  - mlnode.tuning.declaration.attributes
notes:
  - No file of the system carries these values. They come back at boot through the agent, see
    M(mlnode.tuning.agent); without it a setting is reported as drifted in its boot layer.
  - What contradicts itself is refused, such as a DSCP of O(rules[].traffic_class) in a priority without PFC.
  - To look at O(rules[].rdma_cm_tos) a folder is made in configfs, and removed again, also in check mode.
  - A change of the management path that O(allow) lets through is not undone by itself, unlike with
    M(mlnode.tuning.nic_ethtool).
seealso:
  - module: mlnode.tuning.agent
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
    - kind: qos
      key: qos.fabric.pfc
      path: /dcb/*/pfc/prio-pfc
      declared: 3 (all rails)
      want: "eth2, eth3: 3"
      runtime: "eth2, eth3: 3"
      boot: "eth2, eth3: 3"
      boot_source: mlnode-apply.service
      origin: "eth2, eth3: none"
      status: changed
      severity: high
      reason: "runtime is eth2, eth3: none"
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
  sample: false
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlnode.tuning.plugins.module_utils import nic_options, tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs import (
    nic_parse,
    qos,
    qos_parse,
    qos_switch,
)

_TEXTS = {"type": "list", "elements": "str"}
_NUMBERS = {"type": "list", "elements": "int"}
_EACH = {**_NUMBERS, "required": True}
_RULE = {
    "name": {"type": "str", "required": True},
    "nics": nic_options.NICS,
    "trust": {"type": "str", "choices": list(qos_parse.TRUSTS)},
    "dscp": {"type": "dict"},
    "pfc": _NUMBERS,
    "global_pause": {"type": "bool"},
    "ets": {
        "type": "dict",
        "options": {"prio_tc": _EACH, "tc_tsa": {**_TEXTS, "required": True}, "tc_bw": _EACH},
    },
    "buffer": {"type": "dict", "options": {"prio_buffer": _EACH, "buffer_size": _EACH}},
    "ecn": _NUMBERS,
    "cnp": {"type": "dict", "options": {"dscp": {"type": "int"}, "priority": {"type": "int"}}},
    "rdma_cm_tos": {"type": "int"},
    "traffic_class": {"type": "int"},
}


def main() -> None:
    own: dict[str, dict[str, Any]] = {
        "rules": {"type": "list", "elements": "dict", "default": [], "options": _RULE},
        "max_disruption": {"type": "str", "choices": list(nic_parse.DISRUPTIONS), "default": "link_reset"},
        "allow": {"type": "list", "elements": "str", "choices": list(qos_parse.GUARDS), "default": []},
    }
    module = AnsibleModule(argument_spec={**tuning_module.ARGUMENTS, **own}, supports_check_mode=True)
    spec = {name: tuning_module.given(module.params[name]) for name in own if module.params[name]}
    if not spec.get("rules"):  # guards of nothing are no declaration
        spec = {}
    tuning_module.declare(
        module,
        qos,
        spec,
        more=lambda _host, rows: {"commands": qos_switch.commands(rows), "switch": qos_switch.words(rows)},
    )


if __name__ == "__main__":
    main()
