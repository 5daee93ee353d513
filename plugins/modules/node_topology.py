#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report the hardware of a node, and the distances between its GPUs and NICs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_topology
short_description: Report the hardware of a node, and the distances between its GPUs and NICs
version_added: 0.1.0
description:
  - Reads CPUs, NUMA nodes, PCI functions, NICs, RDMA devices and GPUs from C(/sys) and C(/proc), without any vendor's
    tool. Changes nothing, in check mode or out of it.
  - Anything missing or unreadable is listed in RV(topology.problems) and never guessed. It does not fail this module.
  - The document is the same as C(mlnode topology --json) prints on the node.
options: {}
extends_documentation_fragment:
  - mlnode.tuning.declaration.attributes
seealso:
  - module: mlnode.tuning.node_drift
"""

EXAMPLES = r"""
- name: Read the topology
  mlnode.tuning.node_topology:
  register: node

- name: Fail if a GPU has no RDMA NIC near it
  ansible.builtin.assert:
    that: node.topology.bindings | selectattr('distance', 'in', ['SYS', 'unknown']) | length == 0
    fail_msg: "{{ node.topology.warnings }}"

- name: Show the interfaces of all rails in their order
  ansible.builtin.debug:
    msg: "{{ node.topology.nics | rejectattr('rail', 'none') | sort(attribute='rail') | map(attribute='name') }}"
"""

RETURN = r"""
topology:
  description:
    - Parts of the node. A null means unknown.
    - Sets of CPUs are lists as the kernel writes them. Memory is in KiB, speeds of interfaces are in Mbit/s.
  returned: success
  type: dict
  contains:
    format:
      description: Raised when a field changes its meaning or goes; new fields do not raise it.
      type: int
      sample: 1
    mlnode:
      description: The version of the collection that read it.
      type: str
      sample: 0.1.0
    machine:
      description: The kind of machine (V(bare metal), V(virtual machine), V(container) or V(unknown)), and whose it is.
      type: dict
      sample: {kind: bare metal, hypervisor: null, container: null, cloud: null, product: NVIDIA DGXH100}
    cpus:
      description: Sockets, cores and threads, and the sets of CPUs that matter.
      type: dict
      sample:
        sockets: 1
        physical_cores: 2
        threads_per_core: 2
        hybrid: false
        possible: 0-3
        present: 0-3
        online: 0-3
        offline: ""
        isolated: ""
        nohz_full: ""
        allowed: 0-3
        housekeeping: 0-3
        cores:
          - {cpus: "0,2", socket: 0, core: 0, node: 0, kind: null}
          - {cpus: "1,3", socket: 0, core: 1, node: 0, kind: null}
    nodes:
      description: NUMA nodes with their online CPUs, memory and distances to all nodes.
      type: list
      elements: dict
      sample:
        - {number: 0, cpus: 0-3, memory_kbytes: 65536000, distances: [10]}
    gpus:
      description: GPUs and other accelerators in the order of their PCI addresses.
      type: list
      elements: dict
      sample:
        - index: 0
          address: "0000:1b:00.0"
          vendor: NVIDIA
          device: "0x2330"
          node: 0
          driver: nvidia
          link: {speed: 32.0 GT/s PCIe, width: 16, max_speed: 32.0 GT/s PCIe, max_width: 16, degraded: false}
    nics:
      description: Network interfaces. Their C(rail) is their number in the RDMA network of the GPUs.
      type: list
      elements: dict
      sample:
        - name: enp24s0np0
          kind: physical
          driver: mlx5_core
          address: "0000:18:00.0"
          port: 0
          node: 0
          rail: 0
          rdma: [mlx5_0]
          speed_mbit: 400000
          operstate: up
          mtu: 9000
          rx_queues: 63
          tx_queues: 63
          mac: "02:00:00:00:00:01"
          master: null
    rdma:
      description: RDMA devices with their ports and the interfaces they belong to.
      type: list
      elements: dict
      sample:
        - name: mlx5_0
          address: "0000:18:00.0"
          node: 0
          rail: 0
          netdevs: [enp24s0np0]
          ports:
            - {number: 1, link_layer: Ethernet, state: ACTIVE, rate: 400 Gb/sec (4X NDR)}
    distances:
      description: GPU address to NIC to V(PIX), V(PXB), V(PHB), V(NODE), V(SYS) or V(unknown), nearest first.
      type: dict
      sample: {"0000:1b:00.0": {enp24s0np0: PIX}}
    bindings:
      description:
        - Recommended start of a process that drives a GPU.
        - With C(--preferred) instead of C(--membind) the process gets memory of other nodes when its own is full, and
          continues to run.
      type: list
      elements: dict
      sample:
        - gpu: "0000:1b:00.0"
          node: 0
          numactl: numactl --cpunodebind=0 --membind=0
          omp_num_threads: 2
          nics: [enp24s0np0]
          distance: PIX
    pci:
      description: Storage, network, display and accelerator functions, and the bridges above them.
      type: list
      elements: dict
      sample:
        - address: "0000:18:00.0"
          vendor: "0x15b3"
          device: "0x1021"
          class: "0x020000"
          driver: mlx5_core
          node: 0
          root: pci0000:15
          path: ["0000:15:01.0", "0000:16:00.0", "0000:17:00.0", "0000:18:00.0"]
          link: {speed: 32.0 GT/s PCIe, width: 16, max_speed: 32.0 GT/s PCIe, max_width: 16, degraded: false}
          physfn: null
    warnings:
      description: Conditions that cost speed and that an administrator can change.
      type: list
      elements: str
      sample: []
    problems:
      description: Missing or unreadable parts.
      type: list
      elements: dict
      sample: []
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.report import topology


def main() -> None:
    check_module.run("node_topology", topology)


if __name__ == "__main__":
    main()
