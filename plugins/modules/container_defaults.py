#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare sysctls, ulimits and shared memory of new containers."""

from __future__ import annotations

DOCUMENTATION = r"""
module: container_defaults
short_description: Declare sysctls, ulimits and shared memory of new containers
version_added: 0.1.0
description:
  - A container does not have most sysctls of its node, has the ulimits of its runtime, and 64 MiB of C(/dev/shm). This
    module sets them as defaults of Podman, Docker, CRI-O and the kubelet.
  - The values can be taken from the areas C(sysctl) and C(limits) of the same node.
extends_documentation_fragment:
  - mlnode.tuning.area.containers
notes:
  - The defaults apply to containers that are started later. A value of the container itself takes precedence.
  - No runtime is restarted. Docker, CRI-O and the kubelet read their files when they start. Until then, a value is
    V(pending_reboot), with the command.
  - A value that a runtime has no default for is V(unsupported), with the remedy. Docker has no default sysctls, CRI-O no
    default size of C(/dev/shm), and containerd has neither.
  - Podman and CRI-O get a drop-in. It repeats the entries of earlier files, because a list replaces the previous one. A
    later file with the same list takes precedence, and the value is V(overridden), with file and line.
  - C(/etc/docker/daemon.json) belongs to the operator. Only the members C(default-ulimits) and C(default-shm-size) are
    changed, and a revert restores them.
  - The kubelet gives sysctls to all pods from Kubernetes 1.37 on, if its feature gate C(DefaultPodSysctls) is on.
    Otherwise, pods may only request them, and the value is V(clamped).
seealso:
  - module: mlnode.tuning.sysctl_ml
  - module: mlnode.tuning.limits
  - module: mlnode.tuning.node_revert
"""

EXAMPLES = r"""
- name: Give containers the sysctls and limits of the node
  mlnode.tuning.container_defaults:
    name: site
    sysctls: auto
    ulimits: auto
    shm_size: 16GiB

- name: Set defaults for Podman alone
  mlnode.tuning.container_defaults:
    name: site
    sysctls:
      net.core.somaxconn: 4096
    ulimits:
      memlock: unlimited
      nofile: "65536:1048576"
    runtimes: [podman]
"""

RETURN = r"""
settings:
  description: Every topic of every runtime with its four states and its one status, as in M(mlnode.tuning.sysctl_ml).
  returned: success
  type: list
  elements: dict
  sample:
    - key: containers.podman.ulimits
      want: nofile=65536:1048576, memlock=unlimited
      runtime: nofile=65536:1048576, memlock=unlimited
      status: changed
reboot_required:
  description: Whether a runtime has to be restarted, by a reboot or by an administrator.
  returned: success
  type: bool
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.containers.kind import (
    kind as containers,
)


def main() -> None:
    tuning_module.run(containers)


if __name__ == "__main__":
    main()
