#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report what slows a node down or may be broken, whatever is declared."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_audit
short_description: Report what slows a node down or may be broken, whatever is declared
version_added: 0.1.0
description:
  - Looks at kernel, CPUs, memory, GPUs, their links, daemons, and services that tune. Nothing has to be declared or
    installed, so that it is what to run first on a new machine.
  - Each finding has a severity, what it costs, what to do, and where that is written. Changes nothing, in check mode or
    out of it.
  - V(skip) and V(unknown) are never V(pass).
  - The findings are those that C(mlnode audit) shows on the node.
author:
  - mlnode.tuning contributors (!UNKNOWN)
options:
  skip:
    description: Names of checks to leave out, as in RV(findings[].name).
    type: list
    elements: str
    default: []
  fail_on:
    description:
      - When this module fails.
      - V(high), V(medium) and V(low) are where a finding that is not as expected has at least this severity.
      - V(never) leaves the decision to the reader of RV(findings).
    type: str
    choices: [high, medium, low, never]
    default: never
extends_documentation_fragment:
  - mlnode.tuning.declaration.attributes
notes:
  - Runs C(nvidia-smi), C(dmesg) and C(chronyc) where they are installed and there is something to query. One that
    fails, or does not answer within a minute, leaves its checks V(unknown).
  - Without root the kernel's log and the limits of daemons may be hidden, which is V(unknown).
seealso:
  - module: mlnode.tuning.node_topology
  - module: mlnode.tuning.rdma_check
  - module: mlnode.tuning.tuning_services
  - module: mlnode.tuning.gpu_persistence
"""

EXAMPLES = r"""
- name: Look at a new machine
  mlnode.tuning.node_audit:
  register: audit

- name: Show what is not as expected
  ansible.builtin.debug:
    var: audit.problems

- name: Refuse machines with severe findings
  mlnode.tuning.node_audit:
    fail_on: high
    skip: [kernel]
"""

RETURN = r"""
findings:
  description: Everything that was looked at, what matters most first.
  returned: success, and where it fails
  type: list
  elements: dict
  contains:
    name:
      description: Of the check.
      type: str
      sample: governor
    target:
      description: The GPU, PCIe bridge, daemon or service; V(node) for the node itself.
      type: str
      sample: node
    verdict:
      description:
        - V(pass), as expected; V(warn) and V(fail), it is not; V(fail) where that is severe.
        - V(skip), reported and not judged, or not there; V(unknown), it could not be read.
      type: str
      sample: fail
    expected:
      description: The expected value. Empty where nothing is judged.
      type: str
      sample: performance
    found:
      description: What was read, or why there is nothing.
      type: str
      sample: schedutil
    source:
      description: The file, folder or command it is from.
      type: str
      sample: /sys/devices/system/cpu/cpufreq/policy*/scaling_governor
    advice:
      description: What to do. Empty if nothing.
      type: str
      sample: "set it to performance: the module cpu_governor"
    severity:
      description: How much it matters, V(high), V(medium) or V(low).
      type: str
      sample: high
    cost:
      description: What it costs.
      type: str
      sample: clocks follow the load, and are late for the short bursts between two kernel launches
    reference:
      description: Where that is written.
      type: str
      sample: admin-guide/pm/cpufreq.rst
problems:
  description: One line for each finding that is V(fail), V(warn) or V(unknown), with its severity in front.
  returned: success, and where it fails
  type: list
  elements: str
  sample:
    - "high: node: governor fail: schedutil (expected performance); set it to performance: the module cpu_governor"
summary:
  description: How many ended with each verdict.
  returned: success, and where it fails
  type: dict
  sample: {fail: 1, pass: 17, skip: 6}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.audit import findings as audit
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.model import Verdict, summary
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.host.host import Host
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.model import schema
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.model.errors import MlnodeError

#: From the worst on
SEVERITIES = ("high", "medium", "low")

#: As many as fit on a screen; findings has them all
NAMED = 8


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "skip": {"type": "list", "elements": "str", "default": []},
            "fail_on": {"type": "str", "choices": [*SEVERITIES, "never"], "default": "never"},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        schema.refuse_others("skip", given["skip"], "check", audit.NAMES)
        found = audit.findings(Host(mounts=audit.MOUNTS), given["skip"])
    except MlnodeError as error:
        tuning_module.fail(module, f"node_audit: {error}")
    result = {
        "changed": False,
        "findings": [finding.document() for finding in found],
        "problems": [f"{finding.severity}: {finding}" for finding in found if finding.is_bad],
        "summary": summary(found),
    }
    judged = [finding for finding in found if finding.verdict in (Verdict.FAIL, Verdict.WARN)]
    enough = SEVERITIES[: SEVERITIES.index(given["fail_on"]) + 1] if given["fail_on"] != "never" else ()
    loud = [f"{finding.severity}: {finding}" for finding in judged if finding.severity in enough]
    if loud:
        more = [f"and {len(loud) - NAMED} more"] if len(loud) > NAMED else []
        title = f"node_audit: {len(loud)} of {len(found)} findings are at least {given['fail_on']}:"
        tuning_module.fail(module, "\n".join([title, *loud[:NAMED], *more]), **result)
    tuning_module.leave(module, **result)


if __name__ == "__main__":
    main()
