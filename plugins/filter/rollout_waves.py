# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The waves of a rollout, as a list for the keyword serial."""

from __future__ import annotations

DOCUMENTATION = r"""
name: rollout_waves
short_description: The waves of a rollout, for the keyword serial
version_added: 0.1.0
description:
  - Computes the list for C(mlnode_serial) of the playbook C(site.yml), or for C(serial) of a play. Ansible
    repeats the last item until all hosts are done.
author:
  - mlnode.tuning contributors (!UNKNOWN)
positional: _input
options:
  _input:
    description: V(fixed) for waves of one size, V(exponential) to double each wave.
    type: str
    choices: [fixed, exponential]
    required: true
  canary:
    description: Number of nodes in the first wave, at least 1.
    type: int
    default: 1
  size:
    description: Size of the wave after the canary, as a number of nodes or a percentage of the play's nodes.
    type: str
    default: 10%
"""

EXAMPLES = r"""
- name: Restart a service in waves
  hosts: training
  serial: "{{ 'exponential' | mlnode.tuning.rollout_waves(canary=2, size='5%') }}"
  tasks: []
"""

RETURN = r"""
_value:
  description: Sizes of waves.
  type: list
  elements: str
  sample: ["1", "10%", "20%", "40%", "80%"]
"""

import re
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

#: More nodes than any inventory has, to end the doubling of a number
_MOST_NODES = 1 << 20


def rollout_waves(waves: Any, canary: Any = 1, size: Any = "10%") -> list[str]:
    first = _number("canary", canary, r"([1-9]\d{0,6})", "a number of nodes from 1 on")
    each = _number("size", size, r"([1-9]\d{0,6})%?", "a number of nodes from 1 on, or a percentage")
    unit, most = ("%", 100) if str(size).endswith("%") else ("", _MOST_NODES)
    if waves == "fixed":
        return [str(first), f"{each}{unit}"]
    if waves != "exponential":
        raise AnsibleFilterError(f"rollout_waves: must be fixed or exponential, got {waves!r}")
    sizes = [each]
    while sum(sizes) < most:
        sizes.append(2 * sizes[-1])
    return [str(first), *(f"{wave_size}{unit}" for wave_size in sizes)]


def _number(name: str, value: Any, pattern: str, allowed: str) -> int:
    match = re.fullmatch(pattern, str(value), re.ASCII)
    if match is None:
        raise AnsibleFilterError(f"rollout_waves: {name} must be {allowed}, got {value!r}")
    return int(match[1])


class FilterModule:
    """As Ansible finds it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"rollout_waves": rollout_waves}
