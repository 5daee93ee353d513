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
extends_documentation_fragment:
  - mlnode.tuning.area.rail
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
    name: site
    rules:
      - name: rails
        nics:
          rails: true
        arp_ignore: 1
        arp_announce: 2
        rp_filter: 2

- name: A subnet for each rail, whose first address leads to the other rails
  mlnode.tuning.multi_rail:
    name: site
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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode import schema
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs import rail


def main() -> None:
    arguments = schema.module_spec(rail.KIND)
    module = AnsibleModule(argument_spec=arguments, supports_check_mode=True)
    tuning_module.declare(module, rail)


if __name__ == "__main__":
    main()
