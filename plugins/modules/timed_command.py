#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a command several times, and time each run."""

from __future__ import annotations

DOCUMENTATION = r"""
module: timed_command
short_description: Run a command several times, and time each run
version_added: 0.1.0
description:
  - Runs a command without a shell or a terminal, and returns the output, exit status and wall time of each run. The playbook
    C(effect.yml) reads metrics from the output.
  - All processes of a run are ended after it, also at a timeout and if they have left its process group. Processes that
    another service starts, such as containers, are not.
  - The first run that fails ends the module, which then fails.
  - The module refuses to run if jobs run, or if a process holds a GPU or an RDMA device.
options:
  command:
    description: The program and its arguments.
    type: list
    elements: str
    required: true
  warmups:
    description: Number of runs before the first counted one. Their results are not returned.
    type: int
    default: 0
  runs:
    description: Number of counted runs.
    type: int
    default: 1
  seconds:
    description: Timeout of each run. The process group then receives SIGTERM, and SIGKILL ten seconds later.
    type: int
    default: 600
  any_status:
    description: Whether an exit status other than V(0) is a result and not a failure.
    type: bool
    default: false
  allow:
    description: V(busy) runs the command even if a job or another program runs.
    type: list
    elements: str
    choices: [busy]
    default: []
author:
  - mlnode.tuning contributors (!UNKNOWN)
attributes:
  check_mode:
    description: Can run in C(check_mode) without modifying the target.
    support: full
    details: Verifies that the command could start, and runs nothing.
  diff_mode:
    description: Returns the changes when in diff mode.
    support: none
  platform:
    description: Target OS/families that can be operated against.
    platforms: Linux
    support: full
notes:
  - All runs together may print 1 MiB. A run that prints more than its share fails.
seealso:
  - module: mlnode.tuning.measure
"""

EXAMPLES = r"""
- name: Time a benchmark three times after a warm-up
  mlnode.tuning.timed_command:
    command: [python3, bench.py, --seconds, "10"]
    warmups: 1
    runs: 3
  register: bench
"""

RETURN = r"""
runs:
  description: Results of the counted runs. Empty in check mode.
  returned: success, and the runs up to a failure
  type: list
  elements: dict
  contains:
    rc:
      description: Exit status, negative for a signal.
      type: int
      sample: 0
    seconds:
      description: Wall time.
      type: float
      sample: 10.2
    stdout:
      description: Standard output.
      type: str
      sample: '{"throughput": 148344}'
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks import timed_command


def main() -> None:
    check_module.run("timed_command", timed_command)


if __name__ == "__main__":
    main()
