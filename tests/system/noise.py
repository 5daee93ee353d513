# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurements of each kind of effect.yml while nothing changes, on a machine that is kept busy.

`python -m ansible_collections.mlnode.tuning.tests.system.noise FILE SECONDS` records each kind for at most so
long, as root. tests/simulation/test_noise.py has its file.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect import metrics
from ansible_collections.mlnode.tuning.tests.system import namespaces
from ansible_collections.mlnode.tuning.tests.system.namespaces import run
from mlnode.checks import memory
from mlnode.host import timed
from mlnode.host.host import Host

#: Metric and pair → value of one phase
Values = dict[tuple[str, str], float]

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

#: Phases of a recording at most: 60 runs of six blocks
MOST = 1440

#: Bytes of an array: short passes, which a busy machine disturbs more than long ones
ARRAY = 16 << 20

#: Mbit/s of a node, so little that a busy machine with two cores carries it for all of them
RATE = 40

#: Nets that are measured at the same time
AT_ONCE = 4

PORT = "18600"

#: Takes a core for some seconds, and pauses for as long
BURNS = """
import time
while True:
    end = time.time() + {0}
    while time.time() < end:
        pass
    time.sleep({0})
"""


class Net(namespaces.Net):
    """node01 to node04 at 10.9.0.1 to 10.9.0.4."""

    def __init__(self, name: str) -> None:
        super().__init__(f"effect{name}")
        self.nodes = [f"node{number:02}" for number in range(1, 5)]

    def make(self) -> None:
        self.switch(1500, self.nodes)
        for name in self.nodes:
            shape = f"qdisc add dev eth0 root tbf rate {RATE}mbit burst 32k limit 100k"
            run("tc", "-n", self.prefix + name, *shape.split())

    @property
    def addresses(self) -> dict[str, str]:
        return {name: f"10.9.0.{number}" for number, name in enumerate(self.nodes, 1)}

    def measured(self, name: str, peer: str, *way: str) -> float | None:
        """Mbit/s that arrive, or None for the reason that iperf3 has printed."""
        words = ["iperf3", "-J", "-c", self.addresses[peer], "-p", PORT, "-t", "1", *way]
        inside = ["ip", "netns", "exec", self.prefix + name, *words]
        done = subprocess.run(inside, check=False, capture_output=True, text=True, timeout=60)
        with contextlib.suppress(ValueError, KeyError):
            return float(json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"]) / 1e6
        return None

    @contextlib.contextmanager
    def serving(self, *names: str) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for name in names:
                words = ["iperf3", "-s", "-p", PORT]
                command = ["ip", "netns", "exec", self.prefix + name, *words]
                server = stack.enter_context(subprocess.Popen(command, stdout=subprocess.DEVNULL))
                stack.callback(server.kill)
            time.sleep(1)
            yield


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """As many processes as there are cores, which pause now and then, each in its own time."""
    with contextlib.ExitStack() as stack:
        for number in range(os.cpu_count() or 1):
            command = [sys.executable, "-c", BURNS.format(3 + 2.7 * number)]
            stack.callback(stack.enter_context(subprocess.Popen(command)).kill)
        yield


def command() -> Values:
    done = timed.run([sys.executable, "-S", "-c", JOB], 60, 1 << 20)
    assert done.problem == ""
    ran: dict[str, Any] = {"stdout": done.out, "rc": 0, "seconds": done.seconds}
    return {(source.metric.name, ""): metrics.value(source, [ran]) for source in SOURCES}


def copied() -> Values:
    speed = memory.probe(Host(), 0, ARRAY, 1)
    assert speed.value, speed.reason
    return {("copied", ""): speed.value}


@contextlib.contextmanager
def pairs(net: Net) -> Iterator[Callable[[], Values]]:
    """Two pairs of namespaces; see test_effect.py."""

    def phase() -> Values:
        forward, backward = (
            [*threads.map(net.measured, ("node01", "node03"), ("node02", "node04"), *more)]
            for more in ((), (("-R", "-R"),))
        )
        return {
            ("bandwidth", name): math.sqrt(one * other) if one and other else math.nan
            for name, one, other in zip(("12", "34"), forward, backward)
        }

    try:
        net.make()
        with net.serving("node02", "node04"), ThreadPoolExecutor(2) as threads:
            yield phase
    finally:
        net.remove()


def record(phase: Callable[[], Values], seconds: float) -> dict[str, dict[str, list[float]]]:
    """Metric → pair → values of the phases."""
    kept: dict[str, dict[str, list[float]]] = {}
    end = time.monotonic() + seconds
    for _phase in range(MOST):
        if time.monotonic() > end:
            break
        values = phase()
        if math.nan in values.values():  # effect.yml measures such a phase again
            continue
        for (metric, pair), value in values.items():
            kept.setdefault(metric, {}).setdefault(pair, []).append(float(f"{value:.5g}"))
    return kept


def _record_pairs(number: int, seconds: float) -> dict[str, dict[str, list[float]]]:
    with pairs(Net(f"n{number}")) as phase:
        return record(phase, seconds)


def main(path: str, seconds: float) -> None:
    with busy(), ThreadPoolExecutor(AT_ONCE) as threads:
        tcp = [*threads.map(_record_pairs, range(AT_ONCE), [seconds] * AT_ONCE)]
        recorded = {"tcp": tcp, "memory": [record(copied, seconds)], "command": [record(command, seconds)]}
    pathlib.Path(path).write_text(json.dumps(recorded), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
