#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare a node with its declarations."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_drift
short_description: Compare a node with its declarations
version_added: 0.1.0
description:
  - Reads the declarations on the node and compares each setting with the running kernel and with the next boot. Changes
    nothing, in check mode or out of it.
  - Drift fails this module only with O(fail_at); otherwise use RV(compliant). A node is not compliant if it has no
    declaration, if part of it cannot be read, or if its agent differs from this collection's.
options:
  fail_at:
    description:
      - The least severity at which drift fails this module. V(low) is all drift.
      - With any of them, the module also fails if part of the node could not be checked.
      - V(never) leaves the decision to the reader of the result.
    type: str
    choices: [low, medium, high, never]
    default: never
  ignore:
    description:
      - Known drift with a planned repair. It is reported in RV(ignored) and does not count.
      - To keep a setting as it is, declare it with V(null) as the value instead.
    type: list
    elements: dict
    default: []
    suboptions:
      key:
        description: The setting, from C(key) in RV(settings). C(*), C(?) and C([...]) are wildcards, as in a shell.
        type: str
        required: true
      reason:
        description: The reason for the exception.
        type: str
        required: true
      until:
        description:
          - The last day of the exception, such as V(2026-01-31), in UTC. After it, the drift counts again, and mentions
            the exception.
        type: str
        required: true
  declarations:
    description:
      - The present declarations of the inventory, as a dictionary with the name of each declaration and its areas in the
        form of M(mlnode.tuning.declare), with C(profile) and C(variables). Each is compared with the declaration on the
        node, which detects a change of the inventory that has not been applied.
      - A name without areas must not have a declaration on the node. Names that are missing here are not compared. If no
        name has areas, a node without agent and declarations is compliant, and no agent is sent to it.
    type: dict
    default: {}
  interpreter:
    description: The Python for a sent agent, as O(mlnode.tuning.declare#module:interpreter).
    type: str
    default: /usr/bin/env python3
attributes:
  async:
    support: none
    details: It acts on the node's answer, as it may have to send the agent, or to confirm a change over a new connection.
extends_documentation_fragment:
  - mlnode.tuning.declaration.attributes
seealso:
  - module: mlnode.tuning.agent
  - module: mlnode.tuning.sysctl_ml
  - module: mlnode.tuning.thp
"""

EXAMPLES = r"""
- name: Check for drift
  mlnode.tuning.node_drift:
  register: node

- name: Fail if the node is not as declared
  ansible.builtin.assert:
    that: node.compliant
    fail_msg: "{{ node.drift + node.errors }}"

- name: Fail on severe drift, with an exception until a driver update
  mlnode.tuning.node_drift:
    fail_at: high
    ignore:
      - key: nic.fabric.*
        reason: firmware 28.43 has too few queues, the update is in OPS-1234
        until: "2027-01-31"

- name: Verify that the inventory's last change has reached the node
  mlnode.tuning.node_drift:
    declarations:
      node:
        thp: {enabled: madvise}
      fabric: {}
"""

RETURN = r"""
compliant:
  description:
    - Whether every declared setting could be read and is correct or ignored. V(unsupported) settings do not count.
  returned: success, or if drift fails the module
  type: bool
  sample: false
verdict:
  description: The state of the node in one line.
  returned: success, or if drift fails the module
  type: str
  sample: "not as declared; 1 drifted, 33 ok, 1 unsupported"
drift:
  description: One line per setting that is not as declared, without ignored ones.
  returned: success, or if drift fails the module
  type: list
  elements: str
  sample:
    - "vm.swappiness: drifted, want 1, runtime 60, boot 1 (high): runtime is 60"
failures:
  description: Lines of RV(drift) with at least the severity O(fail_at), and RV(errors). Empty with V(never).
  returned: success, or if drift fails the module
  type: list
  elements: str
ignored:
  description: One line per ignored setting that is not as declared, with the reason.
  returned: success, or if drift fails the module
  type: list
  elements: str
exceptions:
  description: Entries of O(ignore), in their order, each with its state.
  returned: success, or if drift fails the module
  type: list
  elements: dict
  contains:
    key:
      description: As given.
      type: str
      sample: nic.fabric.*
    reason:
      description: As given.
      type: str
      sample: firmware 28.43 has too few queues, the update is in OPS-1234
    until:
      description: As given.
      type: str
      sample: "2027-01-31"
    state:
      description:
        - V(used), a setting is ignored for it; V(expired), a setting would be, but the last day is over; V(unused), none
          of its settings has drifted.
      type: str
      sample: used
errors:
  description:
    - Reasons why parts of the node could not be checked, differences from O(declarations), and an agent that differs from
      this collection's.
  returned: success, or if drift fails the module
  type: list
  elements: str
digests:
  description: Digests of the declarations on the node, by name and kind of setting.
  returned: success, or if drift fails the module
  type: dict
  sample: {node: {sysctl: 1f0e3dad99908345, thp: 98f13708210194c4}}
summary:
  description: Number of settings by status.
  returned: success, or if drift fails the module
  type: dict
  sample: {drifted: 1, ok: 33, unsupported: 1}
unsupported_overrides:
  description: >-
    One line with the reason for each setting that the node lacks and that the inventory, not a profile, declares.
  returned: success, or if drift fails the module
  type: list
  elements: str
  sample: ["lnet.debug: /proc/sys/lnet/debug does not exist: this kernel has no such setting"]
settings:
  description:
    - Every setting, as in M(mlnode.tuning.sysctl_ml), and its declarations. If it is ignored, C(ignored) contains the last
      day and the reason.
  returned: success, or if drift fails the module
  type: list
  elements: dict
  sample: [{key: vm.swappiness, declared_by: [node], want: "1", runtime: "60", boot: "1", status: drifted}]
"""
