#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check a node before a job, in a few seconds."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_preflight
short_description: Check a node before a job, in a few seconds
version_added: 0.1.0
description:
  - Checks for anything that would harm a job that begins now. On the node, these are running jobs, drift, the clock, TCP
    sockets in TIME_WAIT, ports for connections, socket buffers, and packets lost since the last check. Towards other
    nodes, these are packets of full size and the latency of connections. RDMA is checked as by
    M(mlnode.tuning.rdma_check), without C(mlxlink).
  - It takes two seconds, and five at most. An unfinished check is V(unknown) then.
  - The controller adds C(clock_offset), which compares the clock of the node with its own at half of the time between
    question and answer.
  - Nodes listen for each other during their checks, on one TCP port, and answer only the given peers. Run it on all of
    them at the same time, as in the playbook C(preflight.yml). Afterwards only the counters of this check stay, in a file
    in C(/run/mlnode), for the next comparison. The file is not a setting of the node, and writing it is not a change. In
    check mode and without root nothing is written.
options:
  peers:
    description:
      - The other nodes to send packets and connect to, as O(mlnode.tuning.path_mtu#module:peers). Two peers for each node
        are enough.
      - C(source) is required if this node has several addresses, as the peers answer only the addresses in their list.
      - Without peers, nothing between nodes is checked, which is V(skip).
    type: list
    elements: raw
    default: []
  mtu:
    description:
      - The size of the IP packets in bytes that has to arrive, between 576 and 65535. 1500 and 9000 are also tested, if
        the interface supports them.
      - If omitted, the present MTU of the interface to each peer.
    type: int
  tcp_port:
    description: The TCP port on which the nodes listen for each other, from 1024 on.
    type: int
    default: 18590
  expect:
    description: Expected values of RDMA, as O(mlnode.tuning.rdma_check#module:expect).
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
- name: Check three nodes, each with both others
  mlnode.tuning.node_preflight:
    peers: "{{ ['10.0.0.1', '10.0.0.2', '10.0.0.3'] | difference([ansible_host]) }}"
    fail_on: unknown
"""

RETURN = r"""
checks:
  description:
    - All checks. The fields are the same as in M(mlnode.tuning.rdma_check).
    - C(name) is C(jobs), C(drift), C(container_sysctls), C(gpu_messages), C(clock_sync), C(clock_offset),
      C(time_wait), C(local_ports), C(socket_buffers), C(nic_drops), C(tcp_retransmits), C(path_mtu_SIZE),
      C(tcp_connect), C(tcp_listener), C(last_look), C(nccl) or C(rdma_check). Deviations of NCCL variables have their C(name) from
      M(mlnode.tuning.node_audit), and deviations of RDMA from M(mlnode.tuning.rdma_check).
    - C(target) is the peer, interface, device or port; V(node) for the node itself.
    - C(verdict) is V(pass), as expected; V(warn), it works at a cost; V(fail), a job would suffer; V(unknown), it could
      not be determined. With V(pending), files are correct and take effect with the restart or reboot in C(advice). With
      V(skip), the check does not apply, or has nothing to compare with yet.
  returned: success, or if checks fail
  type: list
  elements: dict
  sample:
    - name: tcp_connect
      target: 10.0.0.7
      verdict: pass
      expected: 50 connections, p99 at most 10 times p50
      found: p50 84, p95 112, p99 203, mean 88 us, 0 errors of 50
failures:
  description: One line for each check with V(fail), V(unknown), V(pending) or V(warn), in this order, for any O(fail_on).
  returned: success, or if checks fail
  type: list
  elements: str
summary:
  description: Number of checks by verdict.
  returned: success, or if checks fail
  type: dict
  sample: {pass: 14, skip: 2, warn: 1}
clock:
  description:
    - Times at which the question arrived and the answer left, in seconds since 1970. The controller replaces them by the
      check C(clock_offset).
  returned: success, from the node, and where checks fail
  type: list
  elements: float
seconds:
  description: Duration in seconds.
  returned: success, or if checks fail
  type: float
  sample: 0.9
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.preflight import run


def main() -> None:
    check_module.run("node_preflight", run)


if __name__ == "__main__":
    main()
