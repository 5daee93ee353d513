# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare two results of nccl.yml: bandwidth and algorithm of each size, SHARP, and the conditions.

Runs are compared with runs of the same nodes, GPUs and NCCL_ALGO. The noise of one measurement is not known.
A change is named from the margin of the limit `fleet` on, and only of sizes that measure bandwidth. Another
algorithm at the same speed is named, and is not worse.
"""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._mlnode.checks.campaign import tcp
from ...module_utils._mlnode.model import strict_json
from ...module_utils._mlnode.model.errors import MlnodeError
from ...module_utils._mlnode.model.version import VERSION
from ...module_utils._mlnode.report.grid import grid
from ..fleet_report.names import few
from ..nccl_tests.algorithms import Choice, Log, in_network
from .change import BETTER, ONLY_A, ONLY_B, SAME, UNKNOWN, WORSE, percent, rounded, sums, worst
from .compare import MOST, Difference, differences, more, of_all, side, sides, stated, under

#: Format number of the JSON; new fields do not raise it
FORMAT = 1

#: Least bytes of a size whose bandwidth is compared: smaller ones measure latency, which scatters more than
#: the margin between two runs.
LEAST = 1 << 20
MARGIN = tcp.MARGIN


class Size(NamedTuple):
    gbits: float
    choices: tuple[Choice, ...]


class Run(NamedTuple):
    """sharp: sizes that were reduced in the network; None if no algorithm is known. nvls: None if it is not
    known. first: of all nodes, or of one by itself; others are of smaller groups, which a slow one brings
    about."""

    first: bool
    nodes: tuple[str, ...]
    ranks: int
    forced: str
    sizes: Mapping[int, Size]
    nvls: bool | None
    sharp: int | None

    @property
    def key(self) -> tuple[tuple[str, ...], int, str]:
        return self.nodes, self.ranks, self.forced

    def __str__(self) -> str:
        forced = f", NCCL_ALGO={self.forced}" if self.forced else ""
        return f"{self.ranks} GPUs of {few(self.nodes)}{forced}"


class Result(NamedTuple):
    """under: node → conditions of its measurement."""

    file: str
    name: str
    started: str
    verdict: str
    runs: tuple[Run, ...]
    about: Mapping[str, str]
    under: Mapping[str, Mapping[str, str]]


class Changed(NamedTuple):
    """One size of runs that were found in both, or a run as a whole (size 0)."""

    run: str
    size: int
    word: str
    before: Size | None = None
    after: Size | None = None
    reason: str = ""

    @property
    def part(self) -> float | None:
        return self.after.gbits / self.before.gbits - 1 if self.before and self.after else None


class Comparison(NamedTuple):
    before: Result
    after: Result
    changes: tuple[Changed, ...]
    about: tuple[Difference, ...]

    @property
    def verdict(self) -> str:
        return worst(change.word for change in self.changes)


# -- reading ------------------------------------------------------------------------------------------


def read(fields: Mapping[str, Any], path: pathlib.Path) -> Result:
    """A document of nccl.schema.json. Raises MlnodeError that names the file and the place."""
    try:
        return _result(fields, str(path))
    except (KeyError, TypeError, ValueError) as error:
        raise MlnodeError(f"{path} is not a result of nccl.yml: {error!r}") from error


def _result(fields: Mapping[str, Any], file: str) -> Result:
    about, runs, nodes, verdict = strict_json.typed(
        fields, {"nccl": dict, "runs": list, "nodes": list, "verdict": str}
    )
    return Result(
        file=file,
        name=str(about["id"]),
        started=str(about["started"]),
        verdict=verdict,
        runs=tuple(_run(run, about["launcher"] == "ssh") for run in runs if run["bands"]),
        about={name: str(about[name]) for name in ("program", "launcher", "gpus_per_node")}
        | {"NCCL": ", ".join(sorted({str(run["nccl_version"]) for run in runs}))},
        under={str(node["name"]): _under(node) for node in nodes},
    )


def _run(fields: Mapping[str, Any], alone: bool) -> Run:
    said = fields["algorithms"]
    sizes = {int(size["bytes"]): _size(size) for band in fields["bands"] for size in band["sizes"]}
    log = Log(
        {size: measurement.choices for size, measurement in sizes.items()}, collnet=tuple(said["collnet"])
    )
    known = any(log.choices.values())
    return Run(
        first=alone or int(fields["number"]) == 1,
        nodes=tuple(sorted(map(str, fields["nodes"]))),
        ranks=int(fields["ranks"]),
        forced=str(said["forced"]),
        sizes=sizes,
        nvls=said["nvls"],
        sharp=sum(in_network(log, size) for size in sizes) if known else None,
    )


def _size(fields: Mapping[str, Any]) -> Size:
    gbits = float(fields["bus_gbits"])
    if gbits <= 0:
        raise ValueError(f"bus_gbits is {gbits}")
    choices = (
        Choice(str(choice["algorithm"]), str(choice["protocol"]), int(choice["channels"]))
        for choice in fields["choices"]
    )
    return Size(gbits, tuple(choices))


def _under(node: Mapping[str, Any]) -> dict[str, str]:
    conditions = {"kernel": str(node["kernel"]), "driver": str(node["driver"])}
    conditions |= {f"declaration {name}": str(digest) for name, digest in node["declarations"].items()}
    conditions["rails"] = ", ".join(
        f"{rail['device']} {rail['rate_gbits']} Gb/s{'' if rail['active'] else ' (not active)'}"
        for rail in node["rails"]
    )
    return conditions


# -- comparing ----------------------------------------------------------------------------------------


def compare(before: Result, after: Result) -> Comparison:
    first = {run.key: run for run in before.runs}
    second = {run.key: run for run in after.runs}
    changes = [change for key, run in first.items() if key in second for change in _runs(run, second[key])]
    for word, own, others in ((ONLY_A, first, second), (ONLY_B, second, first)):
        changes += [Changed(str(run), 0, word) for key, run in own.items() if run.first and key not in others]
    about = (*of_all(before.about, after.about), *differences(before.under, after.under))
    return Comparison(before, after, tuple(changes), about)


def _runs(before: Run, after: Run) -> Iterator[Changed]:
    name = str(before)
    sides = (("NVLS was available", before.nvls, after.nvls), ("SHARP was used", before.sharp, after.sharp))
    for what, earlier, later in sides:
        if earlier and later is None:
            yield Changed(name, 0, UNKNOWN, reason=f"{what}, and the log of B does not say it of now")
        elif earlier and not later:
            yield Changed(name, 0, WORSE, reason=f"{what}, and is not any more")
    for size in sorted({*before.sizes, *after.sizes}):
        yield _changed(name, size, before.sizes.get(size), after.sizes.get(size))


def _changed(name: str, size: int, before: Size | None, after: Size | None) -> Changed:
    if before is None or after is None:
        return Changed(name, size, ONLY_A if before else ONLY_B, before, after)
    known = before.choices and after.choices
    reason = "another algorithm" if known and before.choices != after.choices else ""
    change = Changed(name, size, SAME, before, after, reason)
    if size < LEAST or abs(change.part or 0) <= MARGIN:
        return change
    return change._replace(word=BETTER if (change.part or 0) > 0 else WORSE)


# -- as JSON and as a table ---------------------------------------------------------------------------


def document(comparison: Comparison) -> dict[str, Any]:
    """docs/schema/nccl_comparison.schema.json describes it."""
    return {
        "format": FORMAT,
        "mlnode": VERSION,
        "kind": "nccl",
        "a": side(comparison.before),
        "b": side(comparison.after),
        "verdict": comparison.verdict,
        "counts": dict(Counter(change.word for change in comparison.changes)),
        "about": [stated(difference) for difference in comparison.about],
        "changes": [_change(change) for change in comparison.changes],
    }


def _change(change: Changed) -> dict[str, Any]:
    return {
        "run": change.run,
        "bytes": change.size,
        "result": change.word,
        "a_gbits": change.before.gbits if change.before else None,
        "b_gbits": change.after.gbits if change.after else None,
        "change_percent": rounded(change.part),
        "a_choices": [str(choice) for choice in change.before.choices] if change.before else [],
        "b_choices": [str(choice) for choice in change.after.choices] if change.after else [],
        "reason": change.reason,
    }


def lines(comparison: Comparison, width: int | None) -> list[str]:
    """Sizes that have changed, in speed or in algorithm; then under what, and the sums."""
    shown = [change for change in comparison.changes if change.word != SAME or change.reason]
    rows = [_row(change) for change in shown[:MOST]]
    header = ("RUN", "BYTES", "A Gb/s", "B Gb/s", "CHANGE", "A", "B", "RESULT")
    words = sums(change.word for change in comparison.changes)
    return [
        *sides("nccl", comparison.before, comparison.after),
        *(["", *grid(header, rows, width)] if rows else []),
        *more(shown),
        *under("Not measured under the same, which may be the cause:", comparison.about, width),
        "",
        f"{comparison.verdict}: {len(comparison.changes)} sizes and runs: {words or 'none in both'}",
    ]


def _row(change: Changed) -> Sequence[str]:
    sides = (change.before, change.after)
    rates = [f"{side.gbits:.4g}" if side else "" for side in sides]
    choices = [" + ".join(map(str, side.choices)) if side else "" for side in sides]
    result = f"{change.word}: {change.reason}" if change.reason else change.word
    return change.run, str(change.size or ""), *rates, percent(change.part), *choices, result
