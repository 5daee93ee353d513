# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What modules have declared, and what is not in force after them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode import missed, waivers
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.errors import MlnodeError
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.status import Status

DOCUMENTATION = r"""
name: not_in_force
short_description: Find what modules have declared and what is not in force after them
version_added: 0.1.0
author:
  - mlnode.tuning contributors (!UNKNOWN)
description:
  - A module of this collection that declares something succeeds where it has done all it can. A file that is
    read later may still bring another value at the next boot, or a value may not be readable. This names such
    settings as M(mlnode.tuning.node_drift) does, from the results of the modules.
  - What waits for a reboot, or for the restart of a service, is how a run may end, and is not named.
positional: fail_at, ignore
options:
  _input:
    description:
      - Results of modules, as they were registered. Skipped tasks have no C(settings), and say nothing.
    type: list
    elements: dict
    required: true
  fail_at:
    description: The least severity that counts. V(low) is all, V(never) is nothing.
    type: str
    choices: [low, medium, high, never]
    default: high
  ignore:
    description: Exceptions, as O(mlnode.tuning.node_drift#module:ignore).
    type: list
    elements: dict
    default: []
seealso:
  - module: mlnode.tuning.node_drift
"""

EXAMPLES = r"""
- name: Declare kernel settings
  mlnode.tuning.sysctl_ml:
    settings: {vm.swappiness: 1}
  register: declared

- name: Stop where they are not in force
  ansible.builtin.assert:
    that: missed | length == 0
    fail_msg: "{{ missed }}"
  vars:
    missed: "{{ [declared] | mlnode.tuning.not_in_force('low') }}"
"""

RETURN = r"""
_value:
  description:
    - One line for each setting, with the file and the line that are in the way, as far as they are known.
  type: list
  elements: str
"""

CHOICES = (*missed.SEVERITIES, "never")


def not_in_force(
    results: Iterable[Mapping[str, Any]],
    fail_at: str = str(missed.SEVERITIES[0]),
    ignore: Sequence[Mapping[str, Any]] = (),
) -> list[str]:
    """See DOCUMENTATION."""
    if fail_at not in CHOICES:
        raise AnsibleFilterError(f"not_in_force: fail_at: {fail_at!r} is none of {', '.join(CHOICES)}")
    settings = [
        item
        for result in results
        for item in result.get("settings", [])
        if item["status"] != Status.PENDING_REBOOT
    ]
    try:
        return [*missed.judge(settings, waivers.parse(ignore), fail_at).failures]
    except (KeyError, TypeError) as error:
        words = "a list of dictionaries with key, reason and until"
        raise AnsibleFilterError(f"not_in_force: ignore: this takes {words} ({error})") from error
    except MlnodeError as error:
        raise AnsibleFilterError(f"not_in_force: {error}") from error


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name → filter."""
        return {"not_in_force": not_in_force}
