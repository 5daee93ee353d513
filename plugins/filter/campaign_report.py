# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on the nodes and paths of a fleet, from the results of a campaign."""

from __future__ import annotations

DOCUMENTATION = r"""
name: campaign_report
short_description: Judge the results of a campaign
version_added: 0.1.0
description:
  - Fits one model to all measurements. A pair runs at the rate of its slowest part, the sender, the receiver,
    the uplinks of their leaves, or the path, and each node has its own noise. The filter names the parts that
    explain the low pairs best, with their probabilities.
  - Also compares each pair with the rates of its ports and PCIe links, and with the memories of the hosts for
    GPUDirect. A result above the rate of a port is V(unknown).
  - A node passes only if a loss of O(limit) would have been seen. Otherwise it is V(unknown), and the table
    says how many more rounds it takes.
  - Paths that lose packets or let no connection through are findings also if the bandwidth passes.
author:
  - mlnode.tuning contributors (!UNKNOWN)
positional: _input
options:
  _input:
    description: The plan, as from P(mlnode.tuning.campaign_plan#filter).
    type: dict
    required: true
  started:
    description: For each node the result of M(mlnode.tuning.campaign) with V(started).
    type: dict
    required: true
  collected:
    description: For each node the result of M(mlnode.tuning.campaign) with V(collected).
    type: dict
    required: true
  about:
    description:
      - What the campaign was, C(id), C(begin) in seconds since 1970, C(duration) and C(streams).
    type: dict
    required: true
  second:
    description:
      - The second look, with C(plan), C(started) and C(collected) as the first one. Empty if there was none.
    type: dict
    default: {}
  limit:
    description: Loss of a node that has to be found, in percent of its rate.
    type: float
    default: 10.0
seealso:
  - module: mlnode.tuning.campaign
  - plugin: mlnode.tuning.campaign_plan
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Judge a campaign
  ansible.builtin.debug:
    msg: "{{ (plan | mlnode.tuning.campaign_report(started, collected, about)).table }}"
  vars:
    about: {id: spring, begin: 1795564800, duration: 4, streams: 4}
"""

RETURN = r"""
_value:
  description: The result.
  type: dict
  contains:
    document:
      description: All of it as JSON, as docs/schema/campaign.schema.json describes it.
      type: str
    table:
      description: Lines for people. The last one is the verdict on the fleet.
      type: list
      elements: str
    success:
      description: Whether nothing fails and nothing is unknown.
      type: bool
    again:
      description: A plan in which suspects are tried again. Without any it has no rounds.
      type: dict
"""

import datetime as dt
from typing import Any, Callable, Mapping

from ansible.errors import AnsibleFilterError
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign import document, judge, schedule, table


def campaign_report(
    plan: Mapping[str, Any],
    started: Mapping[str, Any],
    collected: Mapping[str, Any],
    about: Mapping[str, Any],
    second: Mapping[str, Any] | None = None,
    limit: float = 10.0,
) -> dict[str, Any]:
    second = second or {}
    try:
        first = judge.stage(plan["slots"], started, collected)
        again = (
            judge.stage(second["plan"]["slots"], second["started"], second["collected"]) if second else None
        )
        judged = judge.judge(plan["kind"], plan["nodes"], first, again, _part(limit))
    except (KeyError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"campaign_report: the plan is not one of campaign_plan: {error}") from error
    whole = document.of(judged, {
        "id": about["id"],
        "started": dt.datetime.fromtimestamp(float(about["begin"]), dt.timezone.utc).isoformat(),
        "ended": dt.datetime.now(dt.timezone.utc).isoformat(),
        "rounds": plan["rounds"],
        "second_look_rounds": second["plan"]["rounds"] if second else 0,
        "seed": plan["seed"],
        "duration_seconds": int(about["duration"]),
        "streams": 1 if judged.kind.RDMA else int(about["streams"]),
    })  # fmt: skip
    return {
        # As a text, as a controller keeps it until the end of a play.
        "document": document.text(whole, judged),
        "table": table.lines(whole, judged.samples),
        "success": document.is_success(whole),
        "again": schedule.as_texts(schedule.second(plan, judged)),
    }


def _part(limit: object) -> float:
    if not isinstance(limit, (int, float)) or not 0 < limit < 100:
        raise AnsibleFilterError(
            f"campaign_report: limit: expected a percentage between 0 and 100, got {limit!r}"
        )
    return limit / 100


class FilterModule:
    """As Ansible finds it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"campaign_report": campaign_report}
