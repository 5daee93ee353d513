#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare the timer that fetches new declarations from a web server."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pull_timer
short_description: Declare the timer that fetches new declarations from a web server
version_added: 0.1.0
description:
  - Enrols the node. Every 15 minutes it fetches its document of M(mlnode.tuning.publish), verifies the signature, and
    applies a new one. The timer runs only with this declaration.
  - The node accepts only documents for its declared name, signed with one of the declared keys.
extends_documentation_fragment:
  - mlnode.tuning.area.pull
notes:
  - The units come with the agent, see M(mlnode.tuning.agent); this declaration starts the timer, now and at boot.
  - O(node) and O(signers) are required with O(url).
  - The node needs C(ssh-keygen) of OpenSSH 8.1 or newer.
  - Without a running systemd, the result is V(unsupported).
seealso:
  - module: mlnode.tuning.publish
  - module: mlnode.tuning.agent
"""

EXAMPLES = r"""
- name: Enrol the node
  mlnode.tuning.pull_timer:
    name: site
    url: https://config.example/mlnode
    node: gpu001.example
    signers:
      - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExampleExam
    window:
      - Sat,Sun 22:00-04:00
"""

RETURN = r"""
settings:
  description: The setting with its four states and its one status, as in M(mlnode.tuning.sysctl_ml).
  returned: success
  type: list
  elements: dict
  sample:
    - key: pull.url
      want: https://config.example/mlnode
      runtime: "off"
      boot: https://config.example/mlnode
      status: drifted
reboot_required:
  description: Whether a setting takes effect only after a reboot; never for this module.
  returned: success
  type: bool
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.pull.kind import kind as pull


def main() -> None:
    tuning_module.run(pull)


if __name__ == "__main__":
    main()
