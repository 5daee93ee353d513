#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare parameters of the kernel command line."""

from __future__ import annotations

DOCUMENTATION = r"""
module: boot_params
short_description: Declare parameters of the kernel command line
version_added: 0.1.0
description:
  - Gives the kernel parameters for the next boot, one by one, and leaves all others as they are.
  - What the next boot brings is read from the boot loader's own menu, and what the running kernel has from
    C(/proc/cmdline). Where only a reboot is missing, a parameter is V(pending_reboot). This module never reboots.
  - Isolates CPUs from one list, and refuses to leave too few of them for everything else.
author:
  - mlnode.tuning contributors (!UNKNOWN)
options:
  parameters:
    description:
      - Name and value. Names are written as the kernel does; C(-) and C(_) are the same to it.
      - A number or text makes C(NAME=VALUE), V("") the bare C(NAME), and a list one word for each of its values in
        this order. Whatever else the command line had under this name is taken away.
      - V(null) leaves a parameter untouched.
      - A YAML boolean is refused, as V(on) and V(off) without quotes are booleans to YAML and words to the kernel.
      - A value may hold letters, digits and C(_.,:=/@+%!~^-); everything else means something to a shell or to GRUB.
      - C(console) has to be a list, as the order of its words counts.
      - What finds and starts the system (C(root), C(rootflags), C(rootfstype), C(ro), C(rw), C(init), C(rdinit),
        C(initrd), C(BOOT_IMAGE)) cannot be declared, and neither can C(hugepagesz) and C(hugepages), whose order
        between each other counts. See C(vm.nr_hugepages) of M(mlnode.tuning.sysctl_ml).
      - C(isolcpus), C(nohz_full), C(rcu_nocbs) and C(irqaffinity) take plain lists of CPUs such as V(2-31,34-63).
    type: dict
    default: {}
  absent:
    description: Names of parameters that must not be on the command line, with whatever value.
    type: list
    elements: str
    default: []
  isolate:
    description:
      - CPUs to keep free of all work that is not put there on purpose, for latency on serving nodes. Do not use it on
        training nodes.
    type: dict
    suboptions:
      cpus:
        description:
          - The exact list, such as V(2-31,34-63). V(2,10) is two CPUs.
          - At least two CPUs of each NUMA node, and CPU 0, have to be left over; see O(allow).
        type: str
        required: true
      managed_irq:
        description: Keep interrupts that the kernel places by itself off these CPUs (C(isolcpus=managed_irq)).
        type: bool
        default: true
      domain:
        description: Take the CPUs out of the scheduler's balancing (C(isolcpus=domain)).
        type: bool
        default: true
      nohz_full:
        description: Stop the timer tick while one task alone runs (C(nohz_full)).
        type: bool
        default: true
      rcu_nocbs:
        description: Do the CPUs' RCU callbacks elsewhere (C(rcu_nocbs)).
        type: bool
        default: true
      irqaffinity:
        description: Send all other interrupts to the CPUs that are left over (C(irqaffinity)).
        type: bool
        default: true
  allow:
    description:
      - Guards to switch off. Without it a dangerous change is refused before anything is written.
      - V(housekeeping) is an isolation that leaves fewer than two CPUs of a NUMA node, or takes CPU 0, together
        with what other declarations isolate. V(mitigations) is C(mitigations=off).
    type: list
    elements: str
    choices: [housekeeping, mitigations]
    default: []
extends_documentation_fragment:
  - mlnode.tuning.declaration
  - mlnode.tuning.declaration.attributes
notes:
  - Debian and Ubuntu keep the parameters in C(/etc/default/grub.d/zz-mlnode-NAME.cfg), which takes the named ones
    out of C(GRUB_CMDLINE_LINUX) and C(GRUB_CMDLINE_LINUX_DEFAULT) and sets them anew. Where C(grub-mkconfig) reads
    no such files, the two lines of C(/etc/default/grub) are edited. C(update-grub) or C(grub-mkconfig) runs once,
    and only if something has changed or the menu says something else. A menu without any kernel is put back.
  - On the Red Hat family the C(options) lines of C(/boot/loader/entries) are edited, and C(/etc/kernel/cmdline) and
    C(/etc/default/grub) for kernels to come. Entries that use C($kernelopts) (RHEL 8) are V(unsupported), and the
    reason names the C(grubby) command. This was tried on trees of files only, not on such a machine.
  - Entries for recovery get the parameters too where GRUB makes its menu of C(GRUB_CMDLINE_LINUX); they are not
    looked at. Neither are entries of other systems, and those that somebody has written by hand beside the
    installed kernels.
  - A parameter is V(unsupported) where somebody else starts the kernel (a container, a hypervisor, the network,
    systemd-boot), or where this kernel is built without what it needs.
  - In files that are edited in place, words stay when they are no longer declared. M(mlnode.tuning.node_revert) puts
    the files back; the running kernel keeps its command line until the next reboot. On the Red Hat family that is
    the entries of the kernels that were there then, and kernels that were installed since keep the words.
  - The kernel reads 2047 characters of its command line and drops the rest without a word, so that more than that
    is an error.
  - The kernel takes every word and tells nobody which ones it does not know. A name with a typing mistake is there
    and does nothing.
seealso:
  - module: mlnode.tuning.thp
  - module: mlnode.tuning.irq_affinity
  - module: mlnode.tuning.node_revert
"""

EXAMPLES = r"""
- name: Boot a training node without surprises
  mlnode.tuning.boot_params:
    name: training_node
    parameters:
      transparent_hugepage: madvise
      numa_balancing: disable
      iommu: pt
      console: [tty0, "ttyS0,115200"]
    absent: [quiet]

- name: Keep the CPUs of a serving node to the server, but for two on each socket
  mlnode.tuning.boot_params:
    name: inference_node
    isolate:
      cpus: 2-31,34-63
    parameters:
      intel_idle.max_cstate: 1

- name: Isolate CPUs for the scheduler only
  mlnode.tuning.boot_params:
    name: inference_node
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
    - kind: boot
      key: boot.isolcpus
      path: /proc/cmdline
      declared: isolcpus=managed_irq,domain,2-31,34-63
      want: isolcpus=managed_irq,domain,2-31,34-63
      runtime: absent
      boot: isolcpus=managed_irq,domain,2-31,34-63
      boot_source: /boot/grub/grub.cfg:104
      origin: null
      status: pending_reboot
      severity: medium
      reason: runtime is absent; the next boot brings isolcpus=managed_irq,domain,2-31,34-63
reboot_required:
  description: Whether something takes effect only after a reboot.
  returned: success
  type: bool
  sample: true
running:
  description:
    - What a reboot would end, in words. Slurm jobs, and processes that have a GPU or an RDMA device open; and what could
      not be looked into.
    - Empty is good news, and only for this moment. Who hands out work to the node may do so before it is down, so drain
      it first.
  returned: if a reboot is required
  type: list
  elements: str
  sample: [Slurm job 4711, pid 8120 (python3) holds /dev/nvidia0 and 7 more]
"""

from typing import Any, Sequence

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode import jobs
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.errors import HostError
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.host import Host
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.kind import Row
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs import boot


def main() -> None:
    switches = ("managed_irq", "domain", "nohz_full", "rcu_nocbs", "irqaffinity")
    isolate = {
        "cpus": {"type": "str", "required": True},
        **{name: {"type": "bool", "default": True} for name in switches},
    }
    own = {
        "parameters": {"type": "dict", "default": {}},
        "absent": {"type": "list", "elements": "str", "default": []},
        "isolate": {"type": "dict", "options": isolate},
        "allow": {
            "type": "list",
            "elements": "str",
            "choices": ["housekeeping", "mitigations"],
            "default": [],
        },
    }
    module = AnsibleModule(argument_spec={**tuning_module.ARGUMENTS, **own}, supports_check_mode=True)
    spec = {name: module.params[name] for name in own if module.params[name]}
    if not any(spec.get(name) for name in ("parameters", "absent", "isolate")):
        spec = {}  # a guard that is switched off declares nothing
    tuning_module.declare(module, boot, spec, more=_running)


def _running(host: Host, rows: Sequence[Row]) -> dict[str, Any]:
    """Asked only where it matters, as every process has to be looked into."""
    if not tuning_module.waits_for_boot(rows):
        return {}
    try:
        return {"running": jobs.running(host)}
    except HostError as error:  # who cannot look does not know that nothing runs
        return {"running": [f"processes that cannot be looked at: {error}"]}


if __name__ == "__main__":
    main()
