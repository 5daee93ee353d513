#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put back everything mlnode has changed on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_revert
short_description: Put back everything mlnode has changed on a node
version_added: 0.1.0
description:
  - Puts every kernel value, file and module back to what it was before this collection first changed it, newest
    change first, and removes what the collection installed, the agent included.
  - A file that was edited by others since, or replaced by a package, keeps what they wrote. Only what this
    collection wrote into it is taken out, and RV(reverted) says so. A file that is the collection's own as a whole
    is removed; where it was edited, a copy with the suffix C(.mlnode-saved) stays beside it.
  - What cannot be put back fails the module, is named, and is kept for the next try.
options:
  without_origin:
    description:
      - For a node whose record of what was before is lost, C(/var/lib/mlnode/origin.json) and its copy
        C(/etc/mlnode/origin.json), without which the module fails.
      - Removes what the collection owns by name, takes its marked lines out of files of others, and lists in
        RV(stays) what cannot be put back.
      - Refused where the record is there.
    type: bool
    default: false
extends_documentation_fragment:
  - mlnode.tuning.declaration.attributes
seealso:
  - module: mlnode.tuning.agent
"""

EXAMPLES = r"""
- name: Make the node what it was
  mlnode.tuning.node_revert:

- name: Remove what the collection has left on a node that has lost what it was before
  mlnode.tuning.node_revert:
    without_origin: true
"""

RETURN = r"""
reverted:
  description: What was put back (in check mode, what would be), in this order.
  returned: success
  type: list
  elements: dict
  contains:
    key:
      description: The setting or the file.
      type: str
      sample: vm.swappiness
    value:
      description:
        - The value it has again; V(removed) or V(restored) for a file.
        - Of a file that was edited since, what became of the edits.
      type: str
      sample: "60"
stays:
  description: What could not be put back, such as values of the running kernel until it is booted.
  returned: if O(without_origin) is true
  type: list
  elements: str
  sample: [vm.swappiness = 10 until the node is booted]
reboot_required:
  description: Whether the running system keeps something of it until it is booted again (kernel command line).
  returned: success
  type: bool
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.agent import mounts as drivers
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.agent import whole_node
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.host.host import Host
from ansible_collections.mlnode.tuning.plugins.module_utils.check_module import finish


def main() -> None:
    module = AnsibleModule(
        argument_spec={"without_origin": {"type": "bool", "default": False}}, supports_check_mode=True
    )
    host = Host(mounts=drivers.ALL)
    result = whole_node.put_back(host, module.params["without_origin"], module.check_mode, module._diff)
    finish(module, result)


if __name__ == "__main__":
    main()
