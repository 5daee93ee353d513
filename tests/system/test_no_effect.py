# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Effects of nothing of each kind, on a machine that is kept busy: both states are the same, and each verdict
that is found is false."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect import interval
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect.interval import Effect
from ansible_collections.mlnode.tuning.tests.system import namespaces, noise
from ansible_collections.mlnode.tuning.tests.system.noise import Values

pytestmark = [pytest.mark.system, pytest.mark.long, namespaces.needs_root]

#: Number of runs. If 5 of 100 are false, more than 3 of 20 are with a chance of 1.6 %.
RUNS, FALSE = 20, 3

#: Metric → the effect on it
Effects = Mapping[str, Effect]


def unchanged(phase: Callable[[], Values], number: int) -> Effects:
    """A run as of effect.yml, of all metrics. number: of the run, which draws its order."""
    states = interval.order(6, str(number))
    phases: list[Values] = []
    effects: dict[str, Effect] = {}
    for count in range(1, len(states) + 1):
        phases.append(phase())
        if count % interval.BLOCK == 0 and count >= interval.LEAST * interval.BLOCK:
            effects = {metric: _effect(metric, phases, states[:count]) for metric, _pair in phases[0]}
            if all(effect.is_decided(0.01) for effect in effects.values()):
                break
    return effects


def _effect(metric: str, phases: list[Values], states: str) -> Effect:
    pairs = [pair for name, pair in phases[0] if name == metric]
    series = {pair: [values[metric, pair] for values in phases] for pair in pairs}
    effect = interval.estimate(series, states, 6, len(phases[0]) // len(pairs))
    assert effect
    return effect


def of_pairs(number: int) -> Effects:
    with noise.pairs(noise.Net(str(number))) as phase:
        return unchanged(phase, number)


def of_tcp() -> list[Effects]:
    namespaces.need("iperf3", "iperf3")
    with ThreadPoolExecutor(noise.AT_ONCE) as threads:
        return [*threads.map(of_pairs, range(RUNS))]


KINDS: dict[str, Callable[[], list[Effects]]] = {
    "tcp": of_tcp,
    "memory": lambda: [unchanged(noise.copied, run) for run in range(RUNS)],
    "command": lambda: [unchanged(noise.command, run) for run in range(RUNS)],
}


@pytest.mark.parametrize("kind", KINDS)
def test_of_20_runs_of_nothing_19_give_no_verdict(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    with noise.busy():
        runs = KINDS[kind]()

    false = sum(any(effect.is_certain for effect in effects.values()) for effects in runs)
    with capsys.disabled():
        for metric, effect in runs[0].items():
            print(f"  {metric}: {interval.words(effect, 6, 0.01)}")
        print(f"  {false} of {RUNS} runs with a false verdict")
    assert false <= FALSE
