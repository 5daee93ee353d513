# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes a campaign names, in fleets of which it is known which are slow; fleet.py has the noise."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign import judge, schedule
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign.judge import Judged, Stage
from ansible_collections.mlnode.tuning.tests.simulation import fleet
from ansible_collections.mlnode.tuning.tests.unit.effort import EFFORT

pytestmark = pytest.mark.robustness

#: A fleet takes a second, or several where coverage counts its lines
SEEDS = range(3 * EFFORT)


class Outcome(NamedTuple):
    """Nodes that were missed and wrongly named, before the second look and after it."""

    missed: set[str]
    wrong: set[str]
    missed_again: set[str]
    wrong_again: set[str]
    judged: Judged
    fleet: fleet.Fleet


def run(slow: float, bad: float, rounds: int, seed: int, nodes: int = 1024) -> Outcome:
    real, plan = fleet.made(nodes, slow, bad, rounds, seed)
    first = _stage(real, plan)
    judged = judge.judge("tcp", plan["nodes"], first)
    again = schedule.second(plan, judged)
    after = judge.judge("tcp", plan["nodes"], first, _stage(real, again))
    named, named_again = ({name for name, _rail in one.blame.slow} for one in (judged, after))
    return Outcome(
        {*real.slow} - named,
        named - {*real.slow},
        {*real.slow} - named_again,
        named_again - {*real.slow},
        after,
        real,
    )


def _stage(real: fleet.Fleet, plan: dict[str, Any]) -> Stage:
    return Stage(schedule.as_texts(plan)["slots"], real.answers(plan["slots"]))


@pytest.mark.parametrize(("slow", "bad", "rounds", "most"), [(0.05, 0.04, 12, 0.2), (0.02, 0.01, 8, 0.1)])
def test_every_slow_node_is_named_and_hardly_another(
    slow: float, bad: float, rounds: int, most: float
) -> None:
    found = [run(slow, bad, rounds, seed) for seed in SEEDS]

    assert not any(one.missed or one.missed_again for one in found)
    assert sum(len(one.wrong) for one in found) / len(found) <= most
    assert sum(len(one.wrong_again) for one in found) / len(found) <= most


def test_bad_paths_are_told_from_slow_nodes() -> None:
    result = run(0.05, 0.04, 12, 1)

    named = {frozenset((one[0], other[0])) for (one, other), _certainty in result.judged.paths}
    between = {pair for pair in result.fleet.bad if not pair & {*result.fleet.slow}}
    assert between <= named
    certain = {
        frozenset((one[0], other[0])) for (one, other), how in result.judged.paths if str(how) == "certain"
    }
    assert len(certain - between) <= 1


def test_a_fleet_without_a_fault_has_no_finding_about_a_node() -> None:
    for seed in SEEDS:
        assert not run(0.0, 0.0, 8, seed).judged.blame.slow
