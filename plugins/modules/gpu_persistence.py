#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare whether GPUs are kept awake."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_persistence
short_description: Declare whether GPUs are kept awake
version_added: 0.1.0
description:
  - Makes the driver keep unused GPUs initialized, or not. Without persistence, the first program waits for seconds.
  - For NVIDIA's GPUs it runs C(nvidia-persistenced) if it is installed, as its vendor recommends, and sets the mode of
    each GPU with C(nvidia-smi), the only tool that reports it.
  - For AMD's GPUs it writes C(power/control) of the PCI device, V(on) or V(auto).
extends_documentation_fragment:
  - mlnode.tuning.area.gpu
notes:
  - At boot an enabled daemon sets the mode, unless it is started with C(--no-persistence-mode) as on Ubuntu. Otherwise
    the agent sets it, see M(mlnode.tuning.agent).
  - V(unsupported) in a container, without a GPU of NVIDIA or AMD, without its driver, or without C(nvidia-smi).
  - If the kernel has a GPU that C(nvidia-smi) does not list, the setting is V(unknown), as the GPU may have failed.
seealso:
  - module: mlnode.tuning.node_audit
  - module: mlnode.tuning.agent
"""

EXAMPLES = r"""
- name: Keep GPUs initialized
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
  description: Whether a setting takes effect only after a reboot; never for this module.
  returned: success
  type: bool
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.gpu.kind import kind as gpu


def main() -> None:
    tuning_module.run(gpu)


if __name__ == "__main__":
    main()
