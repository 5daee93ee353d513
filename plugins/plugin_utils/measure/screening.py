# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which area matters: each phase declares a part of the areas, and the rest is as before the first run.

Areas that are not compared stay as declared in all phases.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...module_utils._mlnode.model import values
from ...module_utils._mlnode.model.errors import printable
from ...module_utils._mlnode.model.schema import hint
from .. import profile
from ..areas import AREAS
from ..effect import screening_design, screening_report
from ..effect.screening_design import Design
from ..fleet_report.names import few
from . import effect
from .effect import Effect
from .nodes import Fleet, MeasureError
from .states import DECLARED, REVERTED, Answers

#: Value of effect_by for all areas
ALL = "area"

#: Areas that a running kernel keeps: it reads its command line at boot, and a loaded module stays loaded
_AT_BOOT = ("boot", "modules")

#: Reason for an area to be left out
NEEDS_BOOT = "needs a boot"

#: Statuses of settings that are not compared, the first one the most urgent to know
_LACKS = ("unknown", "refused", "managed", "unsupported")
#: Statuses of declared settings that are not in force
_NOT_IN_FORCE = ("drifted", "pending_reboot", "refused", "unknown")

#: Options of an effect that a fixed number of phases has no use for
_OTHERS = ("effect_before", "effect_blocks", "effect_precision", "effect_budget")

#: Node, number of its declaration, area and key of a setting
_Key = tuple[str, int, str, str]
_Rows = dict[_Key, Mapping[str, Any]]


class Screening(Effect):
    """See Kind."""

    _form: Any = screening_report
    _looks = False

    def __init__(self, fleet: Fleet, given: Mapping[str, Any], name: str) -> None:
        super().__init__(fleet, given, name)
        self._design = Design((), (), folded=False)
        #: Area or setting → why it is not compared; with nodes, why not on these
        self._left_out: dict[str, str] = {}
        #: Area or setting → its settings that nodes can have
        self._settings: dict[str, set[_Key]] = {}
        #: Areas and settings that were seen to be without effect in a phase that does not declare them
        self._off: set[str] = set()

    # -- before ----------------------------------------------------------------------------------------

    def _validate(self) -> None:
        super()._validate()
        given = [name for name in _OTHERS if self._given[name]]
        if given:
            raise MeasureError(f"{', '.join(given)}: expected none with effect_by; set effect_phases instead")

    def _detect(self) -> float:
        seconds = super()._detect()
        names = compared(self._given["effect_by"], self._states.rendered())
        self._compare(names)
        used = [name for name in names if name not in self._left_out]
        if len(used) < 2:
            out = "; ".join(f"{name} {why}" for name, why in self._left_out.items())
            raise MeasureError(
                f"effect_by: expected 2 or more areas that can be compared, got {', '.join(used) or 'none'}"
                f"{f' ({out})' if out else ''}; declare one alone, and measure it without effect_by"
            )
        try:
            self._design = screening_design.design(
                used, self._given["effect_phases"], self._given["campaign_seed"]
            )
        except ValueError as error:
            raise MeasureError(f"effect_{error}") from error
        self._sequence = [self._add(phase) for phase in range(len(self._design.levels))]
        return seconds

    def _compare(self, names: Sequence[str]) -> None:
        """Find the settings of each name, and the names that cannot be compared. Raises MeasureError."""
        whole = self._states.previewed(DECLARED)
        rows, waiting = _rows(whole), _waiting(whole)
        declared_by: dict[_Key, str] = {}
        for name in names:
            state = f"declared without {name}"
            self._states.add(state, {node: [name] for node in self._fleet.names})
            try:
                others = self._states.previewed(state)
            except MeasureError as error:
                raise MeasureError(f"without {name}: {error}") from error
            own = {key: row for key, row in rows.items() if key not in _rows(others)}
            for key in own:
                if declared_by.setdefault(key, name) != name:
                    raise MeasureError(
                        f"effect_by: {name} and {declared_by[key]} are both of {key[3]}; name one of them"
                    )
            self._settings[name] = {
                key for key, row in own.items() if _differs(row, self._states.original[key[0]])
            }
            if waiting - _waiting(others) or any(area in _AT_BOOT for _node, _part, area, _key in own):
                self._left_out[name] = NEEDS_BOOT
            elif not self._settings[name]:
                self._left_out[name] = _why([*own.values()])
            elif lacking := {*self._fleet.names} - {key[0] for key in self._settings[name]}:
                # The effect on these nodes is none, and makes the mean of all nodes smaller.
                nodes = [node for node in self._fleet.names if node in lacking]
                self._left_out[f"{name} on {few(nodes)}"] = _why(
                    [row for key, row in own.items() if key[0] in lacking]
                )

    def _add(self, phase: int) -> str:
        """Name of a phase's state."""
        applied = self._design.applied(phase)
        off = [area for area in self._design.areas if area not in applied]
        boots = [name for name, why in self._left_out.items() if why == NEEDS_BOOT]
        state = ", ".join(applied) or "none of them"
        self._states.add(
            state,
            {
                # Areas that need a boot are as they were found.
                name: [*off, *(boots if self._states.original[name] == REVERTED else ())]
                for name in self._fleet.names
            },
        )
        return state

    def _announced(self, change: float) -> str:
        nodes, phases = effect.counted(len(self._fleet.names), "node"), len(self._sequence)
        minutes = math.ceil((phases * (self._phase_seconds + change) + change) / 60)
        return "\n".join([
            f"Effect {self._id} compares {', '.join(self._design.areas)} on {nodes}.",
            *screening_report.plan_lines(self._design.words, self._left_out),
            *(f"phase {place}: {state}" for place, state in enumerate(self._sequence, 1)),
            f"{self._times(change)} That is up to {minutes} minutes.{self._load} {self._after}",
        ])  # fmt: skip

    # -- phases ----------------------------------------------------------------------------------------

    def _reach(self, place: int, letter: str) -> None:
        answers = self._states.reached(letter)
        rows = _rows(answers)
        applied = self._design.applied(place)
        declared = [key for area in applied for key in sorted(self._settings[area]) if key[0] in answers]
        wrong = [
            f"{key[0]}: {key[3]} is {rows[key]['status']}: {rows[key]['reason']}"
            if key in rows
            else f"{key[0]}: {key[3]} is missing in the answer of the node"
            for key in declared
            if key not in rows or rows[key]["status"] in _NOT_IN_FORCE
        ]
        off = {*self._design.areas} - {*applied} - self._off
        wrong += self._still_on(sorted(off)) if off and not wrong else []
        if wrong:
            raise MeasureError("; ".join(wrong))
        self._off |= off

    def _still_on(self, areas: Sequence[str]) -> Iterator[str]:
        """Areas that this phase does not declare, and that are in force on a node. Raises MeasureError."""
        rows = _rows(self._states.previewed(DECLARED))
        for area in areas:
            of_nodes: dict[str, set[str]] = {}
            for key in self._settings[area]:
                of_nodes.setdefault(key[0], set()).add(rows[key]["status"] if key in rows else "missing")
            for name in [name for name, statuses in of_nodes.items() if statuses == {"ok"}]:
                yield f"{name}: {area} keeps its values without its declaration, and cannot be compared"

    def _document(self, end: str = "") -> dict[str, Any]:
        del end  # all phases are measured
        left_out = [{"area": area, "reason": why} for area, why in self._left_out.items()]
        return screening_report.document(
            self._phases,
            self._plan,
            self._design,
            {**self._about, "seed": self._given["campaign_seed"], "left_out": left_out},
        )


def compared(given: Sequence[str], declared: Sequence[Mapping[str, Any]]) -> list[str]:
    """Areas and settings of the option effect_by. declared: the areas of all declarations. Raises
    MeasureError."""
    known = [area for area in AREAS if any(area in areas for areas in declared)]
    if given == [ALL]:
        return known
    if ALL in given:
        raise MeasureError(f"effect_by: {ALL} stands for all declared areas; name it alone")
    for name in given:
        area = name.partition(".")[0]
        if area not in AREAS:
            raise MeasureError(
                f"effect_by: expected {ALL}, or areas and settings such as sysctl.vm.swappiness, got "
                f"{printable(name)}; {hint(area, AREAS)}"
            )
        if not any(profile.declares(areas, name) for areas in declared):
            raise MeasureError(
                f"effect_by: {printable(name)}: no node declares it; declared areas are "
                f"{', '.join(known) or 'none'}"
            )
        within = [other for other in given if name != other and name.startswith(f"{other}.")]
        if within:
            raise MeasureError(f"effect_by: {name} is part of {within[0]}; name one of them")
    return list(dict.fromkeys(given))


def _parts(answers: Answers) -> Iterator[tuple[str, int, str, Mapping[str, Any]]]:
    """Node, number of its declaration, area, and the answer about it."""
    for name, answer in answers.items():
        for number, part in enumerate(answer["parts"]):
            for area, about in part.get("areas", {}).items():
                yield name, number, area, about


def _rows(answers: Answers) -> _Rows:
    return {
        (name, number, area, str(row["key"])): row
        for name, number, area, about in _parts(answers)
        for row in about["settings"]
    }


def _waiting(answers: Answers) -> set[tuple[str, int, str]]:
    """Areas that wait for a boot."""
    return {(name, number, area) for name, number, area, about in _parts(answers) if about["reboot_required"]}


def _why(rows: Sequence[Mapping[str, Any]]) -> str:
    """Reason for an area to be left out, none of whose settings differs."""
    if not rows:
        return "has no settings on these nodes"
    lacking = [row for row in rows if row["status"] in _LACKS]
    if not lacking:
        return "changes nothing on these nodes"
    row = min(lacking, key=lambda row: _LACKS.index(row["status"]))
    return f"is {row['status']} on these nodes ({row['key']}: {row['reason']})"


def _differs(row: Mapping[str, Any], original: str) -> bool:
    """False if the node cannot have the setting, or has had its value before the first run. original:
    the state before this run."""
    if row["status"] != "ok":
        return row["status"] not in _LACKS
    if row["origin"] is None or row["runtime"] is None:
        # It is in force, and its earlier value is unknown.
        return original == DECLARED
    return not values.same(row["origin"], row["runtime"])
