#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
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
author:
  - mlnode.tuning contributors (!UNKNOWN)
options:
  fail_at:
    description:
      - The least severity at which drift fails this module. V(low) is all drift.
      - With any of them, the module fails where part of the node could not be checked, too.
      - V(never) leaves it to who reads the result.
    type: str
    choices: [low, medium, high, never]
    default: never
  ignore:
    description:
      - Drift that is known and will be mended. It is told as RV(ignored) and does not count.
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
        description: Why, for whoever finds it.
        type: str
        required: true
      until:
        description:
          - The last day of the exception, such as V(2026-01-31), in UTC. After it, the drift counts again, and says that
            there was an exception.
        type: str
        required: true
  roles:
    description:
      - Roles of this collection that the node should have been given, such as V(training_node). What the inventory says
        about them now is compared with what is declared on the node, so that a change of the inventory that has not
        arrived is found, too.
      - A role of this collection that is not in the list should have declared nothing. Without a list, nothing is
        compared.
      - This needs the controller, as it has the inventory. It computes a digest for each kind of setting.
    type: list
    elements: str
  expected:
    description:
      - What O(roles) is computed to. Name of a declaration, kind of setting, and its digest as in RV(digests).
    type: dict
    default: {}
  agent:
    description:
      - For the controller, which fills this in by itself and overwrites what is given. It asks the agent on the node, so
        that a check costs no more than a ping, and sends its own where that is not the one of this collection.
    type: dict
    suboptions:
      path:
        description: The agent that was sent to the node.
        type: path
        required: true
      instead:
        description: What is wrong with the one there. This becomes one of RV(errors).
        type: str
        default: ""
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

- name: Look whether the node has heard of the inventory's last change, too
  mlnode.tuning.node_drift:
    roles: [training_node, fabric]
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
  sample: []
ignored:
  description: One line per setting that is not as declared and is ignored, with the reason.
  returned: success, and where drift fails the module
  type: list
  elements: str
  sample: []
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
    - What kept parts of the node from being checked, what is declared otherwise than O(roles) say, and an agent that is
      not the one of this collection.
  returned: success, and where drift fails the module
  type: list
  elements: str
  sample: []
not_compared:
  description:
    - By name, kinds of setting for which a role asks the node before it declares anything, so that the controller
      cannot tell what it would be.
  returned: success, and where drift fails the module
  type: dict
  sample: {fabric: [nic, qos]}
digests:
  description: Of what is declared on the node, by name and kind of setting.
  returned: success, and where drift fails the module
  type: dict
  sample: {training_node: {sysctl: 1f0e3dad99908345, thp: 98f13708210194c4}}
summary:
  description: How many settings ended in each status.
  returned: success, and where drift fails the module
  type: dict
  sample: {drifted: 1, ok: 33, unsupported: 1}
settings:
  description:
    - Every setting, as in M(mlnode.tuning.sysctl_ml), and the declarations it comes from. Where it is ignored, C(ignored)
      says until when and why.
  returned: success, and where drift fails the module
  type: list
  elements: dict
  sample:
    - kind: sysctl
      key: vm.swappiness
      path: /proc/sys/vm/swappiness
      declared: "1"
      declared_by: [training_node]
      want: "1"
      runtime: "60"
      boot: "1"
      boot_source: /etc/sysctl.d/zz-mlnode-training_node.conf:3
      origin: "60"
      status: drifted
      severity: high
      reason: runtime is 60
"""

import importlib
import sys

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "fail_at": {"type": "str", "choices": ["low", "medium", "high", "never"], "default": "never"},
            "ignore": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    # The name of a setting, which sounds like a secret.
                    "key": {"type": "str", "required": True, "no_log": False},
                    "reason": {"type": "str", "required": True},
                    "until": {"type": "str", "required": True},
                },
            },
            "roles": {"type": "list", "elements": "str"},
            "expected": {"type": "dict", "default": {}},
            "agent": {
                "type": "dict",
                "options": {
                    "path": {"type": "path", "required": True},
                    "instead": {"type": "str", "default": ""},
                },
            },
        },
        supports_check_mode=True,
    )
    agent = module.params["agent"]
    if agent is None:
        module.fail_json(
            msg="node_drift: this needs its action plugin, which knows the inventory and the agent"
        )
    sys.path.insert(0, agent["path"])
    drift, host = (importlib.import_module(f"mlnode.{name}") for name in ("drift", "host"))
    known = [agent["instead"]] if agent["instead"] else []
    result = drift.answer(host.Host(), {**module.params, "errors": known})
    if result.get("failed"):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
