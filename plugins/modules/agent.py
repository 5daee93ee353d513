#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install the command mlnode and its boot service."""

from __future__ import annotations

DOCUMENTATION = r"""
module: agent
short_description: Install the command mlnode and its boot service
version_added: 0.1.0
description:
  - Installs C(/usr/local/bin/mlnode), the library of this collection as one executable zip that needs nothing
    but Python 3.8 or newer, and C(mlnode-apply.service), which applies the node's declarations at every boot.
  - The service is enabled, not started. A running systemd is made to read the unit; without one, as in a chroot or
    an image build, it is found at the next boot.
  - Equal sources give an equal file, and a second run changes nothing.
  - A unit that is masked or was edited is installed again. Additions by others are left alone, such as a drop-in with a
    condition or another command, or a default target that does not start the units. Each is a warning with its file
    and line, as it keeps the node from its declaration after the next boot.
options:
  interpreter:
    description: The Python for the first line of the command, behind C(#!).
    type: str
    default: /usr/bin/env python3
  reload:
    description:
      - Whether a running systemd reads the units, and waits for NICs, from now on.
      - V(false) is for image builds on a separate machine, which is not to be tuned.
    type: bool
    default: true
extends_documentation_fragment:
  - mlnode.tuning.declaration.attributes
seealso:
  - module: mlnode.tuning.node_revert
"""

EXAMPLES = r"""
- name: Install the agent
  mlnode.tuning.agent:

- name: Install the agent into an image, on the machine that becomes the image
  mlnode.tuning.agent:
    reload: false
"""

RETURN = r"""
path:
  description: Path of the command.
  returned: success
  type: str
  sample: /usr/local/bin/mlnode
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.agent import (  # pylint: disable=unused-import
    agent_modules,  # noqa: F401  # all of the agent is sent along
    whole_node,
)
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.agent import install as agent
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.agent import mounts as drivers
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.host.host import Host
from ansible_collections.mlnode.tuning.plugins.module_utils.check_module import finish


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "interpreter": {"type": "str", "default": agent.INTERPRETER},
            "reload": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    given, host = module.params, Host(mounts=drivers.ALL)
    result = whole_node.installed(
        host, given["interpreter"], given["reload"], module.check_mode, module._diff
    )
    finish(module, result)


if __name__ == "__main__":
    main()
