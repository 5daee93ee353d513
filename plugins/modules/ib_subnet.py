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
  - Looks at the whole subnet from one node, with the tools of infiniband-diags - whether a subnet manager is its master,
    which cables have changed, whether each link is up and as fast and wide as both of its ends can be, and which ports
    have error counters beyond the thresholds of C(ibqueryerrors). Changes nothing of the subnet, and clears no counter.
  - Of the shape of the subnet, whether each leaf serves one rail, whether each leaf has enough bandwidth up for its
    bandwidth down, and as much as the others, with cables spread evenly, and, where switches can reduce for SHARP,
    whether an aggregation manager has registered (C(saquery SR)).
  - With O(balance) or O(since), whether the uplinks of each leaf share its traffic, from two readings of their data
    counters (C(perfquery)). Each direction is judged by itself. An uplink that is used less than 80 % as much as the
    busiest one, both as a part of their rates, fails its leaf.
  - The first look is kept on the node as C(/var/lib/mlnode/ib-subnet.cache), or as C(ib-subnet-PORT.cache) beside it
    where O(port) is given, the cache of C(ibnetdiscover). C(iblinkinfo --diff) compares later looks with it. A cable that
    is gone or moved fails, a new one is a warning, until O(baseline=reset) accepts it. The file is not a setting of
    the node, so that writing it is not a change. In check mode and without root nothing is kept.
  - A port without a cable is not an error, unless a cable was there.
  - What could not be looked at is V(unknown), which is never V(pass), and nothing of it is kept.
options:
  port:
    description:
      - The InfiniBand device (C(mlx5_0)) or port (C(mlx5_0/1)) of this node to look from.
      - If omitted, the first one that is active, as the tools choose it. Name one where ports of the node are in
        different subnets.
    type: str
    default: ""
  baseline:
    description:
      - V(keep) compares with what is kept.
      - V(reset) keeps what is there now, to compare with.
    type: str
    choices: [keep, reset]
    default: keep
  scope:
    description:
      - V(subnet) is all of it.
      - V(uplinks) is the traffic of uplinks alone. Without O(balance) and O(since) it only reads RV(traffic).
    type: str
    choices: [subnet, uplinks]
    default: subnet
  oversubscription:
    description:
      - The ratio of bandwidth down to bandwidth up that leaves are built with, such as V(1) or V(2). A leaf with a greater
        one fails, by the rates that its active links have now.
      - If omitted, more than 2 is a warning, and 4 or more fails, which is for fabrics that train. Declare the ratio of
        others, such as those for storage.
    type: float
  balance:
    description:
      - Seconds between two readings of the uplinks' counters, at most 3600; V(0) reads none. Read them while a job or
        C(nccl-tests) uses nodes of several leaves, as with less traffic than the uplinks of a leaf carry in one second
        that leaf is V(unknown).
    type: int
    default: 0
  since:
    description:
      - RV(traffic) of an earlier result of this module on the same node, as the first of both readings. The traffic
        between the two tasks is judged. It excludes O(balance).
    type: dict
  nodes:
    description:
      - Names of nodes, the first words of C(gpu003 mlx5_0) as C(rdma-ndd) gives them. The traffic of their leaves is read
        alone. All leaves if empty.
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

- name: Accept the subnet as it is, after cables were moved
  mlnode.tuning.ib_subnet:
    baseline: reset

- name: Check a subnet that was built with 2:1, and its uplinks while a job runs
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
    - One for each deviation, and one for each check that found none. The fields are those of M(mlnode.tuning.rdma_check).
    - C(name) is V(manager), V(topology), V(links), V(leaf_rails), V(uplinks), V(errors), V(sharp), V(balance) or
      V(baseline).
    - C(target) is the cable by its two ends, the port, the leaf, or V(subnet).
    - C(verdict) is V(pass), as expected; V(warn), new, or errors beyond a threshold; V(fail), gone, moved, down,
      slow, oversubscribed or uneven; V(skip), a first look; V(unknown), it could not be looked at.
  returned: success, and where checks fail
  type: list
  elements: dict
  sample:
    - name: links
      target: gpu003 mlx5_0/1 - leaf2/1
      verdict: fail
      expected: 4X
      source: iblinkinfo
failures:
  description: One line for each check that is V(fail), V(unknown), V(pending) or V(warn), in this order, whatever O(fail_on) is.
  returned: success, and where checks fail
  type: list
  elements: str
summary:
  description: How many checks ended with each verdict.
  returned: success, and where checks fail
  type: dict
  sample: {fail: 1, pass: 4, skip: 1}
subnet:
  description: How many nodes of each kind there are. Empty where they could not be looked at.
  returned: success, and where checks fail
  type: dict
  sample: {switches: 4, hcas: 4, routers: 0}
traffic:
  description:
    - A first reading of the uplinks' counters for O(since), by the GUID of the leaf. Empty unless this call took the
      first reading alone.
  returned: success, and where checks fail
  type: dict
  sample: {}
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.subnet import check


def main() -> None:
    check_module.run("ib_subnet", check)


if __name__ == "__main__":
    main()
