# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Model of a campaign: level of each class, noise of each end, and the suspects that explain low readings.

A reading is the level of its class, less the greatest loss on its way, plus noise. Levels and noise come from
the unexplained part of the readings, and the suspects from levels and noise. The model alternates between
both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from . import levels, noise, rivals, suspects
from .noise import BOUND
from .numbers import NORMAL, Measured, median, quantile, student
from .rivals import Rival
from .suspects import FALSE, LEAF, LINK, NODE, SENDS, VARIES, Named, Sides, State

#: Levels and noise are settled after so many turns.
_TURNS = 2

#: Part of the margin of a kind from which a loss is named: measurements scatter around the margin, and
#: smaller losses are differences between good nodes.
_LEAST = 0.8

#: A loss is at most so many standard errors above its estimate: of 30,000 healthy ends one is beyond.
SURELY = 4.0
#: A loss of this many standard errors more than the least that is named is seen with 95 %.
POWER = 1.645


class Side(NamedTuple):
    """One direction of an end. loss: estimate, in logarithms. error: its standard error. counts: readings
    that tell it, with nothing worse on their way. Without any, both are infinite."""

    loss: float
    error: float
    counts: int


class Path(NamedTuple):
    """One pair that is low by itself, in its worse direction. loss: mean of all looks. looks: how often it
    was measured. lows: how often it was low: one measurement of a hundred is disturbed."""

    pair: int
    loss: float
    looks: int
    lows: int


class Fit(NamedTuple):
    """level: by class. low: by reading, distance below its level. loss: by reading, the part that findings
    explain. variance: by reading. sides: by end, sending and receiving. least: standard errors needed to name
    an end; path_error: to name a path. smallest: least loss that is named. rivals: by element of `named`,
    itself first."""

    level: list[float]
    low: list[float]
    loss: list[float]
    variance: list[float]
    named: list[Named]
    rivals: list[list[Rival]]
    paths: list[Path]
    sides: list[tuple[Side, Side]]
    least: float
    path_error: float
    smallest: float

    def bound(self, end: int) -> float:
        """Loss that an end has at most, and that would have been seen with 95 %; infinite if it is
        not known."""
        return max(self._bound(side) for side in self.sides[end])

    def _bound(self, side: Side) -> float:
        if not side.counts:
            return math.inf
        return max(
            self.smallest + POWER * side.error,
            (self.least + POWER) * side.error,
            max(0.0, side.loss) + SURELY * side.error,
        )


def fit(measured: Measured, leaf: Sequence[int], floor: Sequence[float], margin: float) -> Fit:
    """leaf: of each end the number of its leaf, -1 if it is not known. floor: of each reading the logarithm
    of the least that hardware promises, minus infinity for none. margin: least loss of a single path."""
    by_end = suspects.sides(measured)
    everyone = suspects.of_ends(by_end) + suspects.of_leaves(measured, leaf)
    sizes = {sort: sum(suspect.sort == sort for suspect in everyone) // 3 for sort in (NODE, LEAF, LINK)}
    freedom = noise.PRIOR + 2.0 * len(measured.rate) / max(1, measured.ends)
    least = suspects.needed(sizes, freedom)
    level, between_good = levels.start(measured)
    own, fall = [noise.of_fleet(between_good) / 2] * measured.ends, 0.0
    state, variance = _state(measured, level, floor, own, fall, margin)
    named = suspects.search(state, measured, everyone, least)
    for _turn in range(_TURNS):
        level = _levels(measured, level, state)
        rest = _rest(measured, level, floor, state)
        own = noise.of_ends(measured, rest)
        fall = noise.fall([residual for residual, loss in zip(rest, state.loss) if not loss])
        state, variance = _state(measured, level, floor, own, fall, margin)
        named = suspects.search(state, measured, everyone, least)
    others = rivals.rivals(state, measured, everyone, named)
    _explain_spare(state, by_end, named)
    paths, error = _paths(measured, state, margin)
    bad = {path.pair: path.loss for path in paths if path.lows == path.looks}
    for number, pair in enumerate(measured.pair):
        if pair in bad:
            state.explain([number], bad[pair])
    sides = _sides(measured, by_end, state, named)
    standard = math.sqrt(2 * least[NODE, SENDS])
    return Fit(
        level,
        [*state.low],
        state.loss,
        variance,
        named,
        others,
        paths,
        sides,
        standard,
        error,
        _LEAST * margin,
    )


def _state(
    measured: Measured,
    level: Sequence[float],
    floor: Sequence[float],
    own: Sequence[float],
    fall: float,
    margin: float,
) -> tuple[State, list[float]]:
    """Nothing explained, and the variance of each reading."""
    columns = zip(measured.sender, measured.receiver, measured.looks)
    variance = [(own[sender] + own[receiver]) / len(looks) for sender, receiver, looks in columns]
    low = [max(level[like], least) - rate for like, rate, least in zip(measured.like, measured.rate, floor)]
    if fall:
        usual = math.sqrt(median(variance))
        low = [shortfall - fall * max(0.0, math.sqrt(size) - usual) for shortfall, size in zip(low, variance)]
    return State(low, [1 / size for size in variance], _LEAST * margin), variance


def _rest(measured: Measured, level: Sequence[float], floor: Sequence[float], state: State) -> list[float]:
    """How far the first look of each reading is under its prediction."""
    columns = zip(measured.like, measured.looks, floor, state.loss)
    return [max(level[like], least) - looks[0] - loss for like, looks, least, loss in columns]


def _explain_spare(state: State, by_end: Sides, named: Sequence[Named]) -> None:
    """Readings in which a named end has something to spare are low by the rest of its loss."""
    for culprit in named if by_end.spare else ():
        for number, spare in (
            by_end.spare.get(culprit.suspect.where[0], ()) if culprit.suspect.sort == NODE else ()
        ):
            state.explain([number], culprit.loss - spare)


def _levels(measured: Measured, before: Sequence[float], state: State) -> list[float]:
    """Median of the readings that no suspect explains, for each class. Readings far below are left out, as
    they may be half of a few."""
    free = [
        (measured.like[number], looks[0])
        for number, looks in enumerate(measured.looks)
        if not state.loss[number] and not _is_far_below(state, number)
    ]
    return levels.level_of(measured, free, before)


def _is_far_below(state: State, number: int) -> bool:
    low = state.low[number]
    return low > 0 and low * low * state.precision[number] > BOUND


def _level_error(measured: Measured, state: State) -> list[float]:
    """Variance of the level of each class, which is a median."""
    weights = [0.0] * measured.classes
    for like, loss, precision in zip(measured.like, state.loss, state.precision):
        if not loss:
            weights[like] += precision
    return [math.pi / 2 / weight if weight else 0.0 for weight in weights]


# -- readings of an end -----------------------------------------------------------------------------


def _sides(
    measured: Measured, by_end: Sides, state: State, named: Sequence[Named]
) -> list[tuple[Side, Side]]:
    errors = _level_error(measured, state)
    own = {culprit.suspect.where[0] for culprit in named if culprit.suspect.sort == NODE}
    return [
        (
            _side(measured, state, sends, end in own, errors),
            _side(measured, state, takes, end in own, errors),
        )
        for end, (sends, takes) in enumerate(zip(by_end.sends, by_end.takes))
    ]


def _side(
    measured: Measured, state: State, readings: Sequence[int], is_named: bool, errors: Sequence[float]
) -> Side:
    low, loss, precision = state.low, state.loss, state.precision
    chosen = readings if is_named else [number for number in readings if loss[number] < state.least]
    if not chosen:
        return Side(math.inf, math.inf, 0)
    centre = quantile(sorted([low[number] for number in chosen]), 0.5)
    total = weights = 0.0
    for number in chosen:
        weight = precision[number]
        away = low[number] - centre
        size = away * away * weight
        if size > BOUND:
            away *= math.sqrt(BOUND / size)
        total += weight * away
        weights += weight
    error = max(errors[measured.like[number]] for number in chosen)
    return Side(centre + total / weights, math.sqrt(1 / weights + error), len(chosen))


# -- single paths -----------------------------------------------------------------------------------


def _paths(measured: Measured, state: State, margin: float) -> tuple[list[Path], float]:
    """Pairs that are lower than ends and leaves explain, and the standard errors needed to name a path."""
    least = student(
        NORMAL.inv_cdf(1 - FALSE / max(1, len(measured.rate))),
        noise.PRIOR + 4.0 * len(measured.rate) / max(1, measured.ends),
    )
    worst: dict[int, Path] = {}
    for number, looks in enumerate(measured.looks):
        rest = state.low[number] - state.loss[number]
        away = [rest + measured.rate[number] - rate for rate in looks]
        if max(away) < margin:
            continue
        # Precision is of the mean of all looks.
        noise_of_look = len(looks) / state.precision[number]
        per_look = 1 / math.sqrt(noise_of_look + (VARIES * state.loss[number]) ** 2)
        if max(away) * per_look < least:
            continue
        lows = sum(shortfall >= margin / 2 and shortfall * per_look >= POWER for shortfall in away)
        path = Path(measured.pair[number], rest, len(looks), lows)
        before = worst.get(path.pair)
        if before is None or (path.lows, path.loss) > (before.lows, before.loss):
            worst[path.pair] = path
    return [*worst.values()], least
