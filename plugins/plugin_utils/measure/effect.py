# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds tcp, memory and command, before and after a change: nodes alternate between two states.

Four phases are a block, A B B A or B A A B. All nodes share the disturbances of a phase, and the block is the
unit of the interval, which takes three of them.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..effect import interval, readings, report
from ..effect.readings import Lost
from ..fleet_report.names import few
from . import rounds
from .command import Command
from .nodes import Call, Fleet, MeasureError, say
from .run import Report
from .states import BEFORE, CHANGE, DECLARED, REVERTED, States

#: Blocks from which on there is an interval
_LEAST = 3

#: Blocks at most: the default, and with a precision or a budget, which end a run before
_BLOCKS, _MANY_BLOCKS = 6, 24

#: Seconds of one measurement of the memory, for the announcement
_MEMORY = 5

#: Seconds in which Ansible reaches as many nodes as it calls at a time, for the announcement
_BATCH = 5

#: For a node to measure the memory of each NUMA node, in seconds: a hundred times as long as one takes
_PATIENCE = 600


class Effect:
    """See Kind."""

    #: The document and its lines
    _form: Any = report
    #: Whether the end of a block may be the end of all
    _looks = True

    def __init__(self, fleet: Fleet, given: Mapping[str, Any], name: str) -> None:
        self._fleet, self._given = fleet, given
        self._id = name
        self.name = f"effect-{name}"
        self.folder = given["campaign_results"]
        self._kinds = given["effect_kinds"]
        self._command: Command | None = None
        self._states = States(fleet, self.folder, name, given["effect_before"] or "")
        self._of = {"A": BEFORE if given["effect_before"] else REVERTED, "B": DECLARED}
        ends = given["effect_precision"] is not None or given["effect_budget"]
        blocks = given["effect_blocks"]
        self._blocks: int = (_MANY_BLOCKS if ends else _BLOCKS) if blocks is None else blocks
        self._sequence: Sequence[str] = interval.order(max(0, self._blocks), name)
        self._plan: dict[str, Any] = {"rounds": 0, "slots": {}, "nodes": {}, "round_seconds": 0}
        self._phases: list[dict[str, Any]] = []
        self._repeated: list[int] = []
        self._stopped = ""
        self._end = "blocks"
        self._begin = time.monotonic()
        self._left: list[str] = []

    # -- before ----------------------------------------------------------------------------------------

    def plan(self) -> str:
        given = self._given
        self._validate()
        left = self._states.unfinished()
        unfinished = [
            f"{name}: an effect that did not end may have left this node in another state than it was found "
            f"in, which was {self._states.original[name]}. It is put back to that at the end."
            for name in left
        ]
        if given["effect_put_back"]:
            self._states.lease = CHANGE
            return "\n".join(unfinished) or "No run has left a node to put back."
        if "tcp" in self._kinds:
            self._plan = rounds.plan(self._fleet, given, "tcp", max(1, given["effect_rounds"]))
        if "command" in self._kinds:
            self._command = Command(self._fleet, given)
        self._verify()
        change = self._detect()
        self._states.lease = self._lease(change)
        return "\n".join([*unfinished, self._announced(change)])

    def _detect(self) -> float:
        """Find the states of the nodes. Seconds of a change. Raises MeasureError."""
        began = time.monotonic()
        self._states.detect()
        # Two states were looked for, which takes as long as reaching them; none after an unfinished run.
        return max(1.0, (time.monotonic() - began) / 2)

    def _lease(self, change: float) -> int:
        """Seconds. A node renews its lease as it changes, and its state may be the same in several phases.
        change: seconds of a change of all nodes. Raises MeasureError."""
        same = max((len([*phases]) for _state, phases in itertools.groupby(self._sequence)), default=1)
        least = math.ceil(same * max(0.0, self._phase_seconds) + change)
        given = self._given["effect_lease"]
        if given is not None and given < least:
            raise MeasureError(
                f"effect_lease: expected {least} s or more, for {counted(same, 'phase')} and the change "
                f"before them, got {given}; omit it, or make the phases shorter"
            )
        return least + CHANGE if given is None else int(given)

    def _validate(self) -> None:
        """Raises MeasureError."""
        given, precision = self._given, self._given["effect_precision"]
        wrong = {
            "effect_kinds: expected one or more of tcp, memory and command": not self._kinds,
            f"effect_blocks: expected 1 or more, got {self._blocks}": self._blocks < 1,
            f"effect_least: expected a percentage above 0, got {given['effect_least']:g}": (
                not 0 < given["effect_least"] < math.inf
            ),
            f"effect_precision: expected a percentage above 0, got {precision}": (
                precision is not None and not 0 < precision < math.inf
            ),
            f"effect_budget: expected 0 or more minutes, got {given['effect_budget']}": (
                not 0 <= given["effect_budget"] < math.inf
            ),
        }
        reasons = [reason for reason, is_wrong in wrong.items() if is_wrong]
        if reasons:
            raise MeasureError("; ".join(reasons))

    def _verify(self) -> None:
        """Raises MeasureError unless all nodes may be measured."""
        answers: list[dict[str, dict[str, Any]]] = []
        if "tcp" in self._kinds:
            answers.append(rounds.prepare(self._fleet, self._given, self._plan, self._id, check=True))
        if "memory" in self._kinds:
            answers.append(self._fleet.ask(dict.fromkeys(self._fleet.names, self._memory(check=True))))
        if self._command:
            answers.append(self._command.verify())
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

    @property
    def _of_rounds(self) -> float:
        return float(self._plan["rounds"] * self._plan["round_seconds"])

    @property
    def _phase_seconds(self) -> float:
        batches, lead = self._fleet.batches, self._given["campaign_lead"]
        # Ansible reaches all nodes once more to collect.
        tcp = self._of_rounds + (_BATCH * (1 + batches) if lead is None else lead) + _BATCH * batches
        command = self._command.seconds * batches if self._command else 0
        of_kinds = {"tcp": tcp, "memory": _MEMORY, "command": command}
        return float(self._given["effect_settle"] + sum(of_kinds[kind] for kind in self._kinds))

    def _announced(self, change: float) -> str:
        given, phases, blocks = self._given, len(self._sequence), self._blocks
        phase = self._phase_seconds
        # From the state that was found, and back to it
        changes = 2 + sum(state != following for state, following in zip(self._sequence, self._sequence[1:]))
        most = math.ceil((phases * phase + changes * change) / 60)
        soonest = math.ceil(most * _LEAST / blocks)
        early = (" at most", f", and {soonest} if {_LEAST} blocks decide") if blocks > _LEAST else ("", "")
        few = f" An interval takes {_LEAST} blocks: this run will have none." if blocks < _LEAST else ""
        budget = given["effect_budget"]
        ends = f", and no block begins that would end after {budget} minutes" if budget else ""
        return (
            f"Effect {self._id}: {counted(len(self._fleet.names), 'node')} "
            f"{'alternates' if len(self._fleet.names) == 1 else 'alternate'} between "
            f"{self._of['A']} and declared, in {counted(blocks, 'block')} of 4 phases{early[0]}. "
            f"{self._times(change)} That is up to {most} minutes{early[1]}{ends}.{self._load}{few} "
            f"{self._after}"
        )

    @property
    def _after(self) -> str:
        return (
            "At the end every node is put back to its state before the run. If the controller dies, each "
            f"node does this {self._states.lease} s after its last change, or at its next boot; "
            "-e effect_put_back=true does it at once."
        )

    def _times(self, change: float) -> str:
        about = "up to" if self._command else "about"
        return (
            f"A phase takes {about} {self._phase_seconds:.0f} s, a change of all nodes about {change:.0f} s."
        )

    @property
    def _load(self) -> str:
        minutes = math.ceil(len(self._sequence) * self._of_rounds / 60)
        return f" The links carry as much as they can for {minutes} of them." if minutes else ""

    def rehearse(self) -> None:
        """The plan has asked all nodes."""

    # -- phases ----------------------------------------------------------------------------------------

    def measure(self) -> None:
        if not self._given["effect_put_back"]:
            self._states.note()
        try:
            if not self._given["effect_put_back"]:
                self._all_phases()
                self._verify_last()
        finally:
            self._left = self._states.put_back()

    def _all_phases(self) -> None:
        begin, longest = time.monotonic(), 0.0
        for place, letter in enumerate(self._sequence):
            say(f"phase {place + 1} of {len(self._sequence)}: {self._of.get(letter, letter)}")
            try:
                self._phase(place, letter)
            except MeasureError as error:
                self._stopped = f"phase {place + 1} of {len(self._sequence)} ({letter}) was lost; {error}"
                return
            measured = place + 1
            if self._looks and measured % interval.BLOCK == 0 and measured < len(self._sequence):
                longest = max(longest, time.monotonic() - begin)
                begin = time.monotonic()
                self._end = self._ended(measured // interval.BLOCK, longest)
                if self._end != "blocks":
                    return

    def _verify_last(self) -> None:
        """Each change verifies that the state before it lasted; after the last phase, none does."""
        try:
            if not self._stopped:
                self._states.hold()
        except MeasureError as error:
            self._stopped = f"phase {len(self._phases)} of {len(self._sequence)} was lost; {error}"

    def _ended(self, blocks: int, seconds: float) -> str:
        """Why no more blocks are measured; "blocks" if they are. seconds: of a block."""
        given = self._given
        if blocks >= _LEAST:
            harms = given["effect_fail_on"] == "harms"
            end = report.ended(self._document, given["effect_precision"], harms)
            if end:
                return end
        is_late = time.monotonic() + seconds > self._begin + 60 * given["effect_budget"]
        return "budget" if given["effect_budget"] and is_late else "blocks"

    def _reach(self, place: int, letter: str) -> None:
        """Raises MeasureError."""
        changed = self._states.reach(self._of[letter])
        same = [name for name in self._fleet.names if name not in changed]
        # The second phase is the first B after an A.
        if place == 1 and same:
            raise MeasureError(
                f"{', '.join(same)}: nothing is declared that differs between {self._of['A']} and declared."
            )

    def _phase(self, place: int, letter: str) -> None:
        """Reach its state, and measure. Raises MeasureError if a node or a pair has no result."""
        self._reach(place, letter)
        self._fleet.sleep(time.time() + self._given["effect_settle"])
        name = f"{self._id}-{place + 1}"
        answers, lost = self._measured(letter, name)
        if lost.pairs and not lost.nodes:
            self._repeated.append(place + 1)
            answers, lost = self._measured(letter, f"{name}-again")
        self._phases.append(answers)
        if lost.nodes or lost.pairs:
            raise MeasureError("; ".join(report.loss(lost)))
        late = self._states.late()
        if late:
            raise MeasureError(
                f"{few(late)}: its lease of {self._states.lease} s may have ended before the phase; set a "
                "longer effect_lease"
            )

    def _measured(self, letter: str, name: str) -> tuple[dict[str, Any], Lost]:
        answers: dict[str, Any] = {"state": letter}
        lost = Lost({}, {})
        for measure in (self._tcp_measured, self._memory_measured, self._command_measured):
            # A lost phase takes no more time.
            if not (lost.nodes or lost.pairs):
                answers.update(measure(name))
                lost = readings.lost(answers, self._plan)
        return answers, lost

    def _tcp_measured(self, name: str) -> dict[str, Any]:
        if "tcp" not in self._kinds:
            return {}
        return {"tcp": rounds.run(self._fleet, self._given, self._plan, name)._asdict()}

    def _memory_measured(self, _name: str) -> dict[str, Any]:
        if "memory" not in self._kinds:
            return {}
        calls = dict.fromkeys(self._fleet.names, self._memory())
        return {"memory": self._fleet.ask(calls, together=True)}

    def _command_measured(self, _name: str) -> dict[str, Any]:
        if self._command is None:
            return {}
        commanded = self._command.measure()
        return {"command": commanded.readings, "runs": commanded.runs}

    # -- after -----------------------------------------------------------------------------------------

    def report(self) -> Report | None:
        back = (
            f"Not put back: {', '.join(self._left)}; each puts itself back when its lease of "
            f"{self._states.lease} s ends, or play this with -e effect_put_back=true when it can be reached."
            if self._left
            else "All nodes are put back to their state before the run."
        )
        if not self._phases:
            if self._stopped or self._left:
                raise MeasureError(f"{self._stopped + '. ' if self._stopped else ''}{back}")
            say(back)
            return None
        document = self._document()
        success = self._form.is_success(document) and not self._stopped and not self._left
        harmed = self._form.harmed(document) if self._given["effect_fail_on"] == "harms" else []
        why = [
            *harmed,
            *([] if success else [self._stopped or "There is no interval, or pairs have no result"]),
        ]
        lines = self._form.lines(document)
        return Report(
            json.dumps(document, indent=1), lines, not why, (f"{'. '.join(why)}. {back}",) if why else ()
        )

    def _document(self, end: str = "") -> dict[str, Any]:
        given = self._given
        return report.document(self._phases, self._plan, {
            **self._about,
            "before": given["effect_before"] or REVERTED,
            "blocks_planned": self._blocks,
            "precision_percent": given["effect_precision"],
            "end": "stopped" if self._stopped else end or self._end,
        })  # fmt: skip

    @property
    def _about(self) -> dict[str, Any]:
        """The part of the document that all effects have."""
        return {
            "id": self._id,
            "ended": dt.datetime.now(dt.timezone.utc).isoformat(),
            "nodes": self._fleet.names,
            "duration_seconds": self._given["campaign_duration"],
            "least_percent": self._given["effect_least"],
            "command": self._command and self._command.words,
            "repeated": self._repeated,
            "stopped": self._stopped,
        }


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
