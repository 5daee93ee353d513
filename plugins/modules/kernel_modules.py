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
  - Loads kernel modules, and writes a file in C(/etc/modules-load.d) for systemd to load them at every boot.
  - Reads the lines in C(modprobe.d) and on the kernel command line that would prevent this at boot. Such a module is
    V(overridden), with file and line.
extends_documentation_fragment:
  - mlnode.tuning.area.modules
notes:
  - A parameter is compared with its value in C(/sys/module), and NVIDIA's C(NVreg_) parameters with
    C(/proc/driver/nvidia/params). If a later line takes precedence, it is V(overridden), with file and line. If the
    module does not show the parameter, it is V(unsupported), but the line is written.
  - A module in an initramfs takes the parameters from the time when that initramfs was built. If a value is still
    V(pending_reboot) after a boot, rebuild the initramfs with C(update-initramfs -u) or C(dracut -f).
  - A module that is built into the kernel counts as loaded. A module that this kernel lacks is V(unsupported), and is
    left out of the file.
  - A container has the modules of its host. A module that is loaded there is V(ok), any other V(unsupported).
  - C(blacklist) keeps systemd from loading a module at boot, but not C(modprobe). The module is loaded now, and by the
    agent at every boot, and stays V(overridden) until the line is gone. A module with C(install NAME /bin/false) or
    C(module_blacklist=) is not loaded at all.
  - In an image build (O(layers) is V([boot])) the file is written, nothing is loaded, and the modules of the image are
    not checked.
  - A revert removes the file, and unloads the modules that this collection has loaded. A module in use stays until the
    next boot.
seealso:
  - module: mlnode.tuning.boot_params
  - module: mlnode.tuning.rdma_check
  - module: mlnode.tuning.node_revert
"""

EXAMPLES = r"""
- name: Load the modules that programs need for RDMA
  mlnode.tuning.kernel_modules:
    name: site
    modules: [ib_uverbs, rdma_ucm]

- name: Give containers exclusive RDMA devices in their network namespaces
  mlnode.tuning.kernel_modules:
    name: site
    options:
      ib_core:
        netns_mode: 0

- name: Declare modules in an image for the machines that boot it
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
    Whether a setting takes effect only after a reboot, because C(kernel.modules_disabled) blocks loading until then.
  returned: success
  type: bool
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.modules.kind import kind as modules


def main() -> None:
    tuning_module.run(modules)


if __name__ == "__main__":
    main()
