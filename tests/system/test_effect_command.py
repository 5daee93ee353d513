# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Effects of nothing on a real program, on a machine that is kept busy: both states are the same, and each
verdict that is found is false."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect import interval, metrics
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect.interval import Effect
from ansible_collections.mlnode.tuning.tests.system.test_effect import EFFECTS, FALSE, busy
from mlnode.host import timed

pytestmark = [pytest.mark.system, pytest.mark.long]

#: Sorts lists and prints the seconds of each, and a rate that is rounded
JOB = """
import json, random, time
chance, begin, samples = random.Random(7), time.perf_counter(), []
for number in range(100):
    values = [chance.random() for _value in range(500)]
    start = time.perf_counter()
    values.sort()
    samples.append(time.perf_counter() - start)
print(json.dumps({"rate": round(10 / (time.perf_counter() - begin)), "samples": samples}))
"""

SOURCES = metrics.sources([
    {"name": "wall time", "unit": "s", "better": "lower", "measure": "seconds"},
    {"name": "rate", "unit": "1/s", "better": "higher", "json": "rate"},
    {"name": "sort", "unit": "s", "better": "lower", "json": "samples[*]", "take": ["p50", "p99"]},
])  # fmt: skip


def unchanged() -> list[Effect]:
    """A run as of effect.yml, of all metrics."""
    states = interval.order(6)
    series: list[list[float]] = [[] for _source in SOURCES]
    found: list[Effect] = []
    for number in range(1, len(states) + 1):
        ran: dict[str, Any] = {"stdout": "", "rc": 0, "seconds": 0.0}
        done = timed.run([sys.executable, "-S", "-c", JOB], 60, 1 << 20)
        assert done.problem == ""
        ran.update(stdout=done.out, seconds=done.seconds)
        for values, source in zip(series, SOURCES):
            values.append(metrics.value(source, [ran]))
        if number % interval.BLOCK == 0 and number >= interval.LEAST * interval.BLOCK:
            effects = [interval.estimate({"": one}, states[:number], 6, len(SOURCES)) for one in series]
            found = [effect for effect in effects if effect]
            if all(effect.is_decided(0.01) for effect in found):
                break
    assert len(found) == len(SOURCES)
    return found


def test_of_20_runs_of_nothing_19_give_no_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    with busy():
        runs = [unchanged() for _run in range(EFFECTS)]

    verdicts = [
        {interval.verdict(effect, 0.01, source.metric.better) for source, effect in zip(SOURCES, effects)}
        for effects in runs
    ]
    false = sum(bool(found & {interval.HELPS, interval.HARMS}) for found in verdicts)
    with capsys.disabled():
        for source, *effects in zip(SOURCES, *runs):
            print(f"  {source.metric.name}: {interval.words(effects[0], 6, 0.01)}")
        print(f"  {false} of {EFFECTS} runs with a false verdict")
    assert false <= FALSE
