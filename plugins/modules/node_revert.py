#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Restore everything that mlnode has changed on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_revert
short_description: Restore everything that mlnode has changed on a node
version_added: 0.1.0
description:
  - Restores every kernel value, file and module to its state before the first change by this collection, newest change
    first, and removes everything that the collection installed, the agent included.
  - A file that others have edited since, or that a package has replaced, keeps their content. Only the lines of this
    collection are removed, and RV(reverted) reports it. A file that belongs to the collection as a whole is removed; if
    it was edited, a copy with the suffix C(.mlnode-saved) is kept in the same folder.
  - Anything that cannot be restored fails the module, is listed, and is kept for the next try.
options:
  without_origin:
    description:
      - For a node without its record of original values, C(/var/lib/mlnode/origin.json) and the copy
        C(/etc/mlnode/origin.json). Without this option, the module fails there.
      - Removes everything that the collection owns by name, takes its marked lines out of other files, and lists the
        remaining settings in RV(stays).
      - Refused if the record exists.
    type: bool
    default: false
extends_documentation_fragment:
  - mlnode.tuning.declaration.attributes
seealso:
  - module: mlnode.tuning.agent
"""

EXAMPLES = r"""
- name: Restore the node
  mlnode.tuning.node_revert:

- name: Remove the collection from a node without its record of original values
  mlnode.tuning.node_revert:
    without_origin: true
"""

RETURN = r"""
reverted:
  description: Restored settings (in check mode, those to restore), in this order.
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
        - The restored value; V(removed) or V(restored) for a file.
        - The fate of later edits, for an edited file.
      type: str
      sample: "60"
stays:
  description: Settings that could not be restored, such as values of the running kernel until the next boot.
  returned: if O(without_origin) is true
  type: list
  elements: str
  sample: [vm.swappiness = 10 until the node is booted]
reboot_required:
  description: Whether the running system keeps a setting until the next boot (kernel command line).
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
