# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds tcp, rdma_bw, rdma_lat and gpudirect: nodes measure each other, and suspects once more."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from ..campaign import document, judge, samples, schedule, table
from ..campaign.judge import Judged
from ..fleet_report.names import few
from . import balance, rounds
from .nodes import Fleet, MeasureError
from .rounds import Ran
from .run import Report


class Campaign:
    """See Kind."""

    def __init__(self, fleet: Fleet, given: Mapping[str, Any], name: str) -> None:
        self._fleet, self._given = fleet, given
        self.name = name
        self.folder = given["campaign_results"]
        self._plan: dict[str, Any] = {}
        self._looks: list[tuple[Mapping[str, Any], Ran]] = []
        self._unbalanced: Sequence[str] = ()

    def plan(self) -> str:
        given = self._given
        self._limit = part(given["campaign_limit"])
        self._plan = plan = rounds.plan(self._fleet, given, given["campaign_kind"], given["campaign_rounds"])
        seconds = plan["round_seconds"]
        return (
            f"Campaign {self.name} of {plan['kind']}: {len(self._fleet.names)} nodes, {plan['rounds']} "
            f"rounds of {seconds:.0f} s. The links carry as much as they can for "
            f"{plan['rounds'] * seconds:.0f} s, and up to as long again if nodes are tried again. The first "
            "round begins when all nodes are ready. Nodes on which something runs do not take part."
        )

    def rehearse(self) -> None:
        answers = rounds.prepare(self._fleet, self._given, self._plan, self.name)
        unready = [name for name, answer in answers.items() if "shift" not in answer]
        if unready:
            raise MeasureError(f"{len(unready)} of {len(answers)} nodes are not ready: {few(unready)}")

    def measure(self) -> None:
        # A second look has few nodes at a time, which need not use all uplinks alike.
        with balance.shared(self._fleet, self._balance()) as self._unbalanced:
            self._look(self._plan, self.name)
        again = schedule.second(self._plan, self._judged())
        if again["rounds"] and self._given["campaign_second_look"]:
            self._look(again, f"{self.name}-again")

    def _balance(self) -> balance.Asked | None:
        given, names = self._given, self._fleet.names
        meant = given["campaign_balance_names"]
        short = [name.partition(".")[0] for name in names]
        asked = balance.Asked(
            given["campaign_balance_node"] or names[0], short if meant is None else meant, "unknown"
        )
        return asked if given["campaign_balance"] else None

    def _look(self, plan: Mapping[str, Any], name: str) -> None:
        self._looks.append((plan, rounds.run(self._fleet, self._given, plan, name)))

    def _judged(self) -> Judged:
        return judged(self._looks, self._limit)

    def report(self) -> Report:
        made = report(self._judged(), self._plan, {
            "id": self.name,
            "started": dt.datetime.fromtimestamp(self._looks[0][1].begin, dt.timezone.utc).isoformat(),
            "second_look_rounds": self._looks[1][0]["rounds"] if len(self._looks) > 1 else 0,
            "duration_seconds": self._given["campaign_duration"],
            "streams": self._given["campaign_streams"],
        })  # fmt: skip
        return made._replace(unbalanced=self._unbalanced)


def part(limit: float) -> float:
    """limit: loss of a node in percent that has to be found. Raises MeasureError."""
    if 0 < limit < 100:
        return limit / 100
    raise MeasureError(f"campaign_limit: expected a percentage between 0 and 100, got {limit:g}")


def judged(looks: Sequence[tuple[Mapping[str, Any], Ran]], limit: float) -> Judged:
    """looks: the first one and the second one, if any, each with its plan. limit: as of judge.judge()."""
    first, *more = (samples.stage(plan["slots"], ran.started, ran.collected) for plan, ran in looks)
    plan = looks[0][0]
    return judge.judge(plan["kind"], plan["nodes"], first, more[0] if more else None, limit)


def report(judged: Judged, plan: Mapping[str, Any], about: Mapping[str, Any]) -> Report:
    """about: fields of the document that are not in the plan."""
    whole = document.result_without_pairs(judged, {
        **about,
        "ended": dt.datetime.now(dt.timezone.utc).isoformat(),
        "rounds": plan["rounds"],
        "seed": plan["seed"],
        "streams": 1 if judged.kind.RDMA else about["streams"],
    })  # fmt: skip
    return Report(
        document.text(whole, judged), table.lines(whole, judged.samples), document.is_success(whole)
    )
