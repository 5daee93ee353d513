#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a signed declaration for a node to pull."""

from __future__ import annotations

DOCUMENTATION = r"""
module: publish
short_description: Write a signed declaration for a node to pull
version_added: 0.1.0
description:
  - Writes one file for the node on the controller, in a folder for any web server. The node is not reached.
  - If the declaration has not changed, the file stays as it is, and nodes have nothing to fetch. A changed one gets a
    greater serial, which is the present Unix time unless the file has the same or a greater one.
  - Every error that can be detected without the node fails the task.
author:
  - mlnode.tuning contributors (!UNKNOWN)
options:
  declarations:
    description: The values C(rendered) of M(mlnode.tuning.declare), one for each declaration of the node.
    type: list
    elements: dict
    required: true
  folder:
    description: The folder on the controller. It is created if necessary.
    type: path
    required: true
  key:
    description:
      - The path of the private key, with the public key in a file of the same name with the suffix C(.pub).
      - A key with a passphrase, or on a token, must be loaded in an C(ssh-agent).
    type: path
    required: true
attributes:
  action:
    support: full
    description: It is an action, and runs on the controller.
  check_mode:
    support: full
    description: Shows the file without writing it.
  diff_mode:
    support: full
    description: Shows the two documents.
seealso:
  - module: mlnode.tuning.pull_timer
  - module: mlnode.tuning.declare
"""

EXAMPLES = r"""
- name: Render the declaration
  mlnode.tuning.declare:
    name: node
    profile: training
    variables: node
    render: true
  register: node_result
  tags: [always]

- name: Sign and write it
  mlnode.tuning.publish:
    declarations: ["{{ node_result.rendered }}"]
    folder: /srv/www/mlnode
    key: ~/.ssh/mlnode
"""

RETURN = r"""
path:
  description: The file.
  returned: success
  type: str
  sample: /srv/www/mlnode/gpu001.example.signed
serial:
  description: The serial in it.
  returned: success
  type: int
  sample: 1795564915
"""
