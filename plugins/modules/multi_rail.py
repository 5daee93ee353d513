#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare how the rails of one node share IP networks."""

from __future__ import annotations

DOCUMENTATION = r"""
module: multi_rail
short_description: Declare how the rails of one node share IP networks
version_added: 0.1.0
description:
  - Sets for which addresses a NIC answers (ARP), with which it asks, and whether packets are dropped that would be answered
    over another NIC; and, where it is declared, lets what comes from the address of a NIC leave through this NIC.
  - What counts is the interface that has the IPv4 address. Where that is a bond, bridge or VLAN on the chosen NIC, its values
    are set, and the setting says so.
  - The kernel takes the greater of a NIC's value and that of C(net.ipv4.conf.all). Where that makes another value count than
    the declared one, the setting is refused and names the line to declare with M(mlnode.tuning.sysctl_ml).
  - A NIC that arrives has the kernel's defaults, and routes go with its addresses. What is declared is kept on the node as a
    rule for NICs, which the boot service re-applies, once more when the network is up, and when a NIC arrives.
  - Only IPv4. Rules and routes are set through C(ip) of iproute2, under the routing protocol 109, and only those are ever
    changed or removed.
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
          - A word for the rule, of a to z, 0 to 9 and C(_). The settings are called C(rail.NAME.arp_ignore),
            C(rail.NAME.source_routing) and so on.
        type: str
        required: true
      nics:
        description:
          - Which NICs; one of each list that is given. Without any, all that have hardware of their own.
          - Virtual functions are meant only where they are named, or given by their address, PCI id or RDMA device.
        type: dict
        suboptions:
          names:
            description: Interfaces, also in software, such as a bond or VLAN.
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
      arp_ignore:
        description:
          - For which addresses it answers. V(1) is those of its own, V(0) all of the node.
        type: int
        choices: [0, 1, 2, 3, 8]
      arp_announce:
        description:
          - With which address it asks. V(2) is the best of its own, V(0) any of the node.
        type: int
        choices: [0, 1, 2]
      rp_filter:
        description:
          - Whether what comes in is dropped where the answer would leave through another interface (V(1)), through none at all
            (V(2)), or never (V(0)).
          - V(1) cuts off what is reached over several NICs. On the interface over which the node is managed it is refused
            without V(management) in O(allow).
        type: int
        choices: [0, 1, 2]
      source_routing:
        description:
          - A routing table for each NIC, which packets from its addresses are looked up in before the others. It has
            the networks of the NIC, and what is behind the gateway.
          - It is refused where the table has rules or routes of somebody else, or a name in C(rt_tables) other than C(mlnode).
        type: dict
        suboptions:
          table:
            description:
              - The table of rail 0; those of the others follow. A NIC that is no rail takes this very table, if the rule
                means no other.
            type: int
            default: 1000
          gateway:
            description:
              - V(first) or V(last) address of each NIC's own subnet, one address, or V(none) for a network without a
                way out.
            type: str
            required: true
          to:
            description: Networks behind the gateway; without any, all addresses.
            type: list
            elements: str
  allow:
    description:
      - Guards to switch off. V(management) lets through what may cut off the interface over which the node is managed,
        which is source routing, O(rules[].rp_filter=1) and O(rules[].arp_ignore=8).
    type: list
    elements: str
    choices: [management]
    default: []
extends_documentation_fragment:
  - mlnode.tuning.declaration
  - mlnode.tuning.declaration.attributes
notes:
  - No file of the system carries these values. They come back at boot through the agent, see
    M(mlnode.tuning.agent); without it a setting is reported as drifted in its boot layer.
  - Of a NIC without an IPv4 address, or one that is down, there is nothing to route. The setting says so, and the next run
    after that has changed sets it.
  - A change that O(allow) lets through is not undone by itself, unlike with M(mlnode.tuning.nic_ethtool).
seealso:
  - module: mlnode.tuning.agent
  - module: mlnode.tuning.sysctl_ml
"""

EXAMPLES = r"""
- name: Eight rails in one subnet, each answering for itself
  mlnode.tuning.multi_rail:
    name: fabric
    rules:
      - name: rails
        nics:
          rails: true
        arp_ignore: 1
        arp_announce: 2
        rp_filter: 2

- name: A subnet for each rail, whose first address leads to the other rails
  mlnode.tuning.multi_rail:
    name: fabric
    rules:
      - name: rails
        nics:
          rails: true
          management: false
        arp_ignore: 1
        arp_announce: 2
        rp_filter: 2
        source_routing:
          table: 1000
          gateway: first
          to: [10.0.0.0/8]

- name: Two NICs for storage that are no rails
  mlnode.tuning.multi_rail:
    name: storage
    rules:
      - name: storage_a
        nics:
          names: [ens5]
        source_routing:
          table: 2000
          gateway: 10.20.0.1
      - name: storage_b
        nics:
          names: [ens6]
        source_routing:
          table: 2001
          gateway: 10.20.1.1
"""

RETURN = r"""
settings:
  description: One entry for each value of each rule.
  returned: success
  type: list
  elements: dict
  sample:
    - kind: rail
      key: rail.rails.arp_ignore
      path: /proc/sys/net/ipv4/conf/*/arp_ignore
      declared: 1 (all rails)
      want: "eth2, eth3: 1"
      runtime: "eth2, eth3: 1"
      boot: "eth2, eth3: 1"
      boot_source: mlnode-apply.service
      origin: "eth2, eth3: 0"
      status: changed
      severity: high
      reason: "runtime is eth2, eth3: 0"
reboot_required:
  description: Whether something takes effect only after a reboot. Never, for rails.
  returned: success
  type: bool
  sample: false
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlnode.tuning.plugins.module_utils import nic_options, tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs import rail, rail_parse

_ROUTING = {
    "table": {"type": "int", "default": rail_parse.TABLE},
    "gateway": {"type": "str", "required": True},
    "to": {"type": "list", "elements": "str"},
}
_RULE = {
    "name": {"type": "str", "required": True},
    "nics": nic_options.NICS,
    **{knob: {"type": "int", "choices": list(known)} for knob, known in rail_parse.VALUES.items()},
    rail_parse.ROUTING: {"type": "dict", "options": _ROUTING},
}


def main() -> None:
    own: dict[str, dict[str, Any]] = {
        "rules": {"type": "list", "elements": "dict", "default": [], "options": _RULE},
        "allow": {"type": "list", "elements": "str", "choices": list(rail_parse.GUARDS), "default": []},
    }
    module = AnsibleModule(argument_spec={**tuning_module.ARGUMENTS, **own}, supports_check_mode=True)
    spec = {name: tuning_module.given(module.params[name]) for name in own if module.params[name]}
    if not spec.get("rules"):  # guards of nothing are no declaration
        spec = {}
    tuning_module.declare(module, rail, spec)


if __name__ == "__main__":
    main()
