# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The effect of a change, from measurements before and after it."""

from __future__ import annotations

DOCUMENTATION = r"""
name: effect_report
short_description: Say the effect of a change, from measurements before and after it
version_added: 0.1.0
description:
  - Compares the measurements of the same pairs of nodes in two states, A and B, which were taken in the
    order A B B A, once or several times, so that what grows or falls steadily with time counts for both
    alike.
  - The effect is given with its 95 % interval, by Student's t distribution of the differences of logarithms.
    Where the interval contains 0 there is no difference above its wider end.
author:
  - mlnode.tuning contributors (!UNKNOWN)
positional: _input
options:
  _input:
    description:
      - The phases in their order. Each has C(state), V(A) or V(B), and of what was measured C(tcp), with the
        C(started) and C(collected) of P(mlnode.tuning.campaign_report#filter), and C(memory), for each node
        the result of M(mlnode.tuning.memory_bandwidth).
    type: list
    elements: dict
    required: true
  plan:
    description: The plan, as from P(mlnode.tuning.campaign_plan#filter). Empty without C(tcp).
    type: dict
    default: {}
  about:
    description: What the document has in its field C(effect), besides the order of the phases.
    type: dict
    required: true
seealso:
  - plugin: mlnode.tuning.campaign_plan
    plugin_type: filter
  - module: mlnode.tuning.memory_bandwidth
"""

EXAMPLES = r"""
- name: Say the effect
  ansible.builtin.debug:
    msg: "{{ (phases | mlnode.tuning.effect_report(plan, {'id': 'spring'})).table }}"
"""

RETURN = r"""
_value:
  description: The result.
  type: dict
  contains:
    document:
      description: All of it, as docs/schema/effect.schema.json describes it.
      type: dict
    table:
      description: Lines for people.
      type: list
      elements: str
    success:
      description: Whether there is an interval for each figure, in which every pair has its part.
      type: bool
"""

from typing import Any, Callable, Mapping, Sequence

from ansible.errors import AnsibleFilterError
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect import report


def effect_report(
    phases: Sequence[Mapping[str, Any]], plan: Mapping[str, Any], about: Mapping[str, Any]
) -> dict[str, Any]:
    try:
        document = report.document(phases, plan, about)
    except (KeyError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"effect_report: {error}") from error
    return {"document": document, "table": report.lines(document), "success": report.is_success(document)}


class FilterModule:
    """As Ansible finds it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"effect_report": effect_report}
