#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare on which CPUs the interrupts and packets of NICs are handled."""

from __future__ import annotations

DOCUMENTATION = r"""
module: irq_affinity
short_description: Declare on which CPUs the interrupts and packets of NICs are handled
version_added: 0.1.0
description:
  - Puts the interrupts of NICs on chosen CPUs by rules, and steers packets with RPS, XPS and RFS.
  - A rule is kept, not the numbers of interrupts, which change with every boot. The agent applies it again at
    boot, and when a NIC arrives or changes its queues.
  - Interrupts are found below the NIC's device in sysfs. Those that serve no queue, such as C(mlx5_async), stay
    where they are.
  - Every interrupt is read back after it was written. Where the kernel keeps one to itself it is left out, and
    where that is so for all of a rule its status is V(managed).
  - CPUs that C(isolcpus) or C(nohz_full) keep free get no interrupt, unless O(allow) says so.
  - irqbalance can be told to leave the declared interrupts alone, or be switched off.
author:
  - mlnode.tuning contributors (!UNKNOWN)
options:
  rules:
    description:
      - What is wanted of which NICs. A rule without a strategy, C(rps), C(xps) or C(rfs_entries) is refused.
      - Two rules may meet on a NIC only if they want the same of it.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description:
          - A word for the rule, of a to z, 0 to 9 and C(_). The settings are called C(irq.NAME), C(irq.NAME.rps),
            C(irq.NAME.xps) and C(irq.NAME.rfs).
        type: str
        required: true
      nics:
        description:
          - Which NICs. Each list that is given has to name the NIC; without any, all physical NICs are meant.
          - Virtual functions are meant only where they are named, or given by their address, PCI id or RDMA device.
          - Bonds, bridges and VLANs have no interrupts of their own.
          - Where no NIC matches, the status is V(unsupported), and the reason lists those that are there.
        type: dict
        suboptions:
          names:
            description: Interfaces, such as V(eth0).
            type: list
            elements: str
          drivers:
            description: Kernel drivers, such as V(mlx5_core). That of a virtio NIC is V(virtio_net).
            type: list
            elements: str
          addresses:
            description: PCI addresses, such as V(0000:41:00.0). Eight digits of the domain are understood.
            type: list
            elements: str
          pci_ids:
            description: PCI vendor and device, such as V(15b3:101e); in quotes, as YAML would take digits for a number.
            type: list
            elements: str
          rdma:
            description: RDMA devices, such as V(mlx5_0).
            type: list
            elements: str
          rails:
            description: V(true) for all rails, or a list of their numbers, as C(mlnode topology) shows them.
            type: raw
          nodes:
            description: NUMA nodes, by their numbers.
            type: list
            elements: int
          speeds:
            description: Speeds in Mbit/s of links that are up, such as V(400000).
            type: list
            elements: int
          link:
            description: Only NICs whose link is up, or down.
            type: str
            choices: [up, down]
          link_layer:
            description: Only NICs with an RDMA port of that kind.
            type: str
            choices: [Ethernet, InfiniBand]
          management:
            description:
              - V(false) leaves out, and V(true) means only, interfaces that carry a default route or the connection of
                who runs this, and what these stand on.
            type: bool
      strategy:
        description:
          - V(spread) puts queue i on physical core i of the NIC's own NUMA node, and begins again where there are
            more queues than cores. Second threads of a core are not used.
          - V(housekeeping) uses a few CPUs of the NIC's NUMA node and leaves all others alone. They are the first
            four physical cores of each node, or those in O(rules[].cpus).
          - V(list) uses exactly the CPUs in O(rules[].cpus), whatever the NUMA node.
          - Without it, interrupts stay where they are.
        type: str
        choices: [spread, housekeeping, list]
      cpus:
        description: CPUs as the kernel writes them, such as V(0-3,64). For strategies V(list) and V(housekeeping).
        type: str
      rps:
        description:
          - Receive packet steering. V(auto) lets the CPUs of the NIC's NUMA node take packets over where there are
            fewer receive queues than physical cores, and switches it off elsewhere, or where that node is unknown.
          - A list of CPUs, or V(off). The kernel takes no isolated CPU here.
        type: raw
      xps:
        description:
          - Transmit packet steering. V(auto) gives each core one transmit queue, queue i to core i of the NIC's own
            NUMA node, and those that follow to the other cores. A list of CPUs is given to every queue. V(off)
            leaves the choice to the kernel's hash.
          - A NIC with one transmit queue has no such choice.
        type: raw
      rfs_entries:
        description:
          - Receive flow steering for so many flows of each NIC, a power of two; V(0) switches it off. A good start
            is 32768. Each receive queue gets its share.
          - The table for the whole machine, C(net.core.rps_sock_flow_entries), is raised to it where it is smaller,
            and never lowered. A smaller value in M(mlnode.tuning.sysctl_ml) is refused.
        type: int
  irqbalance:
    description:
      - V(agree) makes irqbalance leave alone the interrupts that this declaration rules, by a policy script and
        one marked block in its own file of arguments. All others are balanced as before. It is restarted only when
        something of this has changed.
      - V(disable) stops it, and the next boot does not start it.
      - V(leave) touches nothing. Where irqbalance is active, the status is V(overridden).
      - Where it is not installed, V(agree) and V(disable) are fulfilled.
    type: str
    choices: [agree, leave, disable]
  allow:
    description:
      - Guards to switch off. V(isolated_cpus) lets interrupts arrive on CPUs that C(isolcpus) or C(nohz_full) keep
        free.
    type: list
    elements: str
    choices: [isolated_cpus]
    default: []
extends_documentation_fragment:
  - mlnode.tuning.declaration
  - mlnode.tuning.declaration.attributes
notes:
  - No file of the system carries these values. They come back at boot through the agent, see
    M(mlnode.tuning.agent); without it a setting is reported as drifted in its boot layer.
  - The number of queues is changed with C(ethtool -L), which renumbers interrupts. Do that before this module.
  - >-
    In summaries, C(eth0: 0..27) means queue 0 on CPU 0, queue 1 on CPU 1 and so on, C(0..54:2) takes every second
    CPU, and C(0-7 x4) are four queues that may each use CPUs 0 to 7.
  - In a container only NICs are meant whose interface is there too. Its host's other ones are declared on the host.
seealso:
  - module: mlnode.tuning.agent
  - module: mlnode.tuning.node_topology
  - module: mlnode.tuning.sysctl_ml
"""

EXAMPLES = r"""
- name: Queues of the rails on the cores beside them, and irqbalance for all the rest
  mlnode.tuning.irq_affinity:
    name: training_node
    rules:
      - name: rails
        nics:
          rails: true
        strategy: spread
    irqbalance: agree

- name: A serving node, whose NICs keep to four cores of each NUMA node
  mlnode.tuning.irq_affinity:
    name: inference_node
    rules:
      - name: serving
        nics:
          drivers: [ice, mlx5_core]
        strategy: housekeeping
        xps: auto
    irqbalance: disable

- name: One queue for 16 CPUs, as small virtual machines have it
  mlnode.tuning.irq_affinity:
    rules:
      - name: virtio
        nics:
          drivers: [virtio_net]
        rps: auto
        rfs_entries: 32768

- name: Two ports on CPUs of one's own choice
  mlnode.tuning.irq_affinity:
    rules:
      - name: storage
        nics:
          names: [ens1f0, ens1f1]
        strategy: list
        cpus: 0-3,64-67
"""

RETURN = r"""
settings:
  description: Every rule with its four states and its one status, as in M(mlnode.tuning.sysctl_ml).
  returned: success
  type: list
  elements: dict
  sample:
    - kind: irq
      key: irq.rails
      path: /proc/irq/*/smp_affinity_list
      declared: spread (all rails)
      want: "eth2, eth3: 0..27; eth4, eth5: 28..55"
      runtime: "eth2, eth3: 0..27; eth4, eth5: 0..27"
      boot: "eth2, eth3: 0..27; eth4, eth5: 28..55"
      boot_source: mlnode-apply.service
      origin: null
      status: drifted
      severity: medium
      reason: "runtime is eth2, eth3: 0..27; eth4, eth5: 0..27"
reboot_required:
  description: Whether something takes effect only after a reboot.
  returned: success
  type: bool
  sample: false
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlnode.tuning.plugins.module_utils import nic_options, tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs import irq, irq_parse

_TEXTS = {"type": "list", "elements": "str"}
_RULE = {
    "name": {"type": "str", "required": True},
    "nics": nic_options.NICS,
    "strategy": {"type": "str", "choices": list(irq_parse.STRATEGIES)},
    "cpus": {"type": "str"},
    "rps": {"type": "raw"},
    "xps": {"type": "raw"},
    "rfs_entries": {"type": "int"},
}


def main() -> None:
    own = {
        "rules": {"type": "list", "elements": "dict", "default": [], "options": _RULE},
        "irqbalance": {"type": "str", "choices": list(irq_parse.IRQBALANCE)},
        "allow": {"type": "list", "elements": "str", "choices": list(irq_parse.GUARDS), "default": []},
    }
    module = AnsibleModule(argument_spec={**tuning_module.ARGUMENTS, **own}, supports_check_mode=True)
    spec = {name: tuning_module.given(module.params[name]) for name in own if module.params[name]}
    if {*spec} == {"allow"}:  # guards of nothing are no declaration
        spec = {}
    tuning_module.declare(module, irq, spec)


if __name__ == "__main__":
    main()
