#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at a node before a job, in a few seconds."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_preflight
short_description: Look at a node before a job, in a few seconds
version_added: 0.1.0
description:
  - Checks what a job suffers from that begins now - jobs that still run, drift, the clock, TCP sockets in TIME_WAIT, ports
    for connections, socket buffers, packets lost since the last look, packets of full size to other nodes, the latency
    of connections to them, and RDMA as M(mlnode.tuning.rdma_check) does, without C(mlxlink).
  - It takes two seconds, and five at most. What is not over by then is V(unknown).
  - The controller adds C(clock_offset), which compares the clock of the node with its own at half of the time between
    question and answer.
  - Nodes listen for each other while they look at themselves, on one TCP port, and answer only the peers that were
    given. So it has to run on all of them at the same time, as in the playbook C(preflight.yml). When it ends, nothing
    of it is left but the counters of this look, in a file in C(/run/mlnode), for the next one to compare with. They are
    not a setting of the node, so that writing them is not a change. In check mode and without root nothing is written.
options:
  peers:
    description:
      - The other nodes to send packets and connect to, as O(mlnode.tuning.path_mtu#module:peers). Two are enough, where
        each node has two others.
      - C(source) has to be given where this node has several addresses, as the peers answer those addresses only that
        they were given.
      - Without any, nothing between nodes is checked, which is V(skip).
    type: list
    elements: raw
    default: []
  mtu:
    description:
      - The size of the IP packets in bytes that has to arrive, between 576 and 65535. 1500 and 9000 are tried, too, as
        far as the interface has them.
      - If omitted, the MTU that the interface to each peer has now.
    type: int
  tcp_port:
    description: The TCP port on which the nodes listen for each other, from 1024 on.
    type: int
    default: 18590
  expect:
    description: What is expected of RDMA, as O(mlnode.tuning.rdma_check#module:expect).
    type: dict
    default: {}
extends_documentation_fragment:
  - mlnode.tuning.fail_on.unknown
notes:
  - Needs C(ip) of iproute2 and C(ping) of iputils on the node. Drift needs the agent, which M(mlnode.tuning.declare)
    installs. Without root, some of it is V(unknown).
seealso:
  - module: mlnode.tuning.path_mtu
  - module: mlnode.tuning.rdma_check
  - module: mlnode.tuning.node_audit
"""

EXAMPLES = r"""
- name: Look at three nodes, each with both others
  mlnode.tuning.node_preflight:
    peers: "{{ ['10.0.0.1', '10.0.0.2', '10.0.0.3'] | difference([ansible_host]) }}"
    fail_on: unknown
"""

RETURN = r"""
checks:
  description:
    - Everything that was looked at. The fields are those of M(mlnode.tuning.rdma_check).
    - C(name) is C(jobs), C(drift), C(clock_sync), C(clock_offset), C(time_wait), C(local_ports), C(socket_buffers),
      C(nic_drops), C(tcp_retransmits), C(path_mtu_SIZE), C(tcp_connect), C(tcp_listener), C(last_look), C(nccl) or
      C(rdma_check). Of variables of NCCL, what is not as expected has the name that it has in M(mlnode.tuning.node_audit).
      Of RDMA, what is not as expected has the name that it has in M(mlnode.tuning.rdma_check).
    - C(target) is the peer, interface, device or port; V(node) for the node itself.
    - C(verdict) is V(pass), as expected; V(warn), it works and costs something; V(fail), a job would suffer; V(pending),
      files have it right, and it takes effect with the restart or reboot in C(advice); V(skip), there is nothing to look
      at here, or to compare with yet; V(unknown), it could not be found out.
  returned: success, and where checks fail
  type: list
  elements: dict
  sample:
    - name: tcp_connect
      target: 10.0.0.7
      verdict: pass
      expected: 50 connections, p99 at most 10 times p50
      found: p50 84, p95 112, p99 203, mean 88 us, 0 errors of 50
failures:
  description: One line for each check that is V(fail), V(unknown), V(pending) or V(warn), in this order, whatever O(fail_on) is.
  returned: success, and where checks fail
  type: list
  elements: str
summary:
  description: How many checks ended with each verdict.
  returned: success, and where checks fail
  type: dict
  sample: {pass: 14, skip: 2, warn: 1}
clock:
  description:
    - When the question had come to the node, and when the answer left, in seconds since 1970. The controller gives the check
      C(clock_offset) in its place.
  returned: success, from the node, and where checks fail
  type: list
  elements: float
seconds:
  description: How long it took.
  returned: success, and where checks fail
  type: float
  sample: 0.9
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.preflight import run


def main() -> None:
    check_module.run("node_preflight", run)


if __name__ == "__main__":
    main()
