#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare parameters of the kernel command line."""

from __future__ import annotations

DOCUMENTATION = r"""
module: boot_params
short_description: Declare parameters of the kernel command line
version_added: 0.1.0
description:
  - Gives the kernel parameters for the next boot, one by one, and leaves all others as they are.
  - Reads the parameters of the next boot from the boot loader's own menu, and the running kernel's from
    C(/proc/cmdline). If only a reboot is missing, a parameter is V(pending_reboot). This module never reboots.
  - Isolates CPUs from one list, and refuses to leave too few of them for everything else.
extends_documentation_fragment:
  - mlnode.tuning.area.boot
notes:
  - Debian and Ubuntu keep the parameters in C(/etc/default/grub.d/zz-mlnode-NAME.cfg), which takes the declared ones
    out of C(GRUB_CMDLINE_LINUX) and C(GRUB_CMDLINE_LINUX_DEFAULT) and sets them again. If C(grub-mkconfig) does not
    read such files, the two lines of C(/etc/default/grub) are edited. C(update-grub) or C(grub-mkconfig) runs once, and
    only if a file has changed or the menu differs. If the new menu has no kernel, the old one is restored.
  - On the Red Hat family the C(options) lines of C(/boot/loader/entries) are edited, and for future kernels
    C(/etc/kernel/cmdline) and C(/etc/default/grub). Entries that use C($kernelopts) (RHEL 8) are V(unsupported), and the
    reason contains the C(grubby) command. This was tested on file trees only, not on such a machine.
  - Recovery entries get the parameters too if GRUB generates its menu from C(GRUB_CMDLINE_LINUX), but they are not
    checked. Entries of other systems, and entries that an administrator wrote by hand, are not checked either.
  - If systemd-boot or a unified kernel image (UKI) started the node, C(bootctl list) names the entries. Their
    C(options) lines and C(/etc/kernel/cmdline) are edited, and C(kernel-install) makes the images again. An old image
    stays in the menu until the new one was read back. Entries whose boots are still counted, and images of other
    makers, are V(unsupported).
  - A parameter is V(unsupported) if another program starts the kernel (a container, a hypervisor, the network), or if
    this kernel is built without the required option.
  - In files that are edited in place, parameters stay after their declaration is removed. M(mlnode.tuning.node_revert)
    restores the files; the running kernel keeps its command line until the next reboot. On the Red Hat family and
    with systemd-boot, the revert covers the entries of the kernels that were installed then. Kernels installed since
    keep the parameters.
  - The kernel reads 2047 characters of its command line and drops the rest silently. A longer line is an error.
  - The kernel starts with every word. A misspelt name that is nearly a known one, and a value that no kernel takes,
    are errors before anything is written. A parameter that the kernel reports as unknown or refused after the boot
    has drifted, with the kernel's line as the reason.
  - On a system that ostree deploys, the first capable tool gives the parameters to the next deployment. C(bootc) does so
    as its source C(mlnode), if it has C(loader-entries set-options-for-source) and ostree is 2026.1 or newer. Otherwise
    C(rpm-ostree kargs) or C(ostree admin instutil set-kargs) does, and a revert puts the words before back. Words that
    others gave through bootc or the image stay, and the parameter is V(overridden). Without such a tool, and in the
    agent's services, whose sandbox has no C(/sysroot), parameters are V(unsupported). Of C(bootc) and C(rpm-ostree)
    only stand-ins were tried.
seealso:
  - module: mlnode.tuning.thp
  - module: mlnode.tuning.irq_affinity
  - module: mlnode.tuning.node_revert
"""

EXAMPLES = r"""
- name: Set the boot parameters of a training node
  mlnode.tuning.boot_params:
    name: site
    parameters:
      transparent_hugepage: madvise
      numa_balancing: disable
      iommu: pt
      console: [tty0, "ttyS0,115200"]
    absent: [quiet]

- name: Reserve the CPUs of a serving node, except two on each socket
  mlnode.tuning.boot_params:
    name: site
    isolate:
      cpus: 2-31,34-63
    parameters:
      intel_idle.max_cstate: 1

- name: Isolate CPUs for the scheduler only
  mlnode.tuning.boot_params:
    name: site
    isolate:
      cpus: 2-31,34-63
      managed_irq: false
      nohz_full: false
      rcu_nocbs: false
"""

RETURN = r"""
settings:
  description: Every declared parameter with its four states and its one status, as in M(mlnode.tuning.sysctl_ml).
  returned: success
  type: list
  elements: dict
  sample:
    - key: boot.isolcpus
      want: isolcpus=managed_irq,domain,2-31,34-63
      runtime: absent
      boot: isolcpus=managed_irq,domain,2-31,34-63
      status: pending_reboot
reboot_required:
  description: Whether a setting takes effect only after a reboot.
  returned: success
  type: bool
running:
  description:
    - Work that a reboot would end - Slurm jobs, and processes that have a GPU or an RDMA device open. Also lists
      anything that could not be inspected.
    - An empty list is valid for this moment only. A scheduler may start work on the node before it is down, so drain it
      first.
  returned: if a reboot is required
  type: list
  elements: str
  sample: [Slurm job 4711, pid 8120 (python3) holds /dev/nvidia0 and 7 more]
"""


from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.boot.kind import kind as boot


def main() -> None:
    tuning_module.run(boot)


if __name__ == "__main__":
    main()
