#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
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
  - Checks names and values, as NCCL itself says nothing. It does not know a misspelled name, of V(4M) it reads 4, and
    of V(010) it reads 8.
author:
  - mlnode.tuning contributors (!UNKNOWN)
options:
  variables:
    description:
      - Name and value. V(null) leaves a variable untouched.
      - Known are the variables of NCCL's user guide as of NCCL 2.32, and those that its library reads without telling
        about them. A name that is none is refused with the known one that is most like it, and a value of the wrong
        type with what is allowed.
      - A list of YAML is written with commas.
      - C(NCCL_IB_HCA) as V(auto) is the exact list of the rails, each with its port, such as
        V(=mlx5_0:1,mlx5_3:1). See M(mlnode.tuning.node_topology) for which ports are rails.
      - C(NCCL_SOCKET_IFNAME) as V(auto) is the interface of the default route. Without one it is what the node was
        reached over when it was last set up, and without that all but C(lo) and C(docker0).
      - C(NCCL_IB_GID_INDEX) as V(auto) is the index of the IPv4 address of RoCE v2, if each rail has one such address
        and all have it at the same index. Else the variable is left out, and the row says why. NCCL finds out the
        index by itself since 2.21.
      - C(NCCL_IB_TC) as V(auto) is the traffic class that a declaration of kind C(qos) on this node gives to RoCE. Where
        there is none, where there are several, where the rails are InfiniBand, or where no rail has the priorities that
        are declared beside it, it is left out, and the row says why.
      - Variables that do not belong into a file of the node are refused, each with its reason, such as C(NCCL_COMM_ID),
        C(NCCL_CONF_FILE) and C(NCCL_PSK), and so are those that NCCL no longer reads.
    type: dict
    default: {}
  allow:
    description:
      - Guards to switch off.
      - V(unknown) takes names that are not known, with any line of text as value, if they begin with C(NCCL_),
        C(SHARP_COLL_) or C(OFI_NCCL_). It is for plugins, and for versions of NCCL that are newer than this module.
    type: list
    elements: str
    choices: [unknown]
    default: []
extends_documentation_fragment:
  - mlnode.tuning.declaration
  - mlnode.tuning.declaration.attributes
notes:
  - Of several lines for one variable NCCL takes the first, so that the lines of each declaration are in a block at the
    beginning of the file. All other lines stay as they are, and where one of them says something else, the row tells it.
  - A job that runs keeps what it has read. V(runtime) is what the file says, V(boot) what a job finds that is started
    from a login; both are mended by writing the file, so that the layer V(boot) is needed for a change.
  - What a job has in its environment, and what C(NCCL_CONF_FILE) or C(~/.nccl.conf) of its user says, beats this file.
    A variable that C(/etc/environment) sets to something else is V(overridden). Lines in files of shells, systemd and
    Slurm that may set it are told with the row. Files of users are not looked at.
  - A container has a C(/etc/nccl.conf) of its own. Mount that of the node into it, read-only, for jobs in containers.
  - EFA devices are neither InfiniBand nor Ethernet. What V(auto) would find out about rails is V(unsupported) there, as
    the plugin that NCCL needs for them finds them by itself.
  - A C(/etc/nccl.conf) that is a link belongs to somebody else, and is refused.
seealso:
  - module: mlnode.tuning.node_topology
  - module: mlnode.tuning.agent
  - module: mlnode.tuning.node_revert
"""

EXAMPLES = r"""
- name: Rails and meeting point as the machine has them
  mlnode.tuning.nccl_conf:
    name: fabric
    variables:
      NCCL_IB_HCA: auto
      NCCL_SOCKET_IFNAME: auto
      NCCL_DEBUG: WARN

- name: A RoCE node, with the traffic class for which its NICs are set up
  mlnode.tuning.nccl_conf:
    name: fabric
    variables:
      NCCL_IB_HCA: auto
      NCCL_SOCKET_IFNAME: auto
      NCCL_IB_GID_INDEX: auto
      NCCL_IB_TC: auto
      NCCL_IB_TIMEOUT: 20
      NCCL_IB_RETRY_CNT: 7

- name: An InfiniBand node with SHARP, and a variable of a plugin
  mlnode.tuning.nccl_conf:
    name: fabric
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
  sample:
    - kind: nccl
      key: nccl.NCCL_IB_TC
      path: /etc/nccl.conf
      declared: "106"
      want: "106"
      runtime: "106"
      boot: "104"
      boot_source: /etc/environment:3
      origin: null
      status: overridden
      severity: high
      reason: "boot: /etc/environment:3 sets 104"
reboot_required:
  description: Whether something takes effect only after a reboot. Never, as jobs read the file when they start.
  returned: success
  type: bool
  sample: false
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs import nccl


def main() -> None:
    own = {
        "variables": {"type": "dict", "default": {}},
        "allow": {"type": "list", "elements": "str", "choices": ["unknown"], "default": []},
    }
    module = AnsibleModule(argument_spec={**tuning_module.ARGUMENTS, **own}, supports_check_mode=True)
    spec = {name: module.params[name] for name in own if module.params[name]}
    if not spec.get("variables"):
        spec = {}  # a guard that is switched off declares nothing
    tuning_module.declare(module, nccl, spec)


if __name__ == "__main__":
    main()
