#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the InfiniBand subnet that a node is in."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ib_subnet
short_description: Check the InfiniBand subnet that a node is in
version_added: 0.1.0
description:
  - Checks the whole subnet from one node, with the tools of infiniband-diags. It verifies that a subnet manager is
    master, and that no cable has changed. Each link must be up with the rate and width that both of its ends support, and
    error counters must be below the thresholds of C(ibqueryerrors). Changes nothing in the subnet, and clears no
    counter.
  - Verifies the shape of the subnet. Each leaf has to serve one rail, and needs enough uplink bandwidth for its
    downlinks, as much as the other leaves, on evenly spread cables. If switches can reduce for SHARP, an aggregation
    manager must have registered (C(saquery SR)).
  - With O(balance) or O(since), verifies that the uplinks of each leaf share its traffic, from two readings of their data
    counters (C(perfquery)). Each direction is judged separately. An uplink with less than 80 % of the busiest one's
    utilization fails its leaf.
  - The node keeps the first result as C(/var/lib/mlnode/ib-subnet.cache), or as C(ib-subnet-PORT.cache) in the same
    folder if O(port) is given. It is the cache of C(ibnetdiscover), and C(iblinkinfo --diff) compares later results
    with it. A missing or moved cable fails, a new one is a warning, until O(baseline=reset) accepts it. The file is not
    a setting of the node, and writing it is not a change. In check mode and without root nothing is kept.
  - A port without a cable is not an error, unless it had one.
  - Anything that cannot be read is V(unknown), which is never V(pass), and is not kept.
options:
  port:
    description:
      - The InfiniBand device (C(mlx5_0)) or port (C(mlx5_0/1)) of this node to start from.
      - If omitted, the first active one, as the tools select it. Required if ports of the node are in different subnets.
    type: str
    default: ""
  baseline:
    description:
      - V(keep) compares with the kept result.
      - V(reset) keeps the present result for later comparisons.
    type: str
    choices: [keep, reset]
    default: keep
  scope:
    description:
      - V(subnet) is the whole subnet.
      - V(uplinks) is the traffic of uplinks alone. Without O(balance) and O(since) it only reads RV(traffic).
    type: str
    choices: [subnet, uplinks]
    default: subnet
  oversubscription:
    description:
      - The ratio of downlink to uplink bandwidth in the design of the leaves, such as V(1) or V(2). A leaf with a greater
        ratio, by the present rates of its active links, fails.
      - If omitted, more than 2 is a warning, and 4 or more fails, which suits training fabrics. Declare the ratio of
        other fabrics, such as storage.
    type: float
  balance:
    description:
      - Seconds between two readings of the uplinks' counters, at most 3600; V(0) reads none. Read them while a job or
        C(nccl-tests) uses nodes of several leaves. A leaf is V(unknown) if its traffic is less than its uplinks carry in
        one second.
    type: int
    default: 0
  since:
    description:
      - RV(traffic) of an earlier result of this module on the same node, as the first of the two readings. The traffic
        between the two tasks is judged. Mutually exclusive with O(balance).
    type: dict
  nodes:
    description:
      - Names of nodes, the first words of C(gpu003 mlx5_0) as C(rdma-ndd) sets them. Only the traffic of their leaves is
        read. All leaves if empty.
    type: list
    elements: str
    default: []
  timeout:
    description: Seconds that each of the tools may take, at most 3600.
    type: int
    default: 300
extends_documentation_fragment:
  - mlnode.tuning.fail_on.unknown
requirements:
  - infiniband-diags on the node
  - root, or write access to C(/dev/infiniband/umad*)
seealso:
  - module: mlnode.tuning.rdma_check
"""

EXAMPLES = r"""
- name: Check the subnet from one node
  mlnode.tuning.ib_subnet:

- name: Check the subnet of the storage network
  mlnode.tuning.ib_subnet:
    port: mlx5_11

- name: Accept the present subnet after cables were moved
  mlnode.tuning.ib_subnet:
    baseline: reset

- name: Check a subnet with 2:1 oversubscription, and its uplinks while a job runs
  mlnode.tuning.ib_subnet:
    oversubscription: 2
    balance: 10

- name: Read the uplinks' counters before a benchmark
  mlnode.tuning.ib_subnet:
    scope: uplinks
  register: before

- name: Judge the traffic of the benchmark
  mlnode.tuning.ib_subnet:
    scope: uplinks
    since: "{{ before.traffic }}"
"""

RETURN = r"""
checks:
  description:
    - One for each deviation, and one for each check without any. The fields are the same as in M(mlnode.tuning.rdma_check).
    - C(name) is V(manager), V(topology), V(links), V(leaf_rails), V(uplinks), V(errors), V(sharp), V(balance) or
      V(baseline).
    - C(target) is the cable by its two ends, the port, the leaf, or V(subnet).
    - C(verdict) is V(pass), as expected; V(warn), new, or errors beyond a threshold; V(fail), gone, moved, down,
      slow, oversubscribed or uneven; V(skip), a first result; V(unknown), it could not be read.
  returned: success, or if checks fail
  type: list
  elements: dict
  sample:
    - name: links
      target: gpu003 mlx5_0/1 - leaf2/1
      verdict: fail
      expected: 4X
      source: iblinkinfo
failures:
  description: One line for each check with V(fail), V(unknown), V(pending) or V(warn), in this order, for any O(fail_on).
  returned: success, or if checks fail
  type: list
  elements: str
summary:
  description: Number of checks by verdict.
  returned: success, or if checks fail
  type: dict
  sample: {fail: 1, pass: 4, skip: 1}
subnet:
  description: Number of nodes of each kind. Empty if the subnet could not be read.
  returned: success, or if checks fail
  type: dict
  sample: {switches: 4, hcas: 4, routers: 0}
traffic:
  description:
    - A first reading of the uplinks' counters for O(since), by the GUID of the leaf. Empty unless this call only took
      the first reading.
  returned: success, or if checks fail
  type: dict
  sample: {}
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.subnet import check


def main() -> None:
    check_module.run("ib_subnet", check)


if __name__ == "__main__":
    main()
