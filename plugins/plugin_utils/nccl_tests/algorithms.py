# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Algorithm, protocol and channels of each size, and in-network reduction, by NCCL's own log.

Rank 0 logs each collective in the subsystem TUNING. The line has had three forms (src/enqueue.cc):

    8 Bytes -> Algo 1 proto 2 time 12.3                                      NCCL 2.20 to 2.22
    AllReduce: 8 Bytes -> Algo 1 proto 2 time 12.3                           NCCL 2.23
    AllReduce: 8 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}     NCCL 2.24 and later
    AllReduce [Symmetric]: 8 Bytes -> Kernel NAME nchannels 1 nthreads 512   NCCL 2.27 and later

Older versions log none. SHARP is a CollNet plugin (nccl-rdma-sharp-plugins, src/sharp_plugin.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ...module_utils._mlnode.checks.model import Verdict
from ...module_utils._mlnode.model.errors import printable

#: By their numbers in NCCL 2.20 to 2.23 (src/include/nccl_common.h)
_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
_PROTOCOLS = ("LL", "LL128", "SIMPLE")
SYMMETRIC = "SYMMETRIC"
RING = "RING"
#: Between nodes, a tree is TREE with or without NVLink SHARP inside of the nodes.
TREES = ("TREE", "NVLS_TREE")

_LINE = re.compile(r"(?:(?P<function>[A-Za-z]+)(?P<symmetric> \[Symmetric\])?: )?(?P<bytes>[0-9]+) Bytes -> "
                   r"(?:Algo (?P<algorithm>[A-Z0-9_]+) proto (?P<protocol>[A-Z0-9]+)"
                   r"(?: channel\{Lo\.\.Hi\}=\{(?P<low>[0-9]+)\.\.(?P<high>[0-9]+)\})?"
                   r"|Kernel (?P<kernel>\w+) nchannels (?P<channels>[0-9]+))")  # fmt: skip
_FUNCTION = "AllReduce"

#: src/graph/tuning.cc and src/init.cc; up to 2.20 with a full stop at the end
_ALGO = re.compile(r"NCCL_ALGO set by environment to (\S+)")
_COLLNET = re.compile(r"NCCL_COLLNET_ENABLE set by environment to 1\b")
#: src/transport/nvls.cc
_NVLS = re.compile(r"NVLS multicast support is (not )?available on dev [0-9]+")
#: src/transport/coll_net.cc
_CONNECTED = re.compile(r"\bvia COLLNET/([^/\n]+)/[0-9]+")

#: Reasons why in-network reduction is not used, the most specific first, by the log lines of the SHARP
#: plugin, of libsharp, and of NCCL's src/init.cc, src/transport.cc and src/plugin
_REASONS = (
    re.compile(r"SHARP coll init error: [^\n]+"),
    re.compile(r"(?:sharp_coll_caps_query failed|SHARP group create): [^\n]+"),
    re.compile(r"SHARP: Group size:[^\n]+"),
    re.compile(r"SHARP: Set to disable on this communicator"),
    re.compile(r"Communicator has [0-9]+ nodes which is less than CollNet node threshold[^\n]*"),
    re.compile(r"CollNet currently only supports up to [0-9]+ GPUs per node[^\n]*"),
    re.compile(r"Detected mixed local CollNet device counts[^\n]*"),
    re.compile(r"NET/Plugin: Failed to find ncclCollNetPlugin[^\n]*"),
    re.compile(r"NET/Plugin ?: (?:Could not find:|dlerror=|Plugin load returned)[^\n]*"),
    re.compile(r"Cannot initialize CollNet[^\n]*"),
)
#: NCCL tries all versions of the interface: a missing one has no meaning if another one is found.
_LOADED = re.compile(r"NET/Plugin: Loaded coll(?:net)? plugin ")
_PLUGIN = "NET/Plugin"
_BIND = re.compile(r"Failed to bind NVLink SHARP[^\n]*")
#: src/init.cc; the first one makes the communicator that is measured
_INIT = re.compile(
    r"Init timings(?: - \w+)?: rank ([0-9]+) nranks [0-9]+ total ([0-9]+\.[0-9]+) \(([^)\n]*)\)"
)


class Choice(NamedTuple):
    """NCCL's choice for one size. channels: their number; 0 where the log does not say it."""

    algorithm: str
    protocol: str
    channels: int

    def __str__(self) -> str:
        channels = f", {self.channels} channels" if self.channels else ""
        return f"{self.algorithm} {self.protocol}{channels}"


class Init(NamedTuple):
    """Seconds that a rank took to make the communicator, and what took them (NCCL 2.22 and later)."""

    seconds: float
    rank: int
    parts: str

    def __str__(self) -> str:
        return f"rank {self.rank} took {self.seconds:g} s to make the communicator ({self.parts})"


class Log(NamedTuple):
    """The logs of all nodes of a run. choices: by the size in bytes. forced: the algorithms that NCCL_ALGO
    leaves. nvls: NVLink SHARP is available on all GPUs; None if no line shows it. collnet: names of connected
    CollNet plugins. declared: NCCL_COLLNET_ENABLE=1 was read. reasons: lines with the reasons why CollNet is
    not used. bind_failed: the line of a failure of NVLS. slowest: rank."""

    choices: Mapping[int, tuple[Choice, ...]] = {}
    forced: str = ""
    nvls: bool | None = None
    collnet: tuple[str, ...] = ()
    declared: bool = False
    reasons: tuple[str, ...] = ()
    bind_failed: str = ""
    slowest: Init | None = None

    def algorithm(self, size: int) -> str:
        """Algorithm of one size; several joined by +, and empty if the log does not show it."""
        return "+".join(dict.fromkeys(choice.algorithm for choice in self.choices.get(size, ())))

    def compared(self, size: int) -> str:
        """Algorithm whose results are alike: two nodes reach 1.6 times as much in a tree as in rings. Without
        one in the log, those that NCCL_ALGO leaves."""
        return self.algorithm(size) or self.forced


class Sharp(NamedTuple):
    verdict: Verdict
    reason: str
    sizes: int


def read(logs: Iterable[str]) -> Log:
    text = "\n".join(logs)
    choices: dict[int, dict[Choice, None]] = {}
    for match in _LINE.finditer(text):
        if match["function"] in (None, _FUNCTION):
            choices.setdefault(int(match["bytes"]), {})[_choice(match)] = None
    available = [not lacking for lacking in _NVLS.findall(text)]
    forced = _ALGO.findall(text)
    loaded = _LOADED.search(text) is not None
    return Log(
        choices={size: tuple(of_size) for size, of_size in sorted(choices.items())},
        forced=printable(forced[-1].rstrip(".")).upper() if forced else "",
        nvls=all(available) if available else None,
        collnet=tuple(dict.fromkeys(printable(name) for name in _CONNECTED.findall(text))),
        declared=_COLLNET.search(text) is not None,
        reasons=tuple(line for line in _matches(_REASONS, text) if not (loaded and line.startswith(_PLUGIN))),
        bind_failed=next(iter(_matches((_BIND,), text)), ""),
        slowest=max(_inits(text), default=None),
    )


def _inits(text: str) -> Iterator[Init]:
    for rank, total, parts in _INIT.findall(text):
        yield Init(float(total), int(rank), printable(parts))


def _choice(match: re.Match[str]) -> Choice:
    if match["kernel"]:
        return Choice(SYMMETRIC, match["kernel"], int(match["channels"]))
    channels = int(match["high"]) - int(match["low"]) + 1 if match["high"] else 0
    return Choice(_named(match["algorithm"], _ALGORITHMS), _named(match["protocol"], _PROTOCOLS), channels)


def _named(word: str, names: Sequence[str]) -> str:
    """A name, given as such or by its number."""
    return names[int(word)] if word.isdigit() and int(word) < len(names) else word


def _matches(patterns: Sequence[re.Pattern[str]], text: str) -> tuple[str, ...]:
    texts = (match[0] for pattern in patterns for match in pattern.finditer(text))
    return tuple(dict.fromkeys(printable(" ".join(line.split())) for line in texts))


def in_network(log: Log, size: int) -> bool:
    """True if switches reduced this size: CollNet, or NVLS over a connected CollNet plugin."""
    names = {choice.algorithm for choice in log.choices.get(size, ())}
    return any(name.startswith("COLLNET") for name in names) or (bool(log.collnet) and "NVLS" in names)


def sharp(log: Log, sizes: Sequence[int], nodes: int, asked: bool) -> Sharp | None:
    """Verdict on SHARP if the site expects it (asked) or a node declares it, else None.

    One size is enough: NCCL itself chooses for which ones CollNet is faster.
    """
    if not (asked or log.declared) or nodes < 2:
        return None
    used = sum(in_network(log, size) for size in sizes)
    if used:
        return Sharp(Verdict.PASS, "", used)
    who = "nccl_sharp expects SHARP" if asked else "NCCL_COLLNET_ENABLE=1 declares SHARP"
    if log.reasons:
        return Sharp(Verdict.FAIL, f"{who}, and it was not used: {log.reasons[0]}", 0)
    if log.forced and not any(word in log.forced for word in ("COLLNET", "NVLS")):
        return Sharp(
            Verdict.UNKNOWN, f"{who}, and NCCL_ALGO={log.forced} left no choice: measure more nodes", 0
        )
    if not any(size in log.choices for size in sizes):
        return Sharp(Verdict.UNKNOWN, f"{who}, and the log names no algorithm: NCCL 2.20 and later do", 0)
    if not log.declared:
        return Sharp(Verdict.FAIL, f"{who}, and no log line says NCCL_COLLNET_ENABLE=1: declare it", 0)
    names = ", ".join(sorted({choice.algorithm for size in sizes for choice in log.choices.get(size, ())}))
    line = f"a plugin is connected ({', '.join(log.collnet)})" if log.collnet else "no CollNet was connected"
    return Sharp(Verdict.FAIL, f"{who}, and all sizes used {names}: {line}", 0)
