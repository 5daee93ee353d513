# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Effects of single values of the profiles, in network namespaces and for memory: docs/guide/effects.md."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect import interval

from . import wan
from .measure import BenchError

_PROGRAMS = str(pathlib.Path(__file__).with_name("programs.py"))
_THP = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")

#: Mb/s that the process between the namespaces carries along with other load
_MBIT = 200
#: The kernel's default maxima of tcp_rmem and tcp_wmem on a node with much memory (tcp(7), tcp_init())
_DEFAULT = (6291456, 4194304)
#: Value of `auto` at _MBIT: its minimum
_AUTO = (16777216, 16777216)
#: As small compared with the data in flight at 200 Mb/s and 10 to 50 ms as the default is at 10 Gb/s and 10
#: ms
_SMALL = (262144, 262144)

#: The smallest effect that matters, as in effect.yml
_LEAST = 0.01

State = Callable[[], None]


class Experiment(NamedTuple):
    """before, after: descriptions of A and B. switch: state A or B → action to reach it. measure:
    one number."""

    what: str
    unit: str
    better: str
    before: str
    after: str
    switch: Callable[[str], None]
    measure: Callable[[], float]


def effects(blocks: int, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """All effects, each in this many blocks of four phases. Raises BenchError."""
    found = []
    for make in (_buffers, _idle, _storm, _huge):
        for one in make():
            series = []
            for state in interval.order(blocks):
                one.switch(state)
                series.append(one.measure())
            found.append(_row(one, series))
            say(f"{one.what}: {found[-1]['words']}")
    return found


def _row(one: Experiment, series: Sequence[float]) -> dict[str, Any]:
    blocks = len(series) // interval.BLOCK
    states = interval.order(blocks)
    means = {
        state: sum(value for value, at in zip(series, states) if at == state) / (len(series) / 2)
        for state in "AB"
    }
    return {
        "what": one.what,
        "unit": one.unit,
        "better": one.better,
        "before": one.before,
        "after": one.after,
        "mean_before": means["A"],
        "mean_after": means["B"],
        "words": interval.words(interval.estimate({"": series}, states, blocks), blocks, _LEAST),
        "blocks": blocks,
        "load": os.getloadavg()[0],
        "values": [round(value, 4) for value in series],
    }


# -- sockets ---------------------------------------------------------------------------------------


def _sizes(sizes: Sequence[int]) -> dict[str, str]:
    return {"net.ipv4.tcp_rmem": f"4096 131072 {sizes[0]}", "net.ipv4.tcp_wmem": f"4096 16384 {sizes[1]}"}


#: No state survives from an earlier connection.
_FRESH = {"net.ipv4.tcp_no_metrics_save": "1"}
#: A namespace may choose between two. bbr fills the path without losing packets: it shows the buffers and not
#: the losses. It has no slow start after a pause; reno shows that.
_BBR = {**_FRESH, "net.ipv4.tcp_congestion_control": "bbr"}
_RENO = {**_FRESH, "net.ipv4.tcp_congestion_control": "reno"}


def _buffers() -> Iterator[Experiment]:
    for rtt in (10, 50):
        with wan.joined(rtt, _MBIT, 9000), _running(1, "iperf3", "-s", "-B", wan.ADDRESSES[1]):
            wan.sysctl(_BBR)
            for name, before in (("the kernel's default", _DEFAULT), ("256 KiB", _SMALL)):
                yield Experiment(
                    f"one stream, {rtt} ms, {_MBIT} Mb/s",
                    "Mb/s",
                    "more",
                    f"buffers of {name}",
                    "16 MiB (`auto`)",
                    lambda state, before=before: wan.sysctl(_sizes(before if state == "A" else _AUTO)),
                    _stream,
                )


def _stream() -> float:
    command = wan.inside(0, "iperf3", "-J", "-c", wan.ADDRESSES[1], "-t", "2", "-O", "1")
    for _attempt in range(5):
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
        with contextlib.suppress(ValueError, KeyError):
            return float(json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"]) / 1e6
        time.sleep(0.5)  # the server ends the test before
    raise BenchError(f"iperf3 has no result: {done.stdout[-300:]} {done.stderr}")


def _idle() -> Iterator[Experiment]:
    for rtt in (10, 50):
        server = (sys.executable, _PROGRAMS, "serve_bursts", wan.ADDRESSES[1])
        with wan.joined(rtt, _MBIT, 1500), _running(1, *server):
            wan.sysctl({**_RENO, **_sizes(_AUTO)})
            yield Experiment(
                f"1 MB after a pause of 1 s, {rtt} ms, {_MBIT} Mb/s",
                "ms",
                "less",
                "tcp_slow_start_after_idle 1",
                "0",
                lambda state: wan.sysctl({"net.ipv4.tcp_slow_start_after_idle": "01"[state == "A"]}),
                lambda: _program(0, "bursts", wan.ADDRESSES[1]),
            )


def _storm() -> Iterator[Experiment]:
    with wan.namespaces():
        yield Experiment(
            "6,000 connections at once, until the last is answered",
            "s",
            "less",
            "somaxconn 4096, tcp_max_syn_backlog 2048",
            "65535 both",
            lambda state: wan.sysctl(_queues(*((4096, 2048) if state == "A" else (65535, 65535)))),
            lambda: _program(0, "storm", "127.0.0.1"),
        )


def _queues(listening: int, half_open: int) -> dict[str, str]:
    return {"net.core.somaxconn": str(listening), "net.ipv4.tcp_max_syn_backlog": str(half_open)}


# -- memory ----------------------------------------------------------------------------------------


def _huge() -> Iterator[Experiment]:
    found = _THP.read_text(encoding="ascii").partition("[")[2].partition("]")[0]
    try:
        for asks, words in (("no", "does not ask for huge pages"), ("yes", "asks with madvise(2)")):
            yield Experiment(
                f"first touch of 256 MiB by a program that {words}",
                "GB/s",
                "more",
                "THP always",
                "madvise",
                lambda state: (
                    _THP.write_text("always" if state == "A" else "madvise", encoding="ascii") and None
                ),
                lambda asks=asks: _program(None, "faults", asks),
            )
    finally:
        _THP.write_text(found, encoding="ascii")


# -- programs --------------------------------------------------------------------------------------


def _program(side: int | None, *words: str) -> float:
    command = [sys.executable, _PROGRAMS, *words]
    done = subprocess.run(
        command if side is None else wan.inside(side, *command),
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode != 0:
        raise BenchError(f"{' '.join(words)}: {done.stderr.strip()[-500:]}")
    return float(done.stdout)


@contextlib.contextmanager
def _running(side: int, *words: str) -> Iterator[None]:
    """A server, which has said that it is ready, or has had a second for it."""
    with subprocess.Popen(wan.inside(side, *words), stdout=subprocess.PIPE) as server:
        try:
            time.sleep(1)
            if server.poll() is not None:
                raise BenchError(f"{' '.join(words)} has ended")
            yield
        finally:
            server.kill()
