#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
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
author:
  - mlnode.tuning contributors (!UNKNOWN)
options: {}
extends_documentation_fragment:
  - mlnode.tuning.declaration.attributes
seealso:
  - module: mlnode.tuning.agent
"""

EXAMPLES = r"""
- name: Make the node what it was
  mlnode.tuning.node_revert:
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
reboot_required:
  description: Whether the running system keeps something of it until it is booted again (kernel command line).
  returned: success
  type: bool
  sample: false
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode import revert
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.errors import MlnodeError
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.host import Host


def main() -> None:
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    host = Host()
    tuning_module.tell_undone(module, host)
    try:
        changes = revert.pending(host) if module.check_mode else revert.revert(host)
    except MlnodeError as error:
        tuning_module.fail(module, f"revert: {error}")
    tuning_module.leave(
        module,
        changed=any(change.changes for change in changes),
        reverted=[{"key": change.key, "value": change.result} for change in changes],
        reboot_required=any(change.at_boot for change in changes),
        diff=tuning_module.revert_diff(changes),
    )


if __name__ == "__main__":
    main()
