# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of effect.yml in the noise of a real machine, on which A and B are the same.

noise.json was recorded by tests/system/noise.py on a virtual machine with two cores, beside processes that
keep both busy and pause every few seconds. A run begins in each of its phases.
"""

from __future__ import annotations

import functools
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect import interval
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect.interval import Effect
from ansible_collections.mlnode.tuning.tests.simulation.test_effect import LEAST, is_false

pytestmark = pytest.mark.robustness

#: Metric → pair → values of the phases
Recording = Mapping[str, Mapping[str, Sequence[float]]]

#: Kind → its recordings, of phases that follow each other
NOISE: Mapping[str, Sequence[Recording]] = json.loads(
    pathlib.Path(__file__).with_name("noise.json").read_text(encoding="utf-8")
)

#: The default of effect.yml, and with effect_precision
BLOCKS, NARROW_BLOCKS = 6, 24


def run(recording: Recording, begin: int) -> list[Effect]:
    """Effects on all metrics at the end of a run."""
    effects: list[Effect] = []
    for blocks in range(interval.LEAST, BLOCKS + 1):
        phases = slice(begin, begin + interval.BLOCK * blocks)
        states = interval.order(blocks, str(begin))
        looks = (
            interval.estimate(
                {name: row[phases] for name, row in pairs.items()}, states, BLOCKS, len(recording)
            )
            for pairs in recording.values()
        )
        effects = [effect for effect in looks if effect]
        assert len(effects) == len(recording)
        if all(effect.is_decided(LEAST) for effect in effects):
            break
    return effects


def phases_of(recording: Recording) -> int:
    return min(len(row) for pairs in recording.values() for row in pairs.values())


def begins(recording: Recording) -> Iterator[int]:
    yield from range(phases_of(recording) - interval.BLOCK * BLOCKS + 1)


@functools.lru_cache(maxsize=None)
def runs(kind: str) -> list[list[Effect]]:
    return [run(recording, begin) for recording in NOISE[kind] for begin in begins(recording)]


@pytest.mark.parametrize("kind", NOISE)
def test_of_100_runs_95_give_no_verdict(kind: str) -> None:
    assert sum(any(map(is_false, effects)) for effects in runs(kind)) <= 0.05 * len(runs(kind))


#: Kind → effect_precision that this machine allows within the blocks of effect.yml. A pause of the machine
#: makes the p99 of a sort of milliseconds vary by factors: it stays `not decided`.
PRECISIONS = {"tcp": 0.1, "memory": 0.5, "command": 0.5}
_NEVER = "sort p99"


def precise(recording: Recording, begin: int, precision: float) -> list[str]:
    """Verdicts at the end of a run with effect_precision."""
    named = [pairs for metric, pairs in recording.items() if metric != _NEVER]
    effects: list[Effect | None] = []
    for blocks in range(interval.NARROW, NARROW_BLOCKS + 1):
        phases, states = slice(begin, begin + interval.BLOCK * blocks), interval.order(blocks, str(begin))
        effects = [
            interval.estimate(
                {name: row[phases] for name, row in pairs.items()}, states, blocks, len(recording)
            )
            for pairs in named
        ]
        if all(effect and effect.is_narrow(precision) for effect in effects):
            break
    return [interval.verdict(effect, LEAST, interval.HIGHER, precision) for effect in effects]


@pytest.mark.parametrize("kind", NOISE)
def test_of_100_runs_with_a_precision_95_say_no_difference(kind: str) -> None:
    verdicts = [
        precise(recording, begin, PRECISIONS[kind])
        for recording in NOISE[kind]
        for begin in range(0, phases_of(recording) - interval.BLOCK * NARROW_BLOCKS + 1, 7)
    ]

    assert len(verdicts) >= 60
    assert sum({*row} == {interval.NO_DIFFERENCE} for row in verdicts) >= 0.95 * len(verdicts)


@pytest.mark.parametrize("kind", NOISE)
def test_the_machine_was_busy(kind: str) -> None:
    """Without noise there would be no verdict either."""
    spreads = sorted(effect.spread for effects in runs(kind) for effect in effects)

    assert spreads[len(spreads) // 2] > LEAST
    assert len(runs(kind)) > 200


def test_looks_at_the_usual_interval_after_each_block_would_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interval, "_outside", lambda _blocks, _most: 0.05)
    recordings = NOISE["tcp"]
    ended = [run(recording, begin) for recording in recordings for begin in begins(recording)]

    assert sum(any(map(is_false, effects)) for effects in ended) > 0.05 * len(ended)
