#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the RDMA devices of a node, and all that they need, against what was declared."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rdma_check
short_description: Check the RDMA devices of a node, and all that they need, against what was declared
version_added: 0.1.0
description:
  - Looks at every declared port of InfiniBand, RoCE, EFA and Soft-RoCE devices, at its counters and addresses, at PCIe
    between NICs and GPUs, and at what jobs need of the node. Reads C(/sys), C(/proc), configuration space and ethtool's
    ioctls by itself, asks C(ip) for the way of replies, and C(mlxlink) or C(mstlink) where one of them is installed.
    Changes nothing of the node, in check mode or out of it.
  - What is expected is declared for all devices, for rails, or for single devices and ports. What is not declared is
    reported and not judged, apart from what can only be wrong, such as a link that is not up.
  - Error counters are compared with what they were before, which is kept in C(/var/lib/mlnode/rdma-baseline.json) for
    each boot and device. That file is not a setting of the node, so that writing it is not a change. The first look at
    a counter has nothing to be compared with and is V(skip). In check mode and without root nothing is written.
  - V(skip), V(pending) and V(unknown) are never V(pass).
author:
  - mlnode.tuning contributors (!UNKNOWN)
options:
  expect:
    description:
      - Expected values, as a dictionary with the sections C(all), C(rails), C(devices) and the switch C(exact). The
        most specific section wins, key by key. The notes list the keys.
      - C(all) is for the node, and for every RDMA device except virtual functions. C(rails) is for the RDMA network of
        the GPUs, with C(count) for the number of rails, and a rail's number for a single one. C(devices) has names of
        devices (C(mlx5_0)) or ports (C(mlx5_0/1)).
      - C(exact=true) fails for every device that is not declared.
    type: dict
    default: {}
  baseline:
    description:
      - V(keep) compares counters with the first look of this boot and with the last one.
      - V(reset) makes what they are now the first look, as after a cable was replaced.
    type: str
    choices: [keep, reset]
    default: keep
  skip:
    description: Names of checks to leave out, as in RV(checks[].name).
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - mlnode.tuning.expect
  - mlnode.tuning.fail_on.fail
  - mlnode.tuning.declaration.attributes
notes:
  - Any user may run it. Without root, PCI configuration space cannot be read in full and limits of daemons are hidden,
    which is V(unknown), and no baseline is kept.
seealso:
  - module: mlnode.tuning.multi_rail
  - module: mlnode.tuning.node_topology
  - module: mlnode.tuning.path_mtu
"""

EXAMPLES = r"""
- name: Check the rails of an InfiniBand node
  mlnode.tuning.rdma_check:
    expect:
      rails: {count: 8, link_layer: InfiniBand, rate: NDR, width: 4X, mtu: 4096, pkey: "0xffff"}

- name: Check a RoCE node, on which the third rail has an older cable
  mlnode.tuning.rdma_check:
    expect:
      all: {memlock: unlimited, iommu: identity}
      rails:
        count: 8
        link_layer: Ethernet
        rate: 400
        netdev_mtu: 9000
        mtu: 4096
        2: {rate: 200}

- name: Check that each device is in its slot and has an allowed firmware
  mlnode.tuning.rdma_check:
    expect:
      all: {firmware: ["28.43.1014", "28.43.2026"]}
      devices:
        mlx5_0: {slot: "0000:18:00.0", numa: 0}
        mlx5_1: {used: false}

- name: Take a new baseline after a cable was replaced
  mlnode.tuning.rdma_check:
    baseline: reset
"""

RETURN = r"""
checks:
  description: Everything that was looked at.
  returned: success, and where checks fail
  type: list
  elements: dict
  contains:
    name:
      description: Of the check.
      type: str
      sample: rate
    target:
      description: The device, port, interface, PCIe bridge or daemon; V(node) for the node itself.
      type: str
      sample: mlx5_3/1
    verdict:
      description:
        - V(pass), as expected; V(warn), it works and costs something; V(fail), it is not as expected.
        - V(pending), files have it right, and it takes effect with the restart or reboot in RV(checks[].advice).
        - V(skip), not applicable, not declared, or not there; V(unknown), it could not be read.
      type: str
      sample: fail
    expected:
      description: What was expected. Empty where nothing was.
      type: str
      sample: 400 Gb/s (NDR)
    found:
      description: What was read, or why there is nothing.
      type: str
      sample: 200 Gb/sec (2X NDR)
    source:
      description: The file, folder or command it is from.
      type: str
      sample: /sys/class/infiniband/mlx5_3/ports/1/rate
    advice:
      description: What to do. Empty if nothing.
      type: str
      sample: >-
        the link trained down: look at cable and transceiver (mlxlink), and at the switch port's speed
    value:
      description: The value that nodes of a fleet have in common, if RV(checks[].found) has more words or is not judged.
      type: str
      returned: for some checks
      sample: leaf07
failures:
  description: One line for each check that is V(fail), V(unknown), V(pending) or V(warn), in this order, whatever O(fail_on) is.
  returned: success, and where checks fail
  type: list
  elements: str
  sample:
    - "mlx5_3/1: rate fail: 200 Gb/sec (2X NDR) (expected 400 Gb/s (NDR)); the link trained down: look at cable and
      transceiver (mlxlink), and at the switch port's speed"
summary:
  description: How many checks ended with each verdict.
  returned: success, and where checks fail
  type: dict
  sample: {fail: 1, pass: 194, skip: 35}
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.rdma import run


def main() -> None:
    check_module.run("rdma_check", run)


if __name__ == "__main__":
    main()
