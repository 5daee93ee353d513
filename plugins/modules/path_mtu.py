#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that large packets really arrive at other nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: path_mtu
short_description: Check that large packets really arrive at other nodes
version_added: 0.1.0
description:
  - Sends each peer ICMP echo requests of a given size without fragmentation, with C(ping) of iputils. If they do not
    arrive, it finds the largest of the usual sizes that does, and reports the interface of this node or the router that
    refused them. Without such a report, the cause is a switch port or the peer's interface.
  - Then it counts how many packets of the largest arriving size are lost on the way there or back.
  - Run it before an MTU is raised, without O(size), and after it, with the new one. Changes nothing, in check mode or
    out of it.
  - A peer that answers no ICMP at all proves nothing; it is V(unknown), which is neither V(pass) nor V(fail). So is every
    peer of a node without C(ping).
options:
  peers:
    description:
      - The other nodes. Each is an IPv4 or IPv6 address, or a name that this node can resolve. The first address of a name
        is used.
      - Or a dictionary with the C(address), the C(interface) to send from, and as C(source) the address of this node to
        send from. Without the last two, the routes of this node decide. A link-local address needs its interface.
    type: list
    elements: raw
    required: true
  size:
    description:
      - The size of the IP packets in bytes, which is the MTU to prove, between 576 and 65535.
      - If omitted, the present MTU of the interface to each peer.
    type: int
  tries:
    description: Number of packets of one size, at least, before the size counts as lost; at most 20.
    type: int
    default: 3
  timeout:
    description: Seconds between two packets of a size, from 0.2 to 60.
    type: float
    default: 1.0
  packets:
    description:
      - Number of packets of the largest arriving size to send to each peer to count losses, 10 ms apart, at most 10000;
        V(0) counts none. With more than a hundred peers they are fewer, 10,000 in all and at least 10 for each peer. A
        user without root sends 10, 200 ms apart.
      - After a single lost packet as many are sent again. Two lost packets are V(fail), one is V(warn).
    type: int
    default: 100
extends_documentation_fragment:
  - mlnode.tuning.fail_on.unknown
notes:
  - Needs C(ping) of iputils on the node (package C(iputils-ping) on Debian and Ubuntu, C(iputils) elsewhere), C(ip) of
    iproute2, and root or a group in C(net.ipv4.ping_group_range).
  - The kernel remembers the MTU that a router reported for ten minutes (C(net.ipv4.route.mtu_expires)), and C(ping)
    respects it. C(found) reports this case; C(ip route flush cache) makes the kernel forget it.
seealso:
  - module: mlnode.tuning.node_topology
"""

EXAMPLES = r"""
- name: Prove that full packets of the present MTU arrive
  mlnode.tuning.path_mtu:
    peers: [10.0.0.7, gpu8.example]

- name: Prove that 9000 bytes arrive on both rails
  mlnode.tuning.path_mtu:
    peers:
      - {address: 10.1.0.7, interface: rail0}
      - {address: 10.2.0.7, interface: rail1}
    size: 9000
"""

RETURN = r"""
checks:
  description:
    - Result for each peer, in their order, with the C(name) V(path_mtu). The fields are the same as in
      M(mlnode.tuning.rdma_check).
    - C(target) is the peer, and the interface if one was given.
    - C(verdict) is V(pass), the packets arrive; V(fail), only smaller ones do; V(unknown), not even small ones are
      answered, or none could be sent, for example without C(ping), route or permission, or to an unknown name. Two lost
      packets of those that are counted are V(fail) as well, and one is V(warn).
  returned: success, or if checks fail
  type: list
  elements: dict
  sample:
    - target: 10.0.0.7
      verdict: fail
      expected: packets of 9000 bytes arrive
      found: packets of 9000 bytes do not arrive, 1500 do and 2044 do not
      source: ICMP echo, don't fragment, from 10.0.0.1
failures:
  description: One line for each check with V(fail), V(unknown), V(pending) or V(warn), in this order, for any O(fail_on).
  returned: success, or if checks fail
  type: list
  elements: str
summary:
  description: Number of checks by verdict.
  returned: success, or if checks fail
  type: dict
  sample: {pass: 510, fail: 1}
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks import path_mtu


def main() -> None:
    check_module.run("path_mtu", path_mtu)


if __name__ == "__main__":
    main()
