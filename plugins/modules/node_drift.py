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
  - Drift does not fail this module; use RV(compliant) to decide. A node on which nothing is declared, or part of
    which cannot be read, is not compliant.
author:
  - mlnode.tuning contributors (!UNKNOWN)
options: {}
extends_documentation_fragment:
  - mlnode.tuning.declaration.attributes
seealso:
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
"""

RETURN = r"""
compliant:
  description: Whether everything declared could be read and is right. V(unsupported) settings do not count.
  returned: success
  type: bool
  sample: false
verdict:
  description: The state of the node in one line.
  returned: success
  type: str
  sample: "not as declared; 1 drifted, 33 ok, 1 unsupported"
drift:
  description: One line per setting that is not as declared.
  returned: success
  type: list
  elements: str
  sample:
    - "vm.swappiness: drifted, want 1, runtime 60, boot 1 (high): runtime is 60"
errors:
  description: What kept parts of the node from being checked.
  returned: success
  type: list
  elements: str
  sample: []
summary:
  description: How many settings ended in each status.
  returned: success
  type: dict
  sample: {drifted: 1, ok: 33, unsupported: 1}
settings:
  description: Every setting, as in M(mlnode.tuning.sysctl_ml), and the declarations it comes from.
  returned: success
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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.host import Host
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.node import survey
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.render import node


def main() -> None:
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    found = survey(Host())
    state = node.node(found)
    tuning_module.leave(
        module,
        changed=False,
        compliant=state["compliant"],
        verdict=node.verdict(found),
        drift=node.drift_words(found),
        errors=state["errors"],
        summary=state["summary"],
        settings=state["settings"],
    )


if __name__ == "__main__":
    main()
