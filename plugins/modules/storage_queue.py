#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare the read-ahead of block devices and NFS mounts, and the schedulers of block devices."""

from __future__ import annotations

DOCUMENTATION = r"""
module: storage_queue
short_description: Declare the read-ahead of block devices and NFS mounts, and schedulers
version_added: 0.1.0
description:
  - Sets how far the kernel reads ahead of block devices and of NFS mounts, and which scheduler orders the requests of
    block devices. Rules select devices, as their names and numbers change at a boot.
  - A program that reads a data set from large files waits for each read-ahead, and the kernel's default is 128 KiB.
extends_documentation_fragment:
  - mlnode.tuning.area.storage
  - mlnode.tuning.declaration.by_agent
notes:
  - The read-ahead also applies around a page fault of a mapped file (mmap(2)). A mapped data set with random access, such
    as an indexed data set of tokens, reads up to that much for each access, unless it is mapped with C(MADV_RANDOM).
  - V(unsupported) if no such device exists. A missing device that is declared by name is V(drifted).
seealso:
  - module: mlnode.tuning.node_audit
"""

EXAMPLES = r"""
- name: Raise the read-ahead for large files of a data set on local drives and on NFS
  mlnode.tuning.storage_queue:
    name: site
    rules:
      - name: dataset
        devices:
          types: [nvme, md]
        read_ahead_kb: {at_least: 4096}
      - name: shards
        nfs: [/datasets]
        read_ahead_kb: 15360

- name: Disable the scheduler of NVMe drives
  mlnode.tuning.storage_queue:
    name: site
    rules:
      - name: nvme
        devices:
          types: [nvme]
        scheduler: none
"""

RETURN = r"""
settings:
  description: Every declared setting with its four states and its one status, as in M(mlnode.tuning.sysctl_ml).
  returned: success
  type: list
  elements: dict
  sample:
    - key: storage.dataset.read_ahead_kb
      want: "nvme0n1, nvme1n1: 4096; md0: 8192"
      runtime: "nvme0n1, nvme1n1: 128; md0: 8192"
      boot: "nvme0n1, nvme1n1: 4096; md0: 8192"
      status: drifted
reboot_required:
  description: Whether a setting takes effect only after a reboot; never for this module.
  returned: success
  type: bool
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.storage.kind import kind as storage


def main() -> None:
    tuning_module.run(storage)


if __name__ == "__main__":
    main()
