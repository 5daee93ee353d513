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
  - Sets the same values as C(ethtool) and C(ip link), through the kernel's own interface, without any package on the node.
    Reads every value back, as some drivers accept a value and ignore it.
  - A NIC loses all of its settings at every boot. The node keeps the declaration as a rule for NICs. The boot service
    applies it again at boot, when a NIC arrives later, and when its driver is reloaded.
  - A change that interrupts the management interface, or a NIC while jobs run, is refused unless O(allow) permits it. On
    the management path it is then undone after O(confirm_seconds), unless a new connection proves that the node is
    reachable; over SSH this module makes that connection.
  - NICs are changed one at a time. The module waits until link, RDMA ports and interrupts are back before the next one.
  - Within a NIC the order is private flags, channels, rings, coalescing, pause, FEC, features, queue length, MTU.
options:
  confirm_seconds:
    description:
      - Seconds that a change of the management path waits for a new connection before it is undone, at least 30. V(0)
        makes it permanent.
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
  - The kernel refuses an O(rules[].mtu) above the MTU of the NIC below a VLAN. A smaller one also reduces the MTU of the
    VLANs above, which an undo restores.
  - Files of programs that set NICs at boot (NetworkManager, systemd, netplan, ifupdown) are searched as plain text. If one
    has another value, the setting is V(overridden), with file and line.
seealso:
  - module: mlnode.tuning.irq_affinity
  - module: mlnode.tuning.path_mtu
"""

EXAMPLES = r"""
- name: Set large rings and enough queues for sockets, and few queues for rails
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

- name: Change features of the management interface without an interruption
  mlnode.tuning.nic_ethtool:
    rules:
      - name: management
        nics:
          management: true
        features:
          gro: true

- name: Raise the MTU of the management interface, undone unless the node stays reachable
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
  description: Commands for the same settings on this node, for the whole declaration.
  returned: success
  type: list
  elements: str
  sample: [ethtool -G eth2 rx 8192 tx 8192, ip link set dev eth2 mtu 9000]
confirm:
  description: The pending rollback of the management path; empty if none is pending.
  returned: success
  type: dict
  contains:
    id:
      description: Argument of C(mlnode confirm) and C(mlnode undo).
      type: str
    seconds:
      description: Seconds until the rollback.
      type: int
confirmed:
  description: Whether a new connection has shown that the node can be reached after the change.
  returned: when the management path was changed over SSH
  type: bool
  sample: true
reboot_required:
  description: Whether a setting takes effect only after a reboot; never for this module.
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
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.model import argument_spec
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.model.errors import paragraphs


def main() -> None:
    arguments = {**argument_spec.of_module(nic.OPTIONS), **nic_schema.CONFIRM}
    module = AnsibleModule(argument_spec=arguments, supports_check_mode=True)
    seconds = module.params["confirm_seconds"]
    wrong = nic_schema.wrong_seconds(seconds)
    if wrong:
        module.fail_json(msg=paragraphs(wrong))
    tuning_module.declare(module, nic, seconds)


if __name__ == "__main__":
    main()
