#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare kernel modules that are loaded now and at every boot."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_modules
short_description: Declare kernel modules that are loaded now and at every boot, and their parameters
version_added: 0.1.0
description:
  - Loads kernel modules, and keeps a file in C(/etc/modules-load.d) that has systemd load them at every boot.
  - Reads what would stop that at boot, in C(modprobe.d) and on the kernel command line. Such a module is
    V(overridden), with file and line.
extends_documentation_fragment:
  - mlnode.tuning.area.modules
notes:
  - A parameter is compared with what the module shows in C(/sys/module), and NVIDIA's C(NVreg_) ones with
    C(/proc/driver/nvidia/params). Another line that counts later makes it V(overridden), with file and line. A
    module that does not show a parameter makes it V(unsupported); the line is written all the same.
  - A module that an initramfs loads takes the parameters that were there when that was made. Make that again with
    C(update-initramfs -u) or C(dracut -f) where a value is still V(pending_reboot) after a boot.
  - A module that is built into the kernel counts as loaded. One that this kernel does not have is V(unsupported), and is
    left out of the file.
  - In a container modules are those of its host. One that is loaded there is V(ok), any other V(unsupported).
  - C(blacklist) keeps systemd from loading a module at boot, and not C(modprobe). So it is loaded now, by the agent at
    every boot, and stays V(overridden) until the line is gone. What C(install NAME /bin/false) or
    C(module_blacklist=) stops is not loaded at all.
  - In an image build, O(layers) as V([boot]), the file is written, nothing is loaded, and whether the image has the
    module is not asked.
  - A revert removes the file, and unloads what this collection has loaded. A module that is in use stays until the next
    boot.
seealso:
  - module: mlnode.tuning.boot_params
  - module: mlnode.tuning.rdma_check
  - module: mlnode.tuning.node_revert
"""

EXAMPLES = r"""
- name: What programs need to use RDMA
  mlnode.tuning.kernel_modules:
    name: site
    modules: [ib_uverbs, rdma_ucm]

- name: Devices of RDMA in network namespaces of their own, for containers
  mlnode.tuning.kernel_modules:
    name: site
    options:
      ib_core:
        netns_mode: 0

- name: Into an image, for the machines that boot it
  mlnode.tuning.kernel_modules:
    name: site
    modules: [ib_uverbs, rdma_ucm, nvidia_peermem]
    layers: [boot]
"""

RETURN = r"""
settings:
  description: Every declared module with its four states and its one status, as in M(mlnode.tuning.sysctl_ml).
  returned: success
  type: list
  elements: dict
  sample: [{key: module.ib_uverbs, want: loaded, runtime: loaded, boot: null, status: overridden}]
reboot_required:
  description: >-
    Whether something takes effect only after a reboot, as C(kernel.modules_disabled) lets nothing be loaded before.
  returned: success
  type: bool
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.modules.kind import kind as modules


def main() -> None:
    tuning_module.run(modules)


if __name__ == "__main__":
    main()
