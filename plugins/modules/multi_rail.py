#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare how the rails of one node share IP networks."""

from __future__ import annotations

DOCUMENTATION = r"""
module: multi_rail
short_description: Declare how the rails of one node share IP networks
version_added: 0.1.0
description:
  - Sets for which addresses a NIC answers (ARP), with which it asks, and whether packets are dropped that would be answered
    over another NIC.
  - What counts is the interface that has the address. Where that is a bond, bridge or VLAN on the chosen NIC, its values
    are set, and the setting says so.
  - The kernel takes the greater of a NIC's value and that of C(net.ipv4.conf.all). Where that makes another value count than
    the declared one, the setting is refused and names the line to declare with M(mlnode.tuning.sysctl_ml).
  - A NIC that arrives has the kernel's defaults. What is declared is kept on the node as a rule for NICs, which the boot
    service re-applies, once more when the network is up, and when a NIC arrives.
  - The values are IPv4's; IPv6 needs none of them. Rules and routes are the network manager's and are not set; the check
    C(reply_path) of M(mlnode.tuning.rdma_check) reports replies that would leave by another interface than that of their
    address.
extends_documentation_fragment:
  - mlnode.tuning.area.rail
  - mlnode.tuning.declaration.by_agent
notes:
  - A change that O(allow) lets through is not undone by itself, unlike with M(mlnode.tuning.nic_ethtool).
seealso:
  - module: mlnode.tuning.rdma_check
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

- name: Two NICs for storage in one subnet that are not rails
  mlnode.tuning.multi_rail:
    name: storage
    rules:
      - name: storage
        nics:
          names: [ens5, ens6]
        arp_ignore: 1
        arp_announce: 2
        rp_filter: 2
"""

RETURN = r"""
settings:
  description: One entry for each value of each rule.
  returned: success
  type: list
  elements: dict
  sample:
    - key: rail.rails.arp_ignore
      want: "eth2, eth3: 1"
      runtime: "eth2, eth3: 1"
      boot: "eth2, eth3: 1"
      status: changed
reboot_required:
  description: Whether something takes effect only after a reboot. Never, for rails.
  returned: success
  type: bool
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.rail.kind import kind as rail


def main() -> None:
    tuning_module.run(rail)


if __name__ == "__main__":
    main()
