#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the RDMA devices of a node, and everything that they need, against expected values."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rdma_check
short_description: Check the RDMA devices of a node, and everything that they need, against expected values
version_added: 0.1.0
description:
  - Checks every declared port of InfiniBand, RoCE, EFA and Soft-RoCE devices, its counters and addresses, PCIe between
    NICs and GPUs, and the requirements of jobs. Reads C(/sys), C(/proc), configuration space and ethtool's ioctls, and
    uses C(ip) for the path of replies, and C(mlxlink) or C(mstlink) if one of them is installed. Changes nothing on the
    node, in check mode or out of it.
  - Declare expected values for all devices, for rails, or for single devices and ports. Other values are reported without
    a judgement, except for certain faults, such as a link that is down.
  - Error counters are compared with their earlier values in C(/var/lib/mlnode/rdma-baseline.json), for each boot and
    device. The file is not a setting of the node, and writing it is not a change. The first reading of a counter has
    nothing to be compared with and is V(skip). In check mode and without root nothing is written.
  - V(skip), V(pending) and V(unknown) are never V(pass).
options:
  expect:
    description:
      - Expected values, as a dictionary with the sections C(all), C(rails), C(devices) and the switch C(exact). The
        most specific section takes precedence, key by key. The notes list the keys.
      - C(all) is for the node, and for every RDMA device except virtual functions. C(rails) is for the RDMA network of
        the GPUs, with C(count) for the number of rails, and a rail's number for a single one. C(devices) has names of
        devices (C(mlx5_0)) or ports (C(mlx5_0/1)).
      - C(exact=true) fails for every device that is not declared.
    type: dict
    default: {}
  baseline:
    description:
      - V(keep) compares counters with the first reading of this boot and with the last one.
      - V(reset) makes the present values the first reading, for example after a cable was replaced.
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
  description: All checks.
  returned: success, or if checks fail
  type: list
  elements: dict
  contains:
    name:
      description: Name of the check.
      type: str
      sample: rate
    target:
      description: The device, port, interface, PCIe bridge or daemon; V(node) for the node itself.
      type: str
      sample: mlx5_3/1
    verdict:
      description:
        - V(pass), as expected; V(warn), it works at a cost; V(fail), not as expected.
        - V(pending), files are correct and take effect with the restart or reboot in RV(checks[].advice).
        - V(skip), not applicable, not declared, or not there; V(unknown), it could not be read.
      type: str
      sample: fail
    expected:
      description: The expected value. Empty if none was declared.
      type: str
      sample: 400 Gb/s (NDR)
    found:
      description: The value read, or why there is none.
      type: str
      sample: 200 Gb/sec (2X NDR)
    source:
      description: The file, folder or command that it is from.
      type: str
      sample: /sys/class/infiniband/mlx5_3/ports/1/rate
    advice:
      description: How to repair it. Empty if no repair is needed.
      type: str
      sample: >-
        the link trained down: look at cable and transceiver (mlxlink), and at the switch port's speed
    value:
      description: The value to compare between nodes of a fleet, if RV(checks[].found) has more words or is not judged.
      type: str
      returned: for some checks
      sample: leaf07
failures:
  description: One line for each check with V(fail), V(unknown), V(pending) or V(warn), in this order, for any O(fail_on).
  returned: success, or if checks fail
  type: list
  elements: str
  sample:
    - "mlx5_3/1: rate fail: 200 Gb/sec (2X NDR) (expected 400 Gb/s (NDR)); the link trained down: look at cable and
      transceiver (mlxlink), and at the switch port's speed"
summary:
  description: Number of checks by verdict.
  returned: success, or if checks fail
  type: dict
  sample: {fail: 1, pass: 194, skip: 35}
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.rdma import run


def main() -> None:
    check_module.run("rdma_check", run)


if __name__ == "__main__":
    main()
