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
  - Keeps variables of NCCL in C(/etc/nccl.conf), which every job that uses NCCL reads when it starts.
  - Finds out the RDMA devices that are rails, and the interface on which jobs meet, on the machine itself. The agent
    does so again at every boot.
  - Checks names, and the values that NCCL misreads silently. It ignores a misspelled name, of V(4M) it reads 4,
    and of V(010) it reads 8.
extends_documentation_fragment:
  - mlnode.tuning.area.nccl
notes:
  - Of several lines for one variable NCCL takes the first, so that the lines of each declaration are in a block at the
    beginning of the file. All other lines stay as they are, and where one of them has another value, the row names it.
  - A job that runs keeps what it has read. V(runtime) is what the file says, V(boot) what a job finds that is started
    from a login; both are mended by writing the file, so that the layer V(boot) is needed for a change.
  - What a job has in its environment, and what C(NCCL_CONF_FILE) or C(~/.nccl.conf) of its user says, beats this file.
    A variable that C(/etc/environment) sets to something else is V(overridden). Lines in files of shells, systemd and
    Slurm that may set it are named in the row. Files of users are not looked at.
  - A container has a C(/etc/nccl.conf) of its own. Mount that of the node into it, read-only, for jobs in containers.
  - EFA devices are neither InfiniBand nor Ethernet. What V(auto) would find out about rails is V(unsupported) there, as
    the plugin that NCCL needs for them finds them by itself.
  - A C(/etc/nccl.conf) that is a link belongs to another program, and is refused.
seealso:
  - module: mlnode.tuning.node_topology
  - module: mlnode.tuning.agent
  - module: mlnode.tuning.node_revert
"""

EXAMPLES = r"""
- name: Rails and meeting point as the machine has them
  mlnode.tuning.nccl_conf:
    name: site
    variables:
      NCCL_IB_HCA: auto
      NCCL_SOCKET_IFNAME: auto
      NCCL_DEBUG: WARN

- name: A RoCE node, with the traffic class for which its NICs are set up
  mlnode.tuning.nccl_conf:
    name: site
    variables:
      NCCL_IB_HCA: auto
      NCCL_SOCKET_IFNAME: auto
      NCCL_IB_GID_INDEX: auto
      NCCL_IB_TC: auto
      NCCL_IB_TIMEOUT: 20
      NCCL_IB_RETRY_CNT: 7

- name: An InfiniBand node with SHARP, and a variable of a plugin
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
  description: Whether something takes effect only after a reboot. Never, as jobs read the file when they start.
  returned: success
  type: bool
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.nccl.kind import kind as nccl


def main() -> None:
    tuning_module.run(nccl)


if __name__ == "__main__":
    main()
