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
  - Sets the addresses for which a NIC answers (ARP), the address with which it asks, and whether packets are dropped if
    their reply would leave through another NIC.
  - The settings apply to the interface with the address. If that is a bond, bridge or VLAN on the selected NIC, its values
    are set, and the setting reports it.
  - The kernel uses the greater of a NIC's value and C(net.ipv4.conf.all). If that overrides the declared value, the
    setting is refused, with the line to declare with M(mlnode.tuning.sysctl_ml).
  - A new NIC has the kernel's defaults. The node keeps the declaration as a rule for NICs. The boot service applies it
    again at boot, once more when the network is up, and when a NIC arrives.
  - The values are for IPv4; IPv6 needs no such settings. Rules and routes belong to the network manager and are not set.
    The check C(reply_path) of M(mlnode.tuning.rdma_check) reports replies that would leave through an interface without
    their address.
extends_documentation_fragment:
  - mlnode.tuning.area.rail
  - mlnode.tuning.declaration.by_agent
notes:
  - A change that O(allow) permits is not undone automatically, unlike with M(mlnode.tuning.nic_ethtool).
seealso:
  - module: mlnode.tuning.rdma_check
  - module: mlnode.tuning.sysctl_ml
"""

EXAMPLES = r"""
- name: Let eight rails in one subnet answer for their own addresses only
  mlnode.tuning.multi_rail:
    name: site
    rules:
      - name: rails
        nics:
          rails: true
        arp_ignore: 1
        arp_announce: 2
        rp_filter: 2

- name: Separate two storage NICs in one subnet that are not rails
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
  description: Whether a setting takes effect only after a reboot; never for this module.
  returned: success
  type: bool
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.rail.kind import kind as rail


def main() -> None:
    tuning_module.run(rail)


if __name__ == "__main__":
    main()
