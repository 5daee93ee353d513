# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds tcp and memory, before and after a change: nodes alternate between two states.

Four phases are a block, A B B A or B A A B. All nodes share the disturbances of a phase, and the block is the
unit of the interval, which takes three of them.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import time
from collections.abc import Mapping
from typing import Any

from ..effect import interval, report
from . import rounds
from .nodes import Call, Fleet, MeasureError, say
from .run import Report
from .states import BEFORE, DECLARED, REVERTED, States

#: Blocks from which on there is an interval
_LEAST = 3

#: Seconds of one measurement of the memory, for the announcement
_MEMORY = 5

#: Seconds in which Ansible reaches as many nodes as it calls at a time, for the announcement
_BATCH = 5

#: For a node to measure the memory of each NUMA node, in seconds: a hundred times as long as one takes
_PATIENCE = 600


class Effect:
    """See Kind."""

    def __init__(self, fleet: Fleet, given: Mapping[str, Any], name: str) -> None:
        self._fleet, self._given = fleet, given
        self._id = name
        self.name = f"effect-{name}"
        self.folder = given["campaign_results"]
        self._kinds = given["effect_kinds"]
        self._states = States(fleet, self.folder, name, given["effect_before"] or "")
        self._of = {"A": BEFORE if given["effect_before"] else REVERTED, "B": DECLARED}
        self._sequence = interval.order(max(0, given["effect_blocks"]))
        self._plan: dict[str, Any] = {"rounds": 0, "slots": {}, "nodes": {}, "round_seconds": 0}
        self._phases: list[dict[str, Any]] = []
        self._repeated: list[int] = []
        self._stopped = ""
        self._left: list[str] = []

    # -- before ----------------------------------------------------------------------------------------

    def plan(self) -> str:
        given = self._given
        if not self._kinds or given["effect_blocks"] < 1 or given["effect_least"] <= 0:
            raise MeasureError(
                "expected effect_kinds of tcp and memory, effect_blocks of 1 or more and effect_least above "
                f"0, got {', '.join(self._kinds) or 'no kind'}, {given['effect_blocks']} and "
                f"{given['effect_least']:g}"
            )
        left = self._states.unfinished()
        unfinished = [
            f"{name}: an effect that did not end has left this node in another state than it was found in, "
            f"which was {self._states.original[name]}. It is put back to that at the end."
            for name in left
        ]
        if given["effect_put_back"]:
            return "\n".join(unfinished) or "No run has left a node to put back."
        if "tcp" in self._kinds:
            self._plan = rounds.plan(self._fleet, given, "tcp", max(1, given["effect_rounds"]))
        self._verify()
        began = time.time()
        self._states.detect()
        # Two states were looked for, which takes as long as reaching them; none after an unfinished run.
        return "\n".join([*unfinished, self._announced(max(1.0, (time.time() - began) / 2))])

    def _verify(self) -> None:
        """Raises MeasureError unless all nodes may be measured."""
        answers: list[dict[str, dict[str, Any]]] = []
        if "tcp" in self._kinds:
            answers.append(rounds.prepare(self._fleet, self._given, self._plan, self._id, check=True))
        if "memory" in self._kinds:
            answers.append(self._fleet.ask(dict.fromkeys(self._fleet.names, self._memory(check=True))))
        wrong = [
            f"{name}: {answer.get('msg') or 'no answer'}"
            for by_name in answers
            for name, answer in by_name.items()
            if answer.get("failed") or answer.get("unreachable")
        ]
        if wrong:
            raise MeasureError("; ".join(wrong))

    def _memory(self, check: bool = False) -> Call:
        options = {"allow": self._given["campaign_allow"]}
        return Call("mlnode.tuning.memory_bandwidth", options, _PATIENCE, {"check_mode": check})

    def _announced(self, change: float) -> str:
        given, phases = self._given, len(self._sequence)
        blocks, batches = given["effect_blocks"], self._fleet.batches
        lead = given["campaign_lead"]
        of_rounds = self._plan["rounds"] * self._plan["round_seconds"]
        # Ansible reaches all nodes once more to collect.
        tcp = of_rounds + (_BATCH * (1 + batches) if lead is None else lead) + _BATCH * batches
        of_kinds = {"tcp": tcp, "memory": _MEMORY}
        phase = given["effect_settle"] + sum(of_kinds[kind] for kind in self._kinds)
        # From the state that was found, and back to it
        changes = 2 + sum(state != following for state, following in zip(self._sequence, self._sequence[1:]))
        most = math.ceil((phases * phase + changes * change) / 60)
        soonest = math.ceil(most * _LEAST / blocks)
        early = (" at most", f", and {soonest} if {_LEAST} blocks decide") if blocks > _LEAST else ("", "")
        few = f" An interval takes {_LEAST} blocks: this run will have none." if blocks < _LEAST else ""
        return (
            f"Effect {self._id}: {len(self._fleet.names)} nodes alternate between {self._of['A']} and "
            f"declared, in {blocks} {'block' if blocks == 1 else 'blocks'} of 4 phases{early[0]}. A phase "
            f"takes about {phase:.0f} s, a change of all nodes about {change:.0f} s. That is up to {most} "
            f"minutes{early[1]}. The links carry as much as they can for "
            f"{math.ceil(phases * of_rounds / 60)} of them.{few} At the end every node is put back to its "
            "state before the run. If the controller dies, play this again with -e effect_put_back=true."
        )

    def rehearse(self) -> None:
        """The plan has asked all nodes."""

    # -- phases ----------------------------------------------------------------------------------------

    def measure(self) -> None:
        if not self._given["effect_put_back"]:
            self._states.note()
        try:
            if not self._given["effect_put_back"]:
                self._all_phases()
        finally:
            self._left = self._states.put_back()

    def _all_phases(self) -> None:
        for place, letter in enumerate(self._sequence):
            say(f"phase {place + 1} of {len(self._sequence)}: {self._of[letter]}")
            try:
                self._phase(place, letter)
            except MeasureError as error:
                self._stopped = f"phase {place + 1} of {len(self._sequence)} ({letter}) was lost; {error}"
                return
            measured = place + 1
            whole = measured % interval.BLOCK == 0 and measured >= _LEAST * interval.BLOCK
            if whole and measured < len(self._sequence) and report.is_decided(self._document()):
                return

    def _phase(self, place: int, letter: str) -> None:
        """Reach its state, and measure. Raises MeasureError if a node or a pair has no result."""
        changed = self._states.reach(self._of[letter])
        same = [name for name in self._fleet.names if name not in changed]
        # The second phase is the first B after an A.
        if place == 1 and same:
            raise MeasureError(
                f"{', '.join(same)}: nothing is declared that differs between {self._of['A']} and declared."
            )
        self._fleet.sleep(time.time() + self._given["effect_settle"])
        name = f"{self._id}-{place + 1}"
        answers, lost = self._measured(letter, name)
        if lost.pairs and not lost.nodes:
            self._repeated.append(place + 1)
            answers, lost = self._measured(letter, f"{name}-again")
        self._phases.append(answers)
        if lost.nodes or lost.pairs:
            raise MeasureError("; ".join(report.loss(lost)))

    def _measured(self, letter: str, name: str) -> tuple[dict[str, Any], report.Lost]:
        answers: dict[str, Any] = {"state": letter}
        if "tcp" in self._kinds:
            answers["tcp"] = rounds.run(self._fleet, self._given, self._plan, name)._asdict()
        if "memory" in self._kinds:
            answers["memory"] = self._fleet.ask(dict.fromkeys(self._fleet.names, self._memory()))
        return answers, report.lost(answers, self._plan)

    # -- after -----------------------------------------------------------------------------------------

    def report(self) -> Report | None:
        back = (
            f"Not put back: {', '.join(self._left)}; play this with -e effect_put_back=true when they can be "
            "reached."
            if self._left
            else "All nodes are put back to their state before the run."
        )
        if not self._phases:
            if self._stopped or self._left:
                raise MeasureError(f"{self._stopped + '. ' if self._stopped else ''}{back}")
            say(back)
            return None
        document = self._document()
        success = report.is_success(document) and not self._stopped and not self._left
        why = self._stopped or "There is no interval, or pairs have no result"
        lines = report.lines(document)
        return Report(json.dumps(document, indent=1), lines, success, () if success else (f"{why}. {back}",))

    def _document(self) -> dict[str, Any]:
        return report.document(self._phases, self._plan, {
            "id": self._id,
            "ended": dt.datetime.now(dt.timezone.utc).isoformat(),
            "before": self._given["effect_before"] or REVERTED,
            "nodes": self._fleet.names,
            "duration_seconds": self._given["campaign_duration"],
            "blocks_planned": self._given["effect_blocks"],
            "least_percent": self._given["effect_least"],
            "repeated": self._repeated,
            "stopped": self._stopped,
        })  # fmt: skip
