#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
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
    re-applies, also when a NIC arrives later or its driver is loaded anew.
  - A change that interrupts the interface over which the node is managed, or a NIC while jobs run, is refused unless
    O(allow) lets it through. Of the management path it is then undone by itself after O(confirm_seconds), unless a
    new connection shows that the node can still be reached; over SSH this module sees to that by itself.
  - NICs are changed one at a time. The next one has to wait until the link, RDMA ports and interrupts of the last are back.
  - Within a NIC the order is private flags, channels, rings, coalescing, pause, FEC, features, queue length, MTU.
author:
  - mlnode.tuning contributors (!UNKNOWN)
options:
  rules:
    description:
      - What is wanted of which NICs. Every value that is left out is left untouched.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description:
          - A word for the rule, of a to z, 0 to 9 and C(_). The settings are called C(nic.NAME.ring.rx),
            C(nic.NAME.mtu) and so on.
        type: str
        required: true
      nics:
        description:
          - Which NICs; one of each list that is given. Without any, all that have hardware of their own.
          - Virtual functions are meant only where they are named, or given by their address, PCI id or RDMA device.
        type: dict
        suboptions:
          names:
            description:
              - Interfaces. A bond, bridge or VLAN has its own MTU and queue length; for all else it stands for the
                NICs below it.
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
      channels:
        description:
          - >-
            How many queues. A number, V(max), V(auto) for one per physical core of the NIC's NUMA node, or
            C({at_most: NUMBER}); for the kind of channel that the NIC has.
          - A dictionary of C(combined), C(rx) and C(tx) names the kinds instead.
        type: raw
      rings:
        description:
          - >-
            Entries of receive and transmit rings. A number, V(max), V(auto) for at most 8192, or C({at_most: NUMBER}).
          - A dictionary of C(rx), C(tx), C(rx-mini) and C(rx-jumbo) names the rings instead.
        type: raw
      coalesce:
        description:
          - Interrupt moderation by the names of C(ethtool -C), such as C(adaptive-rx), C(rx-usecs) in microseconds and
            C(rx-frames).
          - While C(adaptive-rx) is on a NIC ignores C(rx-usecs) and C(rx-frames), so that both together are refused.
          - Only a write tells what a driver has. What it refuses is V(unsupported) until the next boot.
        type: dict
      pause:
        description: Pause frames, C(autoneg), C(rx) and C(tx), on or off.
        type: dict
      fec:
        description: Forward error correction, one or more of V(auto), V(off), V(rs), V(baser) and V(llrs).
        type: raw
      features:
        description:
          - Offloads, on or off, by the names of C(ethtool -K). Those of families (C(tso), C(gso), C(gro), C(lro), C(rx),
            C(tx), C(sg), C(ntuple), C(rxhash), C(rxvlan), C(txvlan)) stand for all their members that can be changed.
          - C(tx) and C(sg) are on with one member. C(tso) leaves C(tx-tcp-mangleid-segmentation) alone, unless it is named.
        type: dict
      private_flags:
        description: Flags of the driver, on or off, by the names of C(ethtool --show-priv-flags).
        type: dict
      mtu:
        description: Bytes of an IP packet. That of a bond is set on the bond, which hands it on.
        type: int
      tx_queue_len:
        description: Packets that wait for a transmit ring.
        type: int
      beyond_max:
        description:
          - Where a number is more than the device has, V(clamp) takes its maximum and ends in the status V(clamped) with
            both numbers, and V(fail) is an error before anything is changed.
        type: str
        choices: [clamp, fail]
        default: clamp
  max_disruption:
    description:
      - What a change may do to a NIC off the management path. V(none) keeps traffic flowing, V(link_reset) interrupts it
        for a moment, V(driver_reload) lets RDMA devices and virtual functions vanish and come back.
      - On the management path it is V(none), unless O(allow) has V(management).
    type: str
    choices: [none, link_reset, driver_reload]
    default: link_reset
  allow:
    description:
      - Guards to switch off. V(management) lets changes through that interrupt the interface over which the node is managed;
        V(busy) those that interrupt a NIC while a Slurm job runs, or a process has a GPU or an RDMA device open.
    type: list
    elements: str
    choices: [management, busy]
    default: []
  confirm_seconds:
    description:
      - How long a change of the management path waits for a new connection before it is undone, at least 30. V(0) makes
        it for good.
    type: int
    default: 60
extends_documentation_fragment:
  - mlnode.tuning.declaration
  - mlnode.tuning.declaration.attributes
notes:
  - No file of the system carries these values. They come back at boot through the agent, see
    M(mlnode.tuning.agent); without it a setting is reported as drifted in its boot layer.
  - An O(rules[].mtu) that is larger than that of the NIC below a VLAN is refused by the kernel. A smaller one makes that of
    VLANs above smaller, too, which an undo puts back.
  - Values that another program sets at boot (NetworkManager, systemd, netplan, ifupdown) end in V(overridden), with its
    file and line.
seealso:
  - module: mlnode.tuning.agent
  - module: mlnode.tuning.irq_affinity
  - module: mlnode.tuning.nic_confirm
  - module: mlnode.tuning.path_mtu
"""

EXAMPLES = r"""
- name: The fabric's NICs with large rings, and enough queues
  mlnode.tuning.nic_ethtool:
    rules:
      - name: fabric
        nics:
          rails: true
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
    - kind: nic
      key: nic.fabric.ring.rx
      path: /ethtool/*/ring/rx
      declared: auto (all rails)
      want: "eth2, eth3: 8192"
      runtime: "eth2, eth3: 8192"
      boot: "eth2, eth3: 8192"
      boot_source: mlnode-apply.service
      origin: "eth2, eth3: 1024"
      status: changed
      severity: high
      reason: "runtime is eth2, eth3: 1024"
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
      description: What O(mlnode.tuning.nic_confirm#module:id) takes.
      type: str
    seconds:
      description: How long it waits.
      type: int
  sample: {}
confirmed:
  description: Whether a new connection has shown that the node can be reached after the change.
  returned: when the management path was changed over SSH
  type: bool
  sample: true
reboot_required:
  description: Whether something takes effect only after a reboot. Never, for NICs.
  returned: success
  type: bool
  sample: false
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlnode.tuning.plugins.module_utils import nic_options, tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs import nic, nic_parse

_TEXTS = {"type": "list", "elements": "str"}
_NUMBERS = {"type": "list", "elements": "int"}
_RULE = {
    "name": {"type": "str", "required": True},
    "nics": nic_options.NICS,
    "channels": {"type": "raw"},
    "rings": {"type": "raw"},
    "coalesce": {"type": "dict"},
    "pause": {"type": "dict"},
    "fec": {"type": "raw"},
    "features": {"type": "dict"},
    "private_flags": {"type": "dict"},
    "mtu": {"type": "int"},
    "tx_queue_len": {"type": "int"},
    "beyond_max": {"type": "str", "choices": list(nic_parse.BEYOND), "default": "clamp"},
}


#: A link may take 20 s to come back (knobs/nic_settle.py), and a new connection some more
_LEAST_SECONDS = 30


def main() -> None:
    own: dict[str, dict[str, Any]] = {
        "rules": {"type": "list", "elements": "dict", "default": [], "options": _RULE},
        "max_disruption": {"type": "str", "choices": list(nic_parse.DISRUPTIONS), "default": "link_reset"},
        "allow": {"type": "list", "elements": "str", "choices": list(nic_parse.GUARDS), "default": []},
    }
    confirm = {"confirm_seconds": {"type": "int", "default": 60}}
    module = AnsibleModule(
        argument_spec={**tuning_module.ARGUMENTS, **own, **confirm}, supports_check_mode=True
    )
    if 0 != module.params["confirm_seconds"] < _LEAST_SECONDS:
        words = f"confirm_seconds: at least {_LEAST_SECONDS}, or 0 for a change that is made for good"
        tuning_module.fail(module, words)
    spec = {name: tuning_module.given(module.params[name]) for name in own if module.params[name]}
    if not spec.get("rules"):  # guards of nothing are no declaration
        spec = {}
    tuning_module.declare(
        module,
        nic,
        spec,
        confirm_seconds=module.params["confirm_seconds"],
        more=lambda _host, rows: {"commands": nic.commands(rows)},
    )


if __name__ == "__main__":
    main()
