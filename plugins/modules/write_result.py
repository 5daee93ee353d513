#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a result of a fleet into a folder of the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: write_result
short_description: Write a result of a fleet into a folder of the controller
version_added: 0.1.0
description:
  - Writes or removes one JSON file on the controller. No node is reached. The file is written whole or not at all.
  - The callback P(mlnode.tuning.fleet_report#callback) adds the results of campaigns that this writes to its report.
    It reads no path that another task names, as the answer of a node could be that task's result.
author:
  - mlnode.tuning contributors (!UNKNOWN)
options:
  document:
    description:
      - The document as JSON, such as RV(mlnode.tuning.campaign_report#filter:_value.document). Required for
        O(state=present).
    type: str
  folder:
    description: The folder on the controller. It is created if it is missing.
    type: path
    required: true
  name:
    description: The name of the file without C(.json), from letters, digits, C(-), C(_) and C(.).
    type: str
    required: true
  state:
    description: V(absent) removes the file, if there is one.
    type: str
    choices: [present, absent]
    default: present
attributes:
  action:
    support: full
    description: It is an action, and runs on the controller.
  check_mode:
    support: full
    description: Writes nothing.
  diff_mode:
    support: none
    description: It reports the path only.
seealso:
  - plugin: mlnode.tuning.fleet_report
    plugin_type: callback
  - plugin: mlnode.tuning.campaign_report
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Write the result of a campaign, and add it to the fleet report
  mlnode.tuning.write_result:
    document: "{{ campaign_report.document }}"
    folder: campaigns
    name: "20261107-030000"
  run_once: true
"""

RETURN = r"""
folder:
  description: The folder.
  returned: success
  type: str
  sample: campaigns
file:
  description: The name of the file in it.
  returned: if it was written
  type: str
  sample: 20261107-030000.json
"""
