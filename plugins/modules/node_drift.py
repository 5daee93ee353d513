#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check a node against everything it has been declared to be."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_drift
short_description: Check a node against everything it has been declared to be
version_added: 0.1.0
description:
  - Reads the declarations kept on the node and compares each setting with the running kernel and with what the
    next boot brings. Changes nothing, in check mode or out of it.
  - Drift does not fail this module unless O(fail_at) says so; use RV(compliant) to decide otherwise. A node on which
    nothing is declared, or part of which cannot be read, is not compliant. Neither is one whose agent is another than
    the one of this collection.
options:
  fail_at:
    description:
      - The least severity at which drift fails this module. V(low) is all drift.
      - With any of them, the module fails where part of the node could not be checked, too.
      - V(never) leaves the decision to the reader of the result.
    type: str
    choices: [low, medium, high, never]
    default: never
  ignore:
    description:
      - Drift that is known and will be mended. It is reported in RV(ignored) and does not count.
      - What should stay as it is, is better declared so, with V(null) as the value.
    type: list
    elements: dict
    default: []
    suboptions:
      key:
        description: The setting, as C(key) in RV(settings). C(*), C(?) and C([...]) stand for others, as in a shell.
        type: str
        required: true
      reason:
        description: The reason for the exception.
        type: str
        required: true
      until:
        description:
          - The last day of the exception, such as V(2026-01-31), in UTC. After it, the drift counts again, and says that
            there was an exception.
        type: str
        required: true
  declarations:
    description:
      - What the inventory says now. Name of a declaration, and its areas as M(mlnode.tuning.declare) takes them, with
        C(profile) and C(variables) as there. Each is compared with what is kept on the node, so that a change of the
        inventory that has not arrived is found, too.
      - Of a name without areas nothing should be declared on the node. A name that is not here is not compared. Where
        no name has areas, a node without agent and declarations is compliant, and no agent is sent to it.
    type: dict
    default: {}
  interpreter:
    description: The Python for an agent that is sent, as O(mlnode.tuning.declare#module:interpreter).
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
- name: Look for drift
  mlnode.tuning.node_drift:
  register: node

- name: Stop where the node is not as declared
  ansible.builtin.assert:
    that: node.compliant
    fail_msg: "{{ node.drift + node.errors }}"

- name: Stop for what costs jobs time, and leave a driver's update its weeks
  mlnode.tuning.node_drift:
    fail_at: high
    ignore:
      - key: nic.fabric.*
        reason: firmware 28.43 has too few queues, the update is in OPS-1234
        until: "2027-01-31"

- name: Check that the inventory's last change has reached the node, too
  mlnode.tuning.node_drift:
    declarations:
      node:
        thp: {enabled: madvise}
      fabric: {}
"""

RETURN = r"""
compliant:
  description:
    - Whether everything declared could be read and is right, or ignored. V(unsupported) settings do not count.
  returned: success, and where drift fails the module
  type: bool
  sample: false
verdict:
  description: The state of the node in one line.
  returned: success, and where drift fails the module
  type: str
  sample: "not as declared; 1 drifted, 33 ok, 1 unsupported"
drift:
  description: One line per setting that is not as declared. Without those that are ignored.
  returned: success, and where drift fails the module
  type: list
  elements: str
  sample:
    - "vm.swappiness: drifted, want 1, runtime 60, boot 1 (high): runtime is 60"
failures:
  description: Of RV(drift) what is at least as severe as O(fail_at), and RV(errors). Empty with V(never).
  returned: success, and where drift fails the module
  type: list
  elements: str
ignored:
  description: One line per setting that is not as declared and is ignored, with the reason.
  returned: success, and where drift fails the module
  type: list
  elements: str
exceptions:
  description: What O(ignore) says, in its order, and what became of each.
  returned: success, and where drift fails the module
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
        - V(used), something is ignored for it; V(expired), something would be, but its day is over; V(unused), nothing
          that it is for has drifted.
      type: str
      sample: used
errors:
  description:
    - What kept parts of the node from being checked, what is declared otherwise than O(declarations) say, and an agent that is
      not the one of this collection.
  returned: success, and where drift fails the module
  type: list
  elements: str
digests:
  description: Of what is declared on the node, by name and kind of setting.
  returned: success, and where drift fails the module
  type: dict
  sample: {node: {sysctl: 1f0e3dad99908345, thp: 98f13708210194c4}}
summary:
  description: How many settings ended in each status.
  returned: success, and where drift fails the module
  type: dict
  sample: {drifted: 1, ok: 33, unsupported: 1}
unsupported_overrides:
  description: One line with the reason for each setting that the node has not and that the inventory, not a profile, declares.
  returned: success, and where drift fails the module
  type: list
  elements: str
  sample: ["lnet.debug: /proc/sys/lnet/debug does not exist: this kernel has no such setting"]
settings:
  description:
    - Every setting, as in M(mlnode.tuning.sysctl_ml), and the declarations it comes from. Where it is ignored, C(ignored)
      says until when and why.
  returned: success, and where drift fails the module
  type: list
  elements: dict
  sample: [{key: vm.swappiness, declared_by: [node], want: "1", runtime: "60", boot: "1", status: drifted}]
"""
