#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare the governor, energy preferences, boost and idle states of CPUs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cpu_governor
short_description: Declare the governor, energy preferences, boost and idle states of CPUs
version_added: 0.1.0
description:
  - Sets how CPUs choose their clock and how deeply they may sleep, in the running kernel and for the next boot.
  - Every option is a rule over CPUs. It is expanded on the node into the files of each cpufreq policy or CPU, of
    which only those that differ are written, all or none of one option.
  - Everything is written in the order of the options below, which is the one that makes them stick. A change of
    governor moves the energy preference, and switching boost off moves C(min_perf_pct).
  - Words are checked against the lists of each policy, before anything is written.
  - CPUs that are offline are left out, and the result says so. A node without cpufreq, such as most virtual
    machines, ends as V(unsupported), see O(on_unsupported).
author:
  - mlnode.tuning contributors (!UNKNOWN)
options:
  governor:
    description:
      - One of the words in C(scaling_available_governors) of every policy, such as V(performance).
      - With the drivers C(intel_pstate) and C(amd-pstate-epp) there are two, V(performance) and V(powersave). The
        latter follows the load there, as O(energy_performance_preference) says.
      - A governor that is a kernel module is offered once C(cpufreq_NAME) is loaded.
      - Unset leaves it untouched, as with all other options.
    type: str
  energy_performance_preference:
    description:
      - What the processor itself weighs, a word in C(energy_performance_available_preferences) or a number from
        V(0) (performance) to V(255) (power).
      - The kernel prints a word wherever it has one for a number. Which number C(balance_performance) and
        C(balance_power) stand for differs from one processor to the next, so declare the word where there is one;
        a number that reads back as a word is put back and reported as an error. C(amd-pstate-epp) takes words only
        on many kernels.
      - Under the governor V(performance) those two drivers take nothing but V(performance), and answer EBUSY. This
        is refused before anything is written.
    type: str
  energy_perf_bias:
    description:
      - Another hint to Intel processors, a number from V(0) to V(15), or one of V(performance) (0),
        V(balance-performance) (4), V(normal) (6), V(balance-power) (8), V(power) (15).
    type: str
  boost:
    description:
      - Whether CPUs may run above their base frequency.
      - It is written to C(intel_pstate/no_turbo) (inverted), or to C(cpufreq/boost) and the file C(boost) of each
        policy. With O(cpus) only the latter can do it, since Linux 6.7.
    type: bool
  min_perf_pct:
    description:
      - The least performance in percent of the greatest, from V(0) to V(100), for C(intel_pstate) only. There is
        one for the whole machine, so it goes without O(cpus).
      - The kernel takes no less than the lowest frequency of the processor. A number below it does not read back,
        is put back and reported as an error.
    type: int
  max_latency_us:
    description:
      - The longest time in microseconds that a CPU may take to wake up, so that deeper idle states are left out.
        V(0) leaves none that takes any time, V(unlimited) allows all of them.
      - The kernel's C(pm_qos_resume_latency_us) is inverted. It shows C(n/a) for V(0), and 0 for V(unlimited).
      - CPUs that never sleep take power and heat from those that could boost.
    type: str
  cpus:
    description:
      - The CPUs, as a list such as V(0-3,8), or V(all), which is the default.
      - A policy that sets several CPUs together cannot be set for some of them only, which is refused. CPUs that
        the machine does not have are an error.
      - For another list use another O(name). Two names may not declare one option for the same CPU, nor
        O(governor) and O(energy_performance_preference), or O(boost) and O(min_perf_pct), as one moves the other.
    type: str
extends_documentation_fragment:
  - mlnode.tuning.declaration
  - mlnode.tuning.declaration.attributes
notes:
  - No drop-in of the system carries these files. They come back at boot through the agent, see
    M(mlnode.tuning.agent); without it a setting is reported as drifted in its boot layer.
  - tuned and power-profiles-daemon set the same files, at boot and whenever a profile changes. Let one of them own
    a setting.
  - Where the firmware has switched boost off the kernel cannot switch it on, and O(boost) ends as V(unsupported).
seealso:
  - module: mlnode.tuning.agent
  - name: CPU performance scaling
    description: Governors, policies and boost in the kernel's own documentation.
    link: https://docs.kernel.org/admin-guide/pm/cpufreq.html
"""

EXAMPLES = r"""
- name: Full clock on every CPU of a training node
  mlnode.tuning.cpu_governor:
    name: training_node
    governor: performance
    energy_perf_bias: performance
    boost: true

- name: Shallow idle states only, on the CPUs that serve requests
  mlnode.tuning.cpu_governor:
    name: serving_cpus
    cpus: 4-31,36-63
    max_latency_us: "10"

- name: A dynamic clock that leans to performance
  mlnode.tuning.cpu_governor:
    name: inference_node
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
    - kind: cpu
      key: cpu.governor
      path: /sys/devices/system/cpu/cpufreq/policy*/scaling_governor
      declared: performance
      want: performance
      runtime: "performance: 0-61; powersave: 62-63"
      boot: null
      boot_source: null
      origin: null
      status: drifted
      severity: high
      reason: "runtime is performance: 0-61; powersave: 62-63; boot: nothing brings it back, as mlnode-apply.service
        is not enabled (install the agent)"
reboot_required:
  description: Whether something takes effect only after a reboot.
  returned: success
  type: bool
  sample: false
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs import cpu


def main() -> None:
    own = {
        "governor": {"type": "str"},
        "energy_performance_preference": {"type": "str"},
        "energy_perf_bias": {"type": "str"},
        "boost": {"type": "bool"},
        "min_perf_pct": {"type": "int"},
        "max_latency_us": {"type": "str"},
        "cpus": {"type": "str"},
    }
    module = AnsibleModule(argument_spec={**tuning_module.ARGUMENTS, **own}, supports_check_mode=True)
    spec = {name: module.params[name] for name in own if module.params[name] is not None}
    if [*spec] == ["cpus"]:  # a rule about nothing: declared anew, the name lets go of what it had
        spec = {}
    tuning_module.declare(module, cpu, spec)


if __name__ == "__main__":
    main()
