# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on runs of nccl-tests, and which groups of nodes to run next."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_report
short_description: Judge runs of nccl-tests
version_added: 0.1.0
description:
  - Compares each size with what the rails of the nodes carry, with other results of the same size and group,
    with limits that the site declares, and with smaller sizes. Proves the transport from the log of NCCL, and
    reports the algorithm of each size, SHARP, and ranks that others wait for.
  - Where a group of nodes is low it says which smaller groups to run next, and names slow nodes and paths.
  - A run without a whole result is V(unknown), whatever its exit status is.
author:
  - mlnode.tuning contributors (!UNKNOWN)
positional: _input
options:
  _input:
    description:
      - One dictionary for each run, with C(number), C(nodes), C(rc), C(cmd), C(stdout) and C(stderr) of its
        command, C(path) of the file for JSON, C(json), its content as base64, and C(logs), a dictionary with
        the log of NCCL of each node.
    type: list
    elements: dict
    required: true
  asked:
    description: What was asked of the nodes, as for P(mlnode.tuning.nccl_nodes#filter).
    type: dict
    required: true
  about:
    description:
      - What was asked for, C(id), C(begin) in seconds since 1970, C(launcher), C(gpus), C(least) and
        C(most) in bytes, C(network), C(runs), C(stragglers), C(sharp), C(limits), C(timeout) and C(fail_on).
    type: dict
    required: true
  earlier:
    description: Earlier documents to compare with, a dictionary with the path of a file and its content.
    type: dict
    default: {}
seealso:
  - plugin: mlnode.tuning.nccl_nodes
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Judge runs
  ansible.builtin.debug:
    msg: "{{ (ran | mlnode.tuning.nccl_report(asked, about)).table }}"
"""

RETURN = r"""
_value:
  description: The result.
  type: dict
  contains:
    document:
      description: All of it, as docs/schema/nccl.schema.json describes it.
      type: dict
    table:
      description: Lines for people. The last one is the verdict.
      type: list
      elements: str
    success:
      description: Whether nothing fails, and unless C(fail_on) is V(fail) nothing is unknown.
      type: bool
    next:
      description: Groups of nodes to run next. Empty where nothing is left to find out.
      type: list
      elements: list
"""

import datetime as dt
from typing import Any, Callable, Mapping, Sequence

from ansible.errors import AnsibleFilterError
from ansible_collections.mlnode.tuning.plugins.plugin_utils.nccl_tests import document, facts, judge


def nccl_report(
    ran: Sequence[Mapping[str, Any]],
    asked: Mapping[str, Mapping[str, Any]],
    about: Mapping[str, Any],
    earlier: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    try:
        nodes = facts.fleet(asked)
        wanted = judge.about(about)
        judged = judge.judge(nodes, ran, wanted, judge.past(earlier or {}))
        whole = document.of(judged, {
            "id": about["id"],
            "started": dt.datetime.fromtimestamp(float(about["begin"]), dt.timezone.utc).isoformat(),
            "ended": dt.datetime.now(dt.timezone.utc).isoformat(),
            "program": next((node.program for node in nodes.values() if not node.problem), ""),
        })  # fmt: skip
        failed = document.fails(whole, about["fail_on"])
    except (KeyError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"nccl_report: {error}") from error
    return {
        "document": whole,
        "table": document.lines(whole),
        "success": not failed,
        "next": [[*group] for group in judged.wanted],
    }


class FilterModule:
    """As Ansible finds it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"nccl_report": nccl_report}
