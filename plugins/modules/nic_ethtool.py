#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare rings, channels, coalescing, offloads, MTU and the like of NICs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nic_ethtool
short_description: Declare rings, channels, coalescing, offloads and MTU of NICs
version_added: 0.1.0
description:
  - Sets what C(ethtool) and C(ip link) set, through the kernel's own interface, so that no package is needed on the
    node, and reads every value back, as some drivers accept a value and ignore it.
  - A NIC forgets all of it at every boot. What is declared is kept on the node as a rule for NICs, which the boot service
    re-applies, also when a NIC arrives later or its driver is loaded again.
  - A change that interrupts the interface over which the node is managed, or a NIC while jobs run, is refused unless
    O(allow) lets it through. Of the management path it is then undone by itself after O(confirm_seconds), unless a
    new connection shows that the node can still be reached; over SSH this module sees to that by itself.
  - NICs are changed one at a time. The next one has to wait until the link, RDMA ports and interrupts of the last are back.
  - Within a NIC the order is private flags, channels, rings, coalescing, pause, FEC, features, queue length, MTU.
options:
  confirm_seconds:
    description:
      - How long a change of the management path waits for a new connection before it is undone, at least 30. V(0) makes
        it for good.
    type: int
    default: 60
attributes:
  async:
    support: none
    details: It acts on the node's answer, as it may have to send the agent, or to confirm a change over a new connection.
extends_documentation_fragment:
  - mlnode.tuning.area.nic
  - mlnode.tuning.declaration.by_agent
notes:
  - An O(rules[].mtu) that is larger than that of the NIC below a VLAN is refused by the kernel. A smaller one makes that of
    VLANs above smaller, too, which an undo puts back.
  - Other values that a plain search finds in the files of a program that sets NICs at boot (NetworkManager, systemd,
    netplan, ifupdown) end in V(overridden), with file and line.
seealso:
  - module: mlnode.tuning.irq_affinity
  - module: mlnode.tuning.path_mtu
"""

EXAMPLES = r"""
- name: Large rings and enough queues for what goes over sockets, few queues for rails
  mlnode.tuning.nic_ethtool:
    rules:
      - name: fabric
        nics:
          management: false
        rings: auto
        channels: auto
        coalesce:
          adaptive-rx: true
        features:
          gro: true
          tso: true
        mtu: 9000

- name: Nothing that interrupts the interface for people
  mlnode.tuning.nic_ethtool:
    rules:
      - name: management
        nics:
          management: true
        features:
          gro: true

- name: A larger MTU even there, undone unless the node can be reached
  mlnode.tuning.nic_ethtool:
    name: management
    rules:
      - name: management
        nics:
          management: true
        mtu: 9000
    allow: [management]
    confirm_seconds: 90
"""

RETURN = r"""
settings:
  description: One entry for each value of each rule.
  returned: success
  type: list
  elements: dict
  sample:
    - key: nic.fabric.ring.rx
      want: "eth2, eth3: 8192"
      runtime: "eth2, eth3: 8192"
      boot: "eth2, eth3: 8192"
      status: changed
commands:
  description: What to type for the same on this node, for all that is declared.
  returned: success
  type: list
  elements: str
  sample: [ethtool -G eth2 rx 8192 tx 8192, ip link set dev eth2 mtu 9000]
confirm:
  description: What undoes the change of the management path by itself; empty if nothing does.
  returned: success
  type: dict
  contains:
    id:
      description: What C(mlnode confirm) and C(mlnode undo) take.
      type: str
    seconds:
      description: How long it waits.
      type: int
confirmed:
  description: Whether a new connection has shown that the node can be reached after the change.
  returned: when the management path was changed over SSH
  type: bool
  sample: true
reboot_required:
  description: Whether something takes effect only after a reboot. Never, for NICs.
  returned: success
  type: bool
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.engine import (
    confirm,  # noqa: F401  # pylint: disable=unused-import  # the engine imports it by its name
)
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.nic import schema as nic_schema
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.nic.kind import kind as nic
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.model import schema
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.model.errors import paragraphs


def main() -> None:
    arguments = {**schema.module_spec(nic.OPTIONS), **nic_schema.CONFIRM}
    module = AnsibleModule(argument_spec=arguments, supports_check_mode=True)
    seconds = module.params["confirm_seconds"]
    wrong = nic_schema.wrong_seconds(seconds)
    if wrong:
        module.fail_json(msg=paragraphs(wrong))
    tuning_module.declare(module, nic, seconds)


if __name__ == "__main__":
    main()
