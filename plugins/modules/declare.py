#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare a whole node in one remote call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: declare
short_description: Declare a whole node in one remote call
version_added: 0.1.0
description:
  - Sends a declaration of all areas to the agent of the node, which applies it as one transaction, all or nothing, in a
    fixed order. If the agent is missing, or differs from this collection's, it is installed first; in check mode it runs
    from a temporary folder, and nothing is installed.
  - Every area takes the options of its module; O(sysctl) takes the options of M(mlnode.tuning.sysctl_ml). A list of
    rules may also be a dictionary with the name of each rule. V(null) anywhere leaves this setting alone.
  - Areas that are not given leave the declaration of this O(name), and their settings go back to their origin.
  - C(--tags) and C(--skip-tags) with names of areas select among them, if the task has the tag C(always). Other areas
    stay as they are.
  - A warning reports, once, an earlier run that was killed, was stopped, or could not answer. An agent that has begun
    and ends without an answer is not asked a second time.
  - A difference is returned if the play runs with C(--diff). It hides the content of files that others may not read.
  - If a guard refuses a setting, the rest is applied; the task fails after that.
  - A change that may cut off the node is made only after the node was reached, and has to be confirmed over a new
    connection, which this action does on its own; see O(confirm_seconds).
options:
  name:
    description: Name of the declaration on the node. Two declarations with different values for one key are an error.
    type: str
    default: node
  profile:
    description:
      - The declaration of all areas without options, as a profile of this collection (V(training), V(inference),
        V(fabric)) or the path of a YAML file with areas on the controller. An option of an area replaces the profile's
        value of that setting.
      - With several profiles, a later one replaces the settings of the earlier ones. Presets (V(roce_nvidia), V(roce_gcp),
        V(roce_oci), V(amd_instinct)) are meant for the later places.
    type: list
    elements: str
    default: []
  layers:
    description: Layers to declare, as in M(mlnode.tuning.sysctl_ml).
    type: list
    elements: str
    choices: [runtime, boot]
    default: [runtime, boot]
  on_unsupported:
    description: Action if the kernel or a device has no such setting.
    type: str
    choices: [fail, warn, ignore]
    default: warn
  leave:
    description: Whether a setting that is no longer declared keeps its value, instead of going back to its origin.
    type: bool
    default: false
  confirm_seconds:
    description:
      - Seconds after the end of the run until a change that may cut off the node is undone, unless it is confirmed over a
        new connection. V(0) makes it permanent.
    type: int
    default: 60
  fabric_type:
    description:
      - The RDMA ports that the node must have; if they are missing, nothing is changed. V(auto) accepts both kinds. If
        omitted, the node needs none. Checked with the layer V(runtime) only.
    type: str
    choices: [auto, roce, infiniband]
  fail_at:
    description:
      - The least severity at which a declared setting that is not in effect after the run fails the task. Settings that
        wait for a reboot do not count.
    type: str
    choices: [low, medium, high, never]
    default: high
  ignore:
    description: Exceptions from O(fail_at), as O(mlnode.tuning.node_drift#module:ignore).
    type: list
    elements: dict
    default: []
    suboptions:
      key:
        description: The setting. C(*), C(?) and C([...]) are wildcards, as in a shell.
        type: str
        required: true
      reason:
        description: The reason for the exception.
        type: str
        required: true
      until:
        description: The last day of the exception, such as V(2026-01-31), in UTC.
        type: str
        required: true
  judged_later:
    description: Whether the play judges RV(not_in_force), instead of a failure of the task.
    type: bool
    default: false
  rollout:
    description:
      - A file on the controller. A node gets a line in it when all of its declaration is in effect and nothing waits for
        a reboot. A node is skipped if its last line has the same declaration and the same version of the agent.
      - In check mode it is neither read nor written.
    type: path
    default: ""
  render:
    description:
      - Whether to return the question to the agent as RV(rendered) instead of asking it. The node is not reached. For
        M(mlnode.tuning.publish).
    type: bool
    default: false
  without:
    description:
      - Areas and settings that are not declared, whatever declares them, such as V(thp) or V(sysctl.vm.swappiness). A
        setting has the name of its area and its path in the role's variable.
    type: list
    elements: str
    default: []
  interpreter:
    description: The Python for the first line of the agent, behind C(#!), without quotes.
    type: str
    default: /usr/bin/env python3
  variables:
    description:
      - The prefix of variables with declarations of areas, in the form of the role P(mlnode.tuning.node#role). With
        V(node), C(node_thp) is the value of O(thp), C(node_sysctl) the settings of O(sysctl), and so on. If an area is
        also given as an option, the option is used.
      - C(node_layers) and C(node_on_unsupported) take precedence over O(layers) and O(on_unsupported), which may come from
        C(module_defaults).
    type: str
    default: ""
attributes:
  async:
    support: none
    details: It acts on the node's answer, as it may have to send the agent, or to confirm a change over a new connection.
extends_documentation_fragment:
  - mlnode.tuning.area.all
  - mlnode.tuning.declaration.attributes
  - mlnode.tuning.declaration.group
seealso:
  - module: mlnode.tuning.node_drift
  - module: mlnode.tuning.node_revert
"""

EXAMPLES = r"""
- name: Declare a node
  mlnode.tuning.declare:
    sysctl:
      settings:
        vm.swappiness: 1
        net.core.rmem_max: auto
    thp:
      enabled: madvise
    irq:
      rules:
        nics: {strategy: spread}
  tags: [always]
"""

RETURN = r"""
areas:
  description:
    - The result of each area as its own module would return it, with C(changed), C(settings), C(reboot_required) and, for
      some areas, C(commands), C(switch) or C(running).
  returned: success, or if a guard refuses a setting
  type: dict
  sample:
    thp: {changed: true, reboot_required: false, settings: []}
settings:
  description:
    - Settings of the agent itself, in the form of an area's C(settings). C(mlnode status) counts them and the
      settings of RV(areas) on the node.
  returned: success, if the agent is installed, and not in check mode
  type: list
  elements: dict
layers:
  description: O(layers), from any source; empty with O(render).
  returned: unless the options are wrong
  type: list
  elements: str
  sample: [runtime, boot]
reboot_required:
  description: Whether a setting takes effect only after a reboot.
  returned: success
  type: bool
not_in_force:
  description: One line for each setting that counts for O(fail_at). Empty in check mode.
  returned: success
  type: list
  elements: str
unsupported_overrides:
  description: >-
    One line with the reason for each setting that the node lacks and that the inventory, not a profile, declares.
  returned: success
  type: list
  elements: str
  sample: ["lnet.debug: /proc/sys/lnet/debug does not exist: this kernel has no such setting"]
rendered:
  description: The question to the agent, with the areas from profile and variables.
  returned: with O(render)
  type: dict
  sample: {name: node, areas: {thp: {enabled: madvise}}}
confirmed:
  description: Whether a change that may cut off the node was confirmed over a new connection.
  returned: if there was such a change
  type: bool
  sample: true
"""
