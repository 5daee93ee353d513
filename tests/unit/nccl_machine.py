# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for all_reduce_perf, mpirun, srun and nvidia-smi, which prints and writes what they do without a
GPU: the table and the JSON as src/util.cu of nccl-tests 2.19.6, the log as src/transport of NCCL 2.30.

As a program it is called by the name of the one that it stands for. Nodes and faults are in the environment:
STANDIN_HOSTS, which the stand-in of mpirun and srun sets for the program that it starts on this machine, and
STANDIN_FAULTS, a dictionary as in Faults.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

#: µs of an empty operation, and GB/s of bus bandwidth without a fault: eight rails of 400 Gb/s at 0.92
LATENCY, RATE = 20.0, 368.0
#: A tree of two or three nodes sends the message less than twice, and NVLink is the limit then.
TREE = 1.3


class Faults(NamedTuple):
    """slow: node → part of its bandwidth. paths: pairs of nodes with that between them. socket: nodes whose
    NCCL falls back. direct: whether there is GPUDirect. wrong, nan, hole: a size. missing: nodes that do not
    take part. cut: characters of the JSON that are lost. late: a rank that all wait for. silent: nodes
    without a log. json: whether the program has the option. alone: each process runs by itself. errors: what
    NCCL said last. said: more lines of the log of each node. tuning: whether the log names algorithms."""

    slow: dict[str, float] = {}
    paths: tuple[Sequence[Any], ...] = ()
    socket: Sequence[str] = ()
    direct: bool = True
    wrong: int = 0
    unchecked: bool = False
    nan: int = 0
    hole: int = 0
    missing: Sequence[str] = ()
    cut: int = 0
    late: int | None = None
    silent: Sequence[str] = ()
    json: bool = True
    alone: bool = False
    rows: bool = True
    status: int = 0
    errors: str = ""
    said: Sequence[str] = ()
    tuning: bool = True


class Run(NamedTuple):
    hosts: Sequence[str]
    gpus: int = 8
    least: int = 8
    most: int = 8 << 30
    path: str = "/tmp/mlnode-nccl-x-1/result.json"
    faults: Faults = Faults()
    times: bool = True
    #: NCCL_ALGO
    forced: str = ""

    @property
    def algorithm(self) -> str:
        return self.forced or "TREE"

    @property
    def there(self) -> list[str]:
        return [host for host in self.hosts if host not in self.faults.missing]

    @property
    def ranks(self) -> int:
        return len(self.there) * self.gpus

    @property
    def sizes(self) -> Iterator[int]:
        size = self.least
        while size <= self.most and self.faults.rows:
            yield size
            size *= 2

    def time(self, size: int) -> float:
        parts = [self.faults.slow.get(host, 1.0) for host in self.there]
        parts += [part for one, other, part in self.faults.paths if {one, other} <= {*self.there}]
        rate = RATE * min(parts) * (0.02 if self.faults.socket else 1)
        rate *= TREE if self.algorithm == "TREE" and 1 < len(self.there) < 4 else 1
        whole = LATENCY + size * 2 * (self.ranks - 1) / self.ranks / rate / 1000
        return whole * (10 if size == self.faults.hole else 1)

    def bandwidths(self, size: int) -> tuple[float, float]:
        algbw = size / self.time(size) / 1000
        return algbw, algbw * 2 * (self.ranks - 1) / self.ranks

    def wrong(self, size: int) -> int:
        return 96 if size == self.faults.wrong else 0


# -- stdout ------------------------------------------------------------------------------------


def printed(value: float, width: int) -> str:
    """getFloatStr() of util.cu"""
    for digits in (2, 1, 0):
        if len(text := f"{value:{width}.{digits}f}") <= width:
            return text
    return f"{value:{width}.1e}"


def table(run: Run, announced: bool = True) -> str:
    """All that is printed."""
    lines = [f"# Writing JSON output to {run.path}"] if run.faults.json and announced else []
    lines += ["# nccl-tests version 2.19.6 nccl-headers=23007 nccl-library=23007"]
    lines += ["# Collective test starting: all_reduce_perf", "#", "# Using devices"]
    number = 0
    for host in run.there:
        for gpu in range(run.gpus):
            rank = 0 if run.faults.alone else number
            where = f"on {host:>10} device {gpu:2} [0000:{gpu:02x}:00] NVIDIA H100"
            lines.append(f"#  Rank {rank:2} Group  0 Pid {1000 + number:6} {where}")
            number += 1
    half = f"  {'time':>7}  {'algbw':>6}  {'busbw':>6}  {'#wrong':>6}"
    blank = f"{'':>7}  {'':>6}  {'':>6}"
    lines += ["#", f"# {'':10}  {blank}           out-of-place                       in-place          "]
    lines += [f"# {'size':>10}  {'count':>12}  {'type':>8}  {'redop':>6}  {'root':>6}{half}{half} "]
    lines += [
        f"# {'(B)':>10}  {'(elements)':>12}  {'':>8}  {'':>6}  {'':>6}"
        + "     (us)  (GB/s)  (GB/s)        " * 2
    ]
    failed = 0
    for size in run.sizes:
        time = "nan" if size == run.faults.nan else printed(run.time(size), 7)
        algbw, busbw = (printed(one, 6) for one in run.bandwidths(size))
        wrong = "   N/A" if run.faults.unchecked else f"{run.wrong(size):6}"
        failed += bool(run.wrong(size))
        half = f"  {time:>7}  {algbw:>6}  {busbw:>6}  {wrong}"
        lines.append(f"{size:12}  {size // 4:12}  {'float':>8}  {'sum':>6}  {'-1':>6}{half}{half}")
    lines += [f"# Out of bounds values : {failed} {'FAILED' if failed else 'OK'}"]
    lines += ["# Avg bus bandwidth    : 100.0 ", "#", "# Collective test concluded: all_reduce_perf", "#"]
    lines += [f"# error: {run.faults.errors}" if run.faults.errors else "", "#", ""]
    return "\n".join(lines)


# -- JSON --------------------------------------------------------------------------------------


def written(value: Any) -> str:
    """As its writer does: no blanks, %lf, and a slash with a backslash before it"""
    if isinstance(value, dict):
        return "{" + ",".join(f"{written(key)}:{written(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(one) for one in value) + "]"
    if isinstance(value, float):
        return f"{value:f}"
    return json.dumps(value).replace("/", "\\/") if isinstance(value, str) else json.dumps(value)


def document(run: Run) -> str:
    failed = sum(bool(run.wrong(size)) for size in run.sizes)
    number = 0
    devices = []
    for host in run.there:
        for gpu in range(run.gpus):
            devices.append({"rank": number, "group": 0, "pid": 1000 + number, "hostname": host, "device": gpu,
                            "device_hex": f"0000:{gpu:02x}:00", "device_info": "NVIDIA H100"})  # fmt: skip
            number += 1
    text = written({
        "version": 3,
        "start_time": "2026-11-25 04:00:00",
        "args": ["all_reduce_perf", "-J", run.path],
        "env": ["PATH=/usr/bin", "SECRET=do not keep"],
        "nccl_version": 23007,
        "config": {"nthreads": 1, "ngpus": 1, "minimum_bytes": run.least, "maximum_bytes": run.most,
                   "step_factor": 2, "validation": 1, "blocking_collectives": "false", "devices": devices},
        **({"results": [result(run, size) for size in run.sizes]} if run.faults.rows else {}),
        "out_of_bounds": {"count": failed, "okay": "false" if failed else "true"},
        "average_bus_bandwidth": {"bandwidth": 100.0, "okay": "unchecked"},
        "errors": [run.faults.errors],
        "end_time": "2026-11-25 04:01:00",
    })  # fmt: skip
    return text[: len(text) - run.faults.cut]


def result(run: Run, size: int) -> dict[str, Any]:
    algbw, busbw = run.bandwidths(size)
    own: dict[str, Any] = {
        "time": "nan" if size == run.faults.nan else run.time(size),
        "alg_bw": algbw,
        "bus_bw": busbw,
        "nwrong": None if run.faults.unchecked else float(run.wrong(size)),
    }
    whole: dict[str, Any] = {
        "size": size,
        "count": size // 4,
        "type": "float",
        "redop": "sum",
        "root": "    -1",
    }
    for name in ("out_of_place", "in_place"):
        whole[name] = own
        if run.times:
            slower = run.time(size) * (1 if run.faults.late is None else 4)
            waits = [run.time(size) if rank == run.faults.late else slower for rank in range(run.ranks)]
            whole[f"{name}_per_iter"] = {
                "skipped_iterations": 0,
                "times_us": [max(waits)] * 20,
                "per_process_max_times_us": [[one] * 20 for one in waits],
            }
    return {**whole, "actual_iterations": 20, "experiment_name": "AllReduce"}


# -- log -----------------------------------------------------------------------------------------


def log(run: Run, host: str) -> str:
    if host in run.faults.silent:
        return ""
    begin = f"{host}:1000:1000 [0] NCCL INFO"
    lines = [f"{begin} NCCL version 2.30.7+cuda13.0"]
    if len(run.there) > 1:
        net = "Socket/0" if host in run.faults.socket else f"IB/0{'/GDRDMA' if run.faults.direct else ''}"
        lines += [f"{begin} Channel {number:02}/0 : 0[0] -> 8[0] [send] via NET/{net}" for number in range(4)]
    lines += [f"{begin} Channel {number:02}/0 : 0[0] -> 1[1] via P2P/CUMEM" for number in range(4)]
    lines += [f"{begin} NCCL_ALGO set by environment to {run.forced}"] if run.forced else []
    if host == run.there[0] and run.faults.tuning:
        for size in run.sizes:
            protocol = "LL" if size < 1 << 16 else "SIMPLE"
            chosen = f"Algo {run.algorithm} proto {protocol} channel{{Lo..Hi}}={{0..15}}"
            lines += [f"{begin} AllReduce: {size} Bytes -> {chosen}"] * 2
    lines += [f"{begin} {line}" for line in run.faults.said]
    return "\n".join([*lines, ""])


# -- programs --------------------------------------------------------------------------------------


def main(program: str, words: Sequence[str]) -> int:
    if program == "nvidia-smi":
        return 0
    if program in ("mpirun", "srun"):
        return start(program, words)
    if "-h" in words:
        print("USAGE: all_reduce_perf \n\t[-J,--output_file <file>] \n\t[-I,--per_iter_timing <0/1>]")
        return 0
    given = dict(zip(words[::2], words[1::2]))
    hosts = os.environ["STANDIN_HOSTS"].split(",")
    faults = Faults(**json.loads(os.environ.get("STANDIN_FAULTS", "{}")))
    gpus = int(os.environ.get("STANDIN_GPUS", given["-g"]))
    run = Run(hosts, gpus, int(given["-b"]), int(given["-e"]), given["-J"], faults, given.get("-I") == "1",
              os.environ.get("NCCL_ALGO", ""))  # fmt: skip
    if faults.json:
        with open(given["-J"], "x", encoding="utf-8") as stream:
            stream.write(document(run))
    for host in run.there:
        path = os.environ["NCCL_DEBUG_FILE"].replace("%h", host).replace("%p", str(os.getpid()))
        pathlib.Path(path).write_text(log(run, host), encoding="utf-8")
    print(table(run))
    return faults.status


def start(program: str, words: Sequence[str]) -> int:
    """Hosts, and the program as the first word that is neither an option nor its value."""
    pairs: dict[str, str] = {}
    rest = [*words]
    while rest[0].startswith("-"):
        option = rest.pop(0)
        pairs[option] = rest.pop(0) if "=" not in option and option not in ("--exclusive",) else ""
    hosts = [one.partition(":")[0] for one in pairs.get("--host", pairs.get("--nodelist", "")).split(",")]
    # The node that mpirun runs on, after which the document is named
    hosts = [pathlib.Path(rest[rest.index("-J") + 1]).stem if one == "localhost" else one for one in hosts]
    number = int(pairs.get("-np", pairs.get("--ntasks", "")))
    os.environ.update(STANDIN_HOSTS=",".join(hosts), STANDIN_GPUS=str(number // len(hosts)))
    os.execvp(rest[0], rest)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[0]).name, sys.argv[1:]))
