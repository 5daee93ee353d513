#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare kernel settings below /proc/sys as one set."""

from __future__ import annotations

DOCUMENTATION = r"""
module: sysctl_ml
short_description: Declare kernel settings below /proc/sys as one set
version_added: 0.1.0
description:
  - Applies a whole set of sysctl settings to a node in one call, in the running kernel and for the next boot.
  - Every value is read back after it was written. If one does not take effect, all values of the call are restored, and
    the error contains key, path, value and the kernel's answer.
  - Reads all C(sysctl.d) folders as C(systemd-sysctl) does. A setting that a later file overrides is
    reported as RV(settings[].status=overridden) with that file and line.
  - The value before the first change is kept, so that M(mlnode.tuning.node_revert) or C(mlnode revert) can restore it.
extends_documentation_fragment:
  - mlnode.tuning.area.sysctl
notes:
  - Values are kept in C(/etc/sysctl.d/zz-mlnode-NAME.conf), required modules in
    C(/etc/modules-load.d/mlnode-NAME.conf). V(at_least) has a line only if the node has less without it. The agent sets
    the rest at each boot, see M(mlnode.tuning.agent). These are computed values (V(auto), V(for_bytes)), lists that
    V(at_least) adds to, shares of huge pages per NUMA node, and settings in debugfs.
seealso:
  - module: mlnode.tuning.thp
  - module: mlnode.tuning.agent
  - module: mlnode.tuning.node_drift
"""

EXAMPLES = r"""
- name: Set memory and network of a training node
  mlnode.tuning.sysctl_ml:
    name: site
    settings:
      vm.swappiness: 1
      vm.min_free_kbytes: auto
      vm.dirty_background_bytes: auto
      vm.dirty_bytes: auto
      vm.max_map_count: {at_least: 1048576}
      net.ipv4.tcp_rmem: 4096 131072 auto
      net.ipv4.ip_local_reserved_ports: 9100,29500

- name: Use BBR on nodes that read from a distant object store
  mlnode.tuning.sysctl_ml:
    name: wan
    settings:
      net.ipv4.tcp_congestion_control: bbr
      net.core.default_qdisc: fq
      net.core.rmem_max: auto
    sizing:
      rtt_us: 20000

- name: Reserve huge pages for a model server, half on each NUMA node
  mlnode.tuning.sysctl_ml:
    name: model_server
    settings:
      vm.nr_hugepages@node0: {for_bytes: 42949672960}
      vm.nr_hugepages@node1: {for_bytes: 42949672960}
    allow: [hugepages]

- name: Build an image without reading or changing the build host
  mlnode.tuning.sysctl_ml:
    name: site
    layers: [boot]
    settings:
      vm.swappiness: 1
      vm.min_free_kbytes: auto
"""

RETURN = r"""
settings:
  description: Every declared setting with its four states and its one status.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: The kind of knob.
      type: str
      sample: sysctl
    key:
      description: The setting.
      type: str
      sample: vm.swappiness
    path:
      description: The kernel file that carries it on this node.
      type: str
      sample: /proc/sys/vm/swappiness
    declared:
      description: The declaration as written.
      type: str
      sample: "1"
    want:
      description: The value to reach, with V(auto) computed.
      type: str
      sample: "1"
    runtime:
      description: The kernel's present value; null if there is none, with the reason in C(reason).
      type: str
      sample: "1"
    boot:
      description: The value after the next boot; null if nothing is known to set it.
      type: str
      sample: "60"
    boot_source:
      description: File and line, the agent's unit or the kernel command line with this value.
      type: str
      sample: /etc/sysctl.d/zzz.conf:1
    origin:
      description: The value when the setting was first declared; null if unknown.
      type: str
      sample: "60"
    status:
      description:
        - V(ok), V(changed) (V(drifted) in check mode), V(overridden), V(clamped), V(unsupported), V(refused),
          V(unknown) or V(pending_reboot).
      type: str
      sample: overridden
    severity:
      description: Severity of a deviation, V(high), V(medium) or V(low).
      type: str
      sample: medium
    reason:
      description: The reason for the status.
      type: str
      sample: "boot: /etc/sysctl.d/zzz.conf:1 sets 60"
    causes:
      description: The reason as data. The C(code) is the same word on all nodes with one cause.
      type: list
      elements: dict
      sample: [{layer: boot, code: overridden, file: /etc/sysctl.d/zzz.conf, line: 1, text: sets 60}]
reboot_required:
  description: Whether a setting takes effect only after a reboot.
  returned: success
  type: bool
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.sysctl.kind import kind as sysctl


def main() -> None:
    tuning_module.run(sysctl)


if __name__ == "__main__":
    main()
