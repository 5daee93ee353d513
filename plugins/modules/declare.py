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
  - Hands a declaration of all areas to the agent of the node, which applies it as one transaction, all or nothing, in
    a fixed order. The agent is installed first where it is missing or is not the one of this collection; in check mode
    it is run from a temporary folder, and nothing is installed.
  - Every area takes the options of its own module, such as those of M(mlnode.tuning.sysctl_ml) in O(sysctl). A list of
    rules may also be a dictionary with the name of each rule. V(null) anywhere means that this setting is left alone.
  - The areas that are not given leave the declaration of this O(name), and what leaves it goes back to its origin.
  - C(--tags) and C(--skip-tags) with names of areas choose among them, if the task has the tag C(always). What is not
    chosen stays as it is.
  - A warning names an earlier run that was killed, was stopped, or could not answer any more, once. An agent that ends
    without an answer after it has begun is not asked a second time.
  - A difference is returned where the play runs with C(--diff), and of files that others may not read it shows only
    that they change.
  - A guard that refuses a setting leaves the rest to be applied; the task fails after that.
  - A change that may cut off the node is made only after the node was reached, and has to be confirmed over a new
    connection, which this action does by itself; see O(confirm_seconds).
options:
  name:
    description: Name of the declaration on the node. Two that declare one key differently are an error.
    type: str
    default: node
  profile:
    description:
      - What is declared where an area does not say otherwise, a profile of this collection (V(training), V(inference),
        V(fabric)) or the path of a YAML file with areas on the controller. What is given of an area replaces what the
        profile says of that setting.
      - Of several, each replaces what those before it say. Presets (V(roce_nvidia), V(roce_gcp), V(roce_oci)) are for
        such a place.
    type: list
    elements: str
    default: []
  layers:
    description: Where to declare it, as in M(mlnode.tuning.sysctl_ml).
    type: list
    elements: str
    choices: [runtime, boot]
    default: [runtime, boot]
  on_unsupported:
    description: What to do where the kernel or a device has no such setting.
    type: str
    choices: [fail, warn, ignore]
    default: warn
  leave:
    description: Whether what leaves the declaration keeps its value, instead of going back to its origin.
    type: bool
    default: false
  confirm_seconds:
    description:
      - How many seconds after the end of the run a change that may cut off the node undoes itself, unless it is confirmed
        over a new connection. V(0) makes it for good.
    type: int
    default: 60
  fabric_type:
    description:
      - The RDMA ports that the node has to have; without any, nothing is changed. V(auto) takes both kinds. If not
        given, the node needs none. Looked at with the layer V(runtime) only.
    type: str
    choices: [auto, roce, infiniband]
  fail_at:
    description:
      - The least severity at which something declared that is not in force after the run fails the task. What waits for
        a reboot does not count.
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
        description: The setting. C(*), C(?) and C([...]) stand for others, as in a shell.
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
    description: Whether RV(not_in_force) is left to the play instead of failing the task.
    type: bool
    default: false
  rollout:
    description:
      - A file on the controller in which each node gets a line once all that is declared of it is in force and nothing
        waits for a reboot. A node whose last line there is of the same declaration and the same version of the agent is
        skipped.
      - In check mode it is neither read nor written.
    type: path
    default: ""
  render:
    description:
      - Whether to return as RV(rendered) what the agent would be asked, and not to ask it. The node is not reached. For
        M(mlnode.tuning.publish).
    type: bool
    default: false
  interpreter:
    description: The Python that the agent starts with, as written behind C(#!), without quotes.
    type: str
    default: /usr/bin/env python3
  variables:
    description:
      - The prefix of variables that say what is declared of each area, as the role P(mlnode.tuning.node#role) has them. With
        V(node), C(node_thp) is what O(thp) says, C(node_sysctl) the settings of O(sysctl), and so on. An area that is
        given as an option as well takes the option.
      - C(node_layers) and C(node_on_unsupported) are O(layers) and O(on_unsupported), and count more than these, which
        C(module_defaults) may have set.
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
    - Area and what its own module would have returned, C(changed), C(settings), C(reboot_required) and, for some,
      C(commands), C(switch) or C(running).
  returned: success, and where a guard refuses a setting
  type: dict
  sample:
    thp: {changed: true, reboot_required: false, settings: []}
settings:
  description:
    - Settings of the agent itself, as C(settings) of an area. With those of RV(areas) they are what
      C(mlnode status) counts on the node.
  returned: success, if the agent is installed, and not in check mode
  type: list
  elements: dict
layers:
  description: O(layers), wherever it was given; none of them with O(render).
  returned: unless the options are wrong
  type: list
  elements: str
  sample: [runtime, boot]
reboot_required:
  description: Whether something takes effect only after a reboot.
  returned: success
  type: bool
not_in_force:
  description: One line for each setting that counts for O(fail_at). Empty in check mode.
  returned: success
  type: list
  elements: str
unsupported_overrides:
  description: One line with the reason for each setting that the node has not and that the inventory, not a profile, declares.
  returned: success
  type: list
  elements: str
  sample: ["lnet.debug: /proc/sys/lnet/debug does not exist: this kernel has no such setting"]
rendered:
  description: The question to the agent, with the areas as profile and variables have them.
  returned: with O(render)
  type: dict
  sample: {name: node, areas: {thp: {enabled: madvise}}}
confirmed:
  description: Whether a change that may cut off the node was confirmed over a new connection.
  returned: where there was such a change
  type: bool
  sample: true
"""
