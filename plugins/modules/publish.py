#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write what a node is declared to be, signed, for it to pull."""

from __future__ import annotations

DOCUMENTATION = r"""
module: publish
short_description: Write what a node is declared to be, signed, for it to pull
version_added: 0.1.0
description:
  - Writes one file for the node on the controller, in a folder for any web server. The node is not reached.
  - A declaration that is the one of the file keeps that file as it is, so that nodes have nothing to fetch. Another one
    gets a greater serial, which is the present Unix time unless the file has that or a greater one.
  - All that can be known to be wrong without the node is an error here.
author:
  - mlnode.tuning contributors (!UNKNOWN)
options:
  declarations:
    description: What M(mlnode.tuning.declare) returns as C(rendered), for each declaration of the node.
    type: list
    elements: dict
    required: true
  folder:
    description: The folder on the controller. It is made if need be.
    type: path
    required: true
  key:
    description:
      - The path of the private key, with its public one in a file beside it that ends in C(.pub).
      - With a passphrase, or on a token, it has to be in an C(ssh-agent).
    type: path
    required: true
attributes:
  action:
    support: full
    description: It is an action, and runs on the controller.
  check_mode:
    support: full
    description: Shows what would be written, and writes nothing.
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
