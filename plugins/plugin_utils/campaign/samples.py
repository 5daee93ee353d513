# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the answers of all nodes to one sample for each pair, rail and round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._mlnode.checks.campaign.kind import Kind
from ...module_utils._mlnode.model.errors import printable
from .. import agent_answer
from . import model
from .model import Answer, Node, Reading, Sample

#: Reason for a node without an answer
_SILENT = "no answer was collected"


class Stage(NamedTuple):
    """Part of a campaign. slots: node → its slots, as the node has them. answers: node → the JSON that it
    answered. reasons: node → why it did not, or not to the end."""

    slots: Mapping[str, Sequence[Mapping[str, Any]]]
    answers: Mapping[str, str]
    reasons: Mapping[str, str] = {}


def stage(
    slots: Mapping[str, Sequence[Mapping[str, Any]]],
    started: Mapping[str, Any],
    collected: Mapping[str, Any],
) -> Stage:
    """From the slots of a plan, and the results of the module campaign on all nodes."""
    answers, reasons = {}, {}
    for name in slots:
        begin, end = (agent_answer.of_task("look", results.get(name)) for results in (started, collected))
        if end.get("answer"):
            answers[name] = end["answer"]
        refused = "" if "ends" in begin else begin.get("msg")
        reason = refused or end.get("problem") or end.get("msg")
        if reason:
            reasons[name] = printable(" ".join(str(reason).split()))
    return Stage(slots, answers, reasons)


def collected(
    kind: Kind, stage: Stage, problems: dict[str, str], again: bool
) -> tuple[dict[str, Node], list[Sample]]:
    """Nodes that have answered, and a sample for each slot. problems: gets the reasons of the others."""
    answers: dict[str, Answer] = {}
    for name in stage.slots:
        text = stage.answers.get(name)
        if name in stage.reasons or not text:
            problems[name] = stage.reasons.get(name, _SILENT)
        if not text:
            continue
        try:
            answers[name] = model.answer(kind, agent_answer.document(text))
        except ValueError as error:
            problems[name] = printable(f"its answer is not one: {error}")
    nodes = {name: answer.node for name, answer in answers.items()}
    return nodes, [*_samples(stage, answers, problems, again)]


def _samples(
    stage: Stage, answers: Mapping[str, Answer], problems: Mapping[str, str], again: bool
) -> Iterator[Sample]:
    """One for each slot of each node that measures, with a result or the reason for its absence."""
    for name, slots in stage.slots.items():
        mine = answers[name].readings if name in answers else {}
        for slot in slots:
            if slot["serves"]:
                continue
            peer, number = str(slot["peer"]), int(slot["round"])
            theirs = answers[peer].refusals if peer in answers else {}
            for rail in range(len(slot["rails"])):
                place = (number, rail)
                reading = mine.get(place) or Reading(
                    reason=f"{name}: {problems.get(name) or 'its answer lacks this slot'}"
                )
                doubt = theirs.get(place)
                if doubt:
                    reading = Reading(reason=f"{peer}: {doubt}", evidence=reading.evidence)
                yield Sample(number, ((name, rail), (peer, rail)), reading, again)
