#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare the persistence mode of NVIDIA's GPUs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_persistence
short_description: Declare the persistence mode of NVIDIA's GPUs
version_added: 0.1.0
description:
  - Has the driver keep unused GPUs initialized, or not. Without it the first program waits for seconds.
  - Runs C(nvidia-persistenced) where it is installed, as its vendor recommends, and sets the mode of each GPU with
    C(nvidia-smi), which alone reports it.
extends_documentation_fragment:
  - mlnode.tuning.area.gpu
notes:
  - At boot a daemon that is enabled brings the mode, unless it is started with C(--no-persistence-mode) as on Ubuntu;
    else the agent does, see M(mlnode.tuning.agent).
  - V(unsupported) where no NVIDIA GPU exists, its driver is not loaded, C(nvidia-smi) is not installed, or in a
    container. GPUs of other vendors have no such mode.
  - A GPU that the kernel has and C(nvidia-smi) does not show makes it V(unknown), as it may have failed.
seealso:
  - module: mlnode.tuning.node_audit
  - module: mlnode.tuning.agent
"""

EXAMPLES = r"""
- name: Keep GPUs awake
  mlnode.tuning.gpu_persistence:
    name: site
    persistence: true
"""

RETURN = r"""
settings:
  description: The setting with its four states and its one status, as in M(mlnode.tuning.sysctl_ml).
  returned: success
  type: list
  elements: dict
  sample: [{key: gpu.persistence, want: "on", runtime: "on: 0-6; off: 7", boot: "on", status: drifted}]
reboot_required:
  description: Whether something takes effect only after a reboot; never for this module.
  returned: success
  type: bool
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.gpu.kind import kind as gpu


def main() -> None:
    tuning_module.run(gpu)


if __name__ == "__main__":
    main()
