#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare the governor, energy preferences, boost and idle states of CPUs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cpu_governor
short_description: Declare the governor, energy preferences, boost and idle states of CPUs
version_added: 0.1.0
description:
  - Sets clocks and idle states of CPUs, in the running kernel and for the next boot.
  - Every option applies to all CPUs of the declaration. The node writes the files of each cpufreq policy or CPU that
    differ, either all files of an option or none.
  - Options are written in a fixed order, because some change others. A new governor changes the energy preference, and
    disabling boost changes C(min_perf_pct).
  - Names are compared with the choices of each policy before any write.
  - Offline CPUs are skipped and listed in the result. A node without cpufreq, such as most virtual machines, is
    V(unsupported), see O(on_unsupported).
extends_documentation_fragment:
  - mlnode.tuning.area.cpu
  - mlnode.tuning.declaration.by_agent
notes:
  - tuned and power-profiles-daemon set the same files, at boot and at each change of a profile. Use only one tool for
    each setting.
  - If the firmware disabled boost, the kernel cannot enable it, and O(boost) is V(refused) or, for a profile,
    V(unsupported).
seealso:
  - name: CPU performance scaling
    description: Governors, policies and boost in the kernel's own documentation.
    link: https://docs.kernel.org/admin-guide/pm/cpufreq.html
"""

EXAMPLES = r"""
- name: Run every CPU of a training node at full clock
  mlnode.tuning.cpu_governor:
    name: site
    governor: performance
    energy_perf_bias: performance
    boost: true

- name: Allow only shallow idle states on the CPUs that serve requests
  mlnode.tuning.cpu_governor:
    name: serving_cpus
    cpus: 4-31,36-63
    max_latency_us: "10"

- name: Use a dynamic clock that prefers performance
  mlnode.tuning.cpu_governor:
    name: site
    governor: powersave
    energy_performance_preference: balance_performance
"""

RETURN = r"""
settings:
  description: Every declared setting with its four states and its one status, as in M(mlnode.tuning.sysctl_ml).
  returned: success
  type: list
  elements: dict
  sample:
    - key: cpu.governor
      want: performance
      runtime: "performance: 0-61; powersave: 62-63"
      boot: null
      status: drifted
reboot_required:
  description: Whether a setting takes effect only after a reboot.
  returned: success
  type: bool
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.cpu.kind import kind as cpu


def main() -> None:
    tuning_module.run(cpu)


if __name__ == "__main__":
    main()
