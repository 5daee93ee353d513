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
  - Compares the measurements of the same pairs of nodes in two states, A and B. Four phases are a block, A B
    B A or B A A B, in which a steady trend counts for both states alike.
  - The effect has a 95 % interval, by Student's t distribution of the differences of blocks. All pairs share
    a phase and its disturbances. So the block is the unit, and an interval takes three blocks.
  - If the interval contains 0 there is no difference, and the least effect is given that the run would have
    seen.
  - Intervals hold for a run that may end after each block from the third on, and ends after
    RV(_value.decided).
author:
  - mlnode.tuning contributors (!UNKNOWN)
positional: _input
options:
  _input:
    description:
      - The phases in their order. Each has C(state), V(A) or V(B), and of the measurements C(tcp), with the
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
    description:
      - Content of the field C(effect) of the document, besides the order of the phases.
      - C(blocks_planned), the blocks after which the run ends in any case, is the number of measured blocks
        if omitted.
      - C(least_percent), the smallest effect that matters, is 1 if omitted.
      - C(stopped), the reason why the run ended before its time, and C(repeated), the numbers of phases that
        were measured twice, are empty if omitted.
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
      description: Whether each figure has an interval with all pairs in it, and the run was not stopped.
      type: bool
    decided:
      description: Whether more blocks would not change the answer. There is an effect, or none that matters.
      type: bool
    lost:
      description:
        - Nodes and pairs without a result in the last phase, with the reason. One line for each reason.
      type: list
      elements: str
    again:
      description:
        - Whether the last phase is worth a repetition. All nodes took part, and pairs have no result.
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
        lost = report.lost(phases[-1], plan)
    except (KeyError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"effect_report: {error}") from error
    return {
        "document": document,
        "table": report.lines(document),
        "success": report.is_success(document),
        "decided": report.is_decided(document),
        "lost": report.loss(lost),
        "again": bool(lost.pairs and not lost.nodes),
    }


class FilterModule:
    """As Ansible finds it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"effect_report": effect_report}
