# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One command, measured from outside, and medians of several."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any


class BenchError(Exception):
    """Reason why something cannot be measured, for the user."""


@dataclass(frozen=True)
class Sample:
    """wall, cpu: seconds; cpu is for the command and all the processes that it has waited for. peak: of the
    largest of these processes, in MiB. node_cpu: seconds on all nodes together. received: bytes that arrived
    there."""

    wall: float
    cpu: float
    peak: float
    node_cpu: float = 0.0
    received: float = 0.0

    def document(self) -> dict[str, float]:
        return asdict(self)


def run(command: Sequence[str], environment: Mapping[str, str], fine: Sequence[int] = (0,)) -> Sample:
    """Measure a command. Raises BenchError if it ends with another exit status."""
    start = time.monotonic()
    process = subprocess.Popen(
        [*command], env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _pid, status, used = os.wait4(process.pid, 0)
    wall = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if process.returncode not in fine:
        text = output.decode("utf-8", "replace")[-3000:]
        raise BenchError(f"{' '.join(command)}: exit status {process.returncode}\n{text}")
    return Sample(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def medians(samples: Sequence[Sample]) -> Sample:
    """The median of each figure."""
    return Sample(
        **{one.name: statistics.median(getattr(item, one.name) for item in samples) for one in fields(Sample)}
    )


def interleaved(
    rounds: int, measured: Mapping[str, Callable[[], Sample]], say: Callable[[str], None]
) -> dict[str, list[Sample]]:
    """Samples of all commands, alternating, so all of them can share other load on the machine."""
    samples: dict[str, list[Sample]] = {name: [] for name in measured}
    for number in range(1, rounds + 1):
        for name, measure in measured.items():
            samples[name].append(measure())
        say(
            f"round {number} of {rounds}: "
            + ", ".join(f"{name} {one[-1].wall:.2f} s" for name, one in samples.items())
        )
    return samples


def document(samples: Mapping[str, Sequence[Sample]]) -> dict[str, Any]:
    """Medians for the file of results, and every wall clock time to show their spread."""
    return {
        name: {**medians(some).document(), "walls": [round(one.wall, 4) for one in some]}
        for name, some in samples.items()
    }
