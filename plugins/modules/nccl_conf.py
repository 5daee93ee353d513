#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare variables of NCCL in /etc/nccl.conf."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_conf
short_description: Declare variables of NCCL in /etc/nccl.conf
version_added: 0.1.0
description:
  - Keeps variables of NCCL in C(/etc/nccl.conf), which every job that uses NCCL reads when it starts. On AMD's GPUs the
    file is C(/etc/rccl.conf), which RCCL reads; if it is a link to C(nccl.conf), that is written.
  - Detects the RDMA devices of the rails, and the interface on which jobs meet, on the machine itself. The agent repeats
    this at every boot.
  - Checks names, and values that NCCL misreads silently. NCCL ignores a misspelled name, reads V(4M) as 4, and V(010) as
    8.
extends_documentation_fragment:
  - mlnode.tuning.area.nccl
notes:
  - NCCL takes the first of several lines for one variable. The lines of each declaration are therefore in a block at the
    beginning of the file. All other lines stay as they are, and the row lists those with another value.
  - A running job keeps the values that it has read. V(runtime) is the content of the file, V(boot) is the value for a job
    that is started from a login. Both are corrected in the file, so a change needs the layer V(boot).
  - The environment of a job, C(NCCL_CONF_FILE) and the user's C(~/.nccl.conf) take precedence over this file. A variable
    with another value in C(/etc/environment) is V(overridden). The row lists lines in files of shells, systemd and Slurm
    that may set it. Files of users are not read.
  - A container has a separate C(/etc/nccl.conf). For jobs in containers, mount the node's file into them, read-only.
  - EFA devices are neither InfiniBand nor Ethernet. V(auto) for rails is V(unsupported) there, as NCCL's plugin for EFA
    detects them on its own.
  - If C(/etc/nccl.conf) is a link, it belongs to another program, and the module refuses to change it.
seealso:
  - module: mlnode.tuning.node_topology
  - module: mlnode.tuning.agent
  - module: mlnode.tuning.node_revert
"""

EXAMPLES = r"""
- name: Detect rails and meeting interface
  mlnode.tuning.nccl_conf:
    name: site
    variables:
      NCCL_IB_HCA: auto
      NCCL_SOCKET_IFNAME: auto
      NCCL_DEBUG: WARN

- name: Configure a RoCE node with the traffic class of its NICs
  mlnode.tuning.nccl_conf:
    name: site
    variables:
      NCCL_IB_HCA: auto
      NCCL_SOCKET_IFNAME: auto
      NCCL_IB_GID_INDEX: auto
      NCCL_IB_TC: auto
      NCCL_IB_TIMEOUT: 20
      NCCL_IB_RETRY_CNT: 7

- name: Configure an InfiniBand node with SHARP and a variable of a plugin
  mlnode.tuning.nccl_conf:
    name: site
    variables:
      NCCL_IB_HCA: "=mlx5_0:1,mlx5_1:1"
      NCCL_COLLNET_ENABLE: 1
      SHARP_COLL_LOG_LEVEL: 3
      NCCL_IBEXT_DISABLE: 0
    allow: [unknown]
"""

RETURN = r"""
settings:
  description: Every declared variable with its four states and its one status, as in M(mlnode.tuning.sysctl_ml).
  returned: success
  type: list
  elements: dict
  sample: [{key: nccl.NCCL_IB_TC, want: "106", runtime: "106", boot: "104", status: overridden}]
reboot_required:
  description: Whether a setting takes effect only after a reboot. Never, as jobs read the file when they start.
  returned: success
  type: bool
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.nccl.kind import kind as nccl


def main() -> None:
    tuning_module.run(nccl)


if __name__ == "__main__":
    main()
