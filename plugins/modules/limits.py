#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare resource limits of logins and services."""

from __future__ import annotations

DOCUMENTATION = r"""
module: limits
short_description: Declare resource limits of logins and services
version_added: 0.1.0
description:
  - Declares how many files a process may open, how much memory it may lock, and similar limits. PAM sets them for logins,
    systemd for services, and the services that start jobs pass them on.
  - C(limits.d) does not apply to services, and settings of systemd do not apply to logins. Each limit is set for both.
  - Reads all files by the rules of PAM and systemd. If a later line has another value, the limit is V(overridden), with
    file and line.
extends_documentation_fragment:
  - mlnode.tuning.area.limits
notes:
  - A running service keeps its limits from its start, and this module restarts none, as jobs would die. The limit is
    V(pending_reboot) until the service or the node is restarted.
  - An open login keeps its limits. The next one has the new ones.
  - Most versions of PAM deny every login whose limits they cannot set. An O(nofile) above C(fs.nr_open) is therefore
    refused, and a container that may not raise its limits is V(unsupported) and gets no file.
  - Another drop-in of the same unit or another file in C(limits.d) takes precedence if its name sorts after C(zz-mlnode-).
    So do lines of PAM for a user or a group; the row lists them.
  - Limits that the container runtime sets for each container are not changed. See M(mlnode.tuning.container_defaults).
  - V(auto) of O(memlock) stays in effect if a later run finds no device, as a driver may be late.
  - In an image build (O(layers) is V([boot])) drop-ins are written for the services of the image.
seealso:
  - module: mlnode.tuning.sysctl_ml
  - module: mlnode.tuning.rdma_check
  - module: mlnode.tuning.node_revert
"""

EXAMPLES = r"""
- name: Raise the limits of files and locked memory for logins, services and jobs
  mlnode.tuning.limits:
    name: site
    nofile:
      login: "65536:1048576"
      systemd: "1024:1048576"
      services: "1024:1048576"
      slurmd: "65536:1048576"
    memlock: auto

- name: Let programs of Slurm users raise their soft limit of files
  mlnode.tuning.limits:
    name: site
    nofile: "65536:1048576"
    domains: ["@slurm-users"]
    services: [slurmd]
    defaults: false
"""

RETURN = r"""
settings:
  description: Every declared limit with its four states and its one status, as in M(mlnode.tuning.sysctl_ml).
  returned: success
  type: list
  elements: dict
  sample:
    - key: limits.services.memlock
      want: unlimited
      runtime: 8388608 (slurmd, until restarted)
      boot: unlimited
      status: pending_reboot
reboot_required:
  description: Whether a running service has to be restarted, by a reboot or by an administrator.
  returned: success
  type: bool
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.limits.kind import kind as limits


def main() -> None:
    tuning_module.run(limits)


if __name__ == "__main__":
    main()
