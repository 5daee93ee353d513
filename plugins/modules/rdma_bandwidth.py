#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the RDMA bandwidth between two nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rdma_bandwidth
short_description: Measure the RDMA bandwidth between two nodes
version_added: 0.1.0
description:
  - Runs C(ib_write_bw) of perftest on one port, and judges what it measures by the rate of that port. One node serves,
    the other one names it as O(peer). They agree over TCP, and write into each other's memory over RDMA.
  - The program runs on the CPUs of the NIC's NUMA node, from where its memory comes, too.
  - It takes the whole link for O(duration) seconds. Where jobs run, or something else holds a GPU or an RDMA device, it
    is refused. Nothing is changed. In check mode nothing is sent, and the verdict is V(skip).
  - A server ends once it has served, or half a minute after O(timeout) and O(duration), even if this module was killed.
  - What was not measured is V(unknown), which is not a V(pass).
author:
  - mlnode.tuning contributors (!UNKNOWN)
options:
  device:
    description: The RDMA device, such as V(mlx5_0).
    type: str
    required: true
  port:
    description: Its port.
    type: int
    default: 1
  serve:
    description: Serve. The other side gives O(peer).
    type: bool
    default: false
  peer:
    description:
      - The node that serves, by an IPv4 address or a name. Any of its addresses will do, as only the TCP connection
        uses it.
    type: str
  gid_index:
    description:
      - The entry of the port's GID table to send from. If omitted, the first one of RoCE v2 with an IPv4 address, else
        with a routable IPv6 address. InfiniBand needs none.
    type: int
  size:
    description: The size of messages in bytes, from 2 to 8388608.
    type: int
    default: 65536
  duration:
    description:
      - Seconds to measure for, from 5 on, of which the first and last two do not count. The same on both sides.
    type: int
    default: 5
  tcp_port:
    description: The TCP port of the server, from 1024 on.
    type: int
    default: 18515
  timeout:
    description: Seconds to wait for the other side, at most a day.
    type: int
    default: 60
  fraction:
    description: How much of the port's rate has to be there.
    type: float
    default: 0.9
  least:
    description:
      - The Gb/s that have to be there, instead of O(fraction). A device in software (Soft-RoCE) has no rate, so that
        it is V(unknown) without.
    type: float
  allow:
    description: V(busy) measures although something runs.
    type: list
    elements: str
    choices: [busy]
    default: []
extends_documentation_fragment:
  - mlnode.tuning.fail_on.unknown
  - mlnode.tuning.declaration.attributes
notes:
  - Needs C(ib_write_bw) of perftest on both sides, and root, without which running jobs cannot be detected.
seealso:
  - module: mlnode.tuning.rdma_check
  - module: mlnode.tuning.path_mtu
"""

EXAMPLES = r"""
- name: Serve on one node
  mlnode.tuning.rdma_bandwidth:
    device: mlx5_0
    serve: true
  async: 180
  poll: 0
  delegate_to: gpu002

- name: Measure from another one
  mlnode.tuning.rdma_bandwidth:
    device: mlx5_0
    peer: gpu002

- name: Measure Soft-RoCE, whose speed is unknown
  mlnode.tuning.rdma_bandwidth:
    device: rxe0
    peer: 10.0.0.2
    least: 0.5
"""

RETURN = r"""
checks:
  description:
    - The one thing that was looked at, with the C(name) V(bandwidth). The fields are those of M(mlnode.tuning.rdma_check).
    - C(target) is the port, and the peer if this side measures.
    - C(verdict) is V(pass), it is as fast as expected; V(fail), it is not, or the port cannot be used at all;
      V(unknown), nothing could be measured, or the expected bandwidth is unknown; V(skip), in check mode.
  returned: success, and where checks fail
  type: list
  elements: dict
  sample:
    - target: mlx5_0/1 -> gpu002
      verdict: fail
      expected: at least 360 Gb/s, 0.9 of 400
      found: 197.3 Gb/s on CPUs 0-55
      source: ib_write_bw -d mlx5_0 -i 1 -s 65536 -F -D 5 -p 18515 --report_gbits -x 3 gpu002
failures:
  description: One line for each check that is V(fail), V(unknown), V(pending) or V(warn), in this order, whatever O(fail_on) is.
  returned: success, and where checks fail
  type: list
  elements: str
gbits:
  description: What was measured, in Gb/s.
  returned: when something was
  type: float
  sample: 197.3
summary:
  description: How many checks ended with each verdict.
  returned: success, and where checks fail
  type: dict
  sample: {fail: 1}
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.rdma import bandwidth


def main() -> None:
    check_module.run("rdma_bandwidth", bandwidth)


if __name__ == "__main__":
    main()
