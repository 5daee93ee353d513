# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of nccl.yml as one document, which docs/schema/nccl.schema.json describes, and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ...module_utils._mlnode.checks.model import Verdict
from ...module_utils._mlnode.model.errors import printable
from ...module_utils._mlnode.model.version import VERSION
from ..campaign.blame import Certainty
from ..campaign.table import Row, aligned
from ..fleet_report.names import few
from .algorithms import Choice
from .bands import Band, Size
from .judge import Finding, Judged, Ran
from .transport import Transport

#: Raised when a field changes its meaning or goes; new fields do not raise it.
FORMAT = 1

#: Significant digits of a bandwidth, which ranges from a few kb/s at 8 bytes to Tb/s
_DIGITS = 6


def result(judged: Judged, about: Mapping[str, Any]) -> dict[str, Any]:
    """about: id, started, ended and program of the runs."""
    asked = judged.about
    return {
        "format": FORMAT,
        "mlnode": VERSION,
        "nccl": {
            **about,
            "collective": "all_reduce",
            "launcher": asked.launcher,
            "gpus_per_node": asked.gpus,
            "least_bytes": min(asked.sizes),
            "most_bytes": max(asked.sizes),
            "network": asked.network,
            "most_runs": asked.most,
            "sharp": asked.sharp,
            "limits": {name: number if number is not None else True for name, number in asked.limits.items()},
        },
        "verdict": str(judged.verdict),
        "counts": {"nodes": dict(Counter(str(finding.verdict) for finding in judged.findings.values()))},
        "coverage": {
            "verdict": str(judged.coverage),
            "links_between_nodes": asked.launcher != "ssh",
            "nodes_measured": len(judged.nodes) - len(judged.never),
            "nodes_planned": len(judged.nodes),
            "nodes_never_measured": judged.never,
            "runs_left_out": max(0, len(judged.search.wanted) - len(judged.wanted)),
            "limits_not_applied": judged.unused,
        },
        "nodes": [_node(judged, name, finding) for name, finding in judged.findings.items()],
        "paths": _paths(judged),
        "runs": [_run(run) for run in judged.runs],
    }


def _node(judged: Judged, name: str, finding: Finding) -> dict[str, Any]:
    node = judged.nodes[name]
    return {
        "name": name,
        "verdict": str(finding.verdict),
        "certainty": None if finding.certainty is None else str(finding.certainty),
        "reason": finding.reason,
        "hostname": node.hostname,
        "gpus": node.gpus,
        "rails": [
            {"device": rail.device, "rate_gbits": rail.gbits, "active": rail.active} for rail in node.rails
        ],
        "kernel": node.kernel,
        "driver": node.driver,
        "declarations": dict(node.declarations),
    }


def _paths(judged: Judged) -> list[dict[str, Any]]:
    paths = [
        {"nodes": [*ends], "verdict": "warn" if sure is Certainty.CLEARED else "fail", "certainty": str(sure)}
        for ends, sure in judged.search.blame.paths.items()
    ]
    rest = [
        {"nodes": [*group], "verdict": "fail", "certainty": str(Certainty.PROBABLE)}
        for group in judged.search.rest
    ]
    return paths + rest


def _run(ran: Ran) -> dict[str, Any]:
    reading = ran.reading
    return {
        "number": ran.number,
        "nodes": [*ran.nodes],
        "verdict": str(ran.verdict),
        "state": ran.state.value,
        "reason": ran.reason,
        "command": ran.command,
        "status": ran.status,
        "read_from": reading.source if reading else None,
        "nccl_tests": reading.version if reading else "",
        "nccl_version": reading.nccl if reading else 0,
        "nccl_errors": [printable(error) for error in reading.errors] if reading else [],
        "ranks": reading.ranks if reading else 0,
        "bands": [_band(band) for band in ran.bands],
        "parts": [
            {"name": part.name, "verdict": str(part.verdict), "reason": part.reason} for part in ran.parts
        ],
        "algorithms": _algorithms(ran),
        "transport": _transport(ran.transport),
        "stragglers": None
        if ran.stragglers is None
        else {
            "verdict": str(ran.stragglers.verdict),
            "reason": ran.stragglers.reason,
            "findings": [
                {"bytes": finding.size, "broke": finding.broke, "reason": finding.reason}
                for finding in ran.stragglers.findings
            ],
        },
    }


def _algorithms(ran: Ran) -> dict[str, Any]:
    log = ran.log
    return {
        "forced": log.forced,
        "nvls": log.nvls,
        "collnet": [*log.collnet],
        "sharp": None if ran.sharp is None else {"verdict": str(ran.sharp.verdict), "sizes": ran.sharp.sizes},
        "reasons": [*log.reasons, *([log.bind_failed] if log.bind_failed else [])],
        "connect_seconds": None if log.slowest is None else log.slowest.seconds,
    }


def _band(band: Band) -> dict[str, Any]:
    return {
        "name": band.name,
        "verdict": str(band.verdict),
        "reason": band.reason,
        "sizes": [_size(size) for size in band.sizes],
    }


def _size(size: Size) -> dict[str, Any]:
    row = size.row
    return {
        "bytes": row.size,
        "verdict": str(size.verdict),
        "broke": [*size.broke],
        "reason": size.reason,
        "out_of_place_us": row.out_of_place.time,
        "in_place_us": row.in_place.time,
        "bus_gbits": _gbits(size.gbits),
        "wrong": [row.out_of_place.wrong, row.in_place.wrong],
        "proven": size.proven,
        "choices": [choice._asdict() for choice in size.choices],
        "limits": [
            {"name": limit.name, "gbits": _gbits(limit.value), "source": limit.source}
            for limit in size.limits
        ],
    }


def _transport(moved: Transport) -> dict[str, Any]:
    return {
        "verdict": str(moved.verdict),
        "reason": moved.reason,
        "nodes": {
            name: {"networks": dict(node.nets), "gpudirect": node.direct, "local": dict(node.local)}
            for name, node in moved.nodes.items()
        },
    }


def _gbits(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


# -- for a terminal ---------------------------------------------------------------------------------------


def lines(document: Mapping[str, Any]) -> list[str]:
    """Findings that are not pass, then the largest size of each run, and the verdict last."""
    rows = [*_runs(document), *_named(document)]
    return [*aligned(rows), *(printable(line) for line in _sums(document))]


def _runs(document: Mapping[str, Any]) -> Iterator[Row]:
    """Each part of the first run. Later runs only add nodes and paths, which have separate rows."""
    alone = document["nccl"]["launcher"] == "ssh"
    for run in document["runs"]:
        if run["number"] > 1 and not alone:
            continue
        what = f"run {run['number']}" if not alone else f"node {run['nodes'][0]}"
        if not run["bands"] and run["reason"]:
            yield run["verdict"], what, run["reason"]
        parts = [(part["name"], part) for part in (*run["parts"], *run["bands"])]
        for name, part in parts:
            if part["verdict"] != "pass" and run["bands"]:
                yield part["verdict"], f"{what}, {name}", part["reason"]


def _named(document: Mapping[str, Any]) -> Iterator[Row]:
    alike: dict[tuple[str, str], list[str]] = {}
    for node in document["nodes"]:
        if node["verdict"] != "pass":
            word = ", ".join([node["verdict"], *([node["certainty"]] if node["certainty"] else [])])
            alike.setdefault((word, node["reason"]), []).append(node["name"])
    for (word, why), names in alike.items():
        yield word, f"node{'s' if names[1:] else ''} {few(names)}", why
    for path in document["paths"]:
        what = " - ".join(path["nodes"]) if len(path["nodes"]) == 2 else few(path["nodes"])
        sure = path["certainty"] == Certainty.CERTAIN
        why = "each is good with others" if sure else "low together; which of them is not known"
        yield f"{path['verdict']}, {path['certainty']}", f"path {what}", why


def _sums(document: Mapping[str, Any]) -> Iterator[str]:
    for run in document["runs"]:
        sizes = [size for band in run["bands"] for size in band["sizes"]]
        if sizes:
            largest = max(sizes, key=lambda size: int(size["bytes"]))
            gbits = largest["bus_gbits"]
            rate = f"{largest['bytes']} bytes at {gbits:.4g} Gb/s ({gbits / 8:.4g} GB/s)"
            rate += "".join(f", {_chosen(choice)}" for choice in largest["choices"][:1])
            yield (f"run {run['number']}: {run['state']}: {rate}, {run['ranks']} GPUs of {few(run['nodes'])}")
    seen = document["coverage"]
    if not seen["links_between_nodes"]:
        yield "each node by itself: the links between nodes were not measured"
    for name, why in seen["limits_not_applied"].items():
        yield f"{name} was applied to nothing: {why}"
    if seen["runs_left_out"]:
        yield f"{seen['runs_left_out']} runs were left out (nccl_runs)"
    if seen["nodes_never_measured"]:
        yield f"never measured: {few(seen['nodes_never_measured'])}"
    counts = document["counts"]["nodes"]
    nodes = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items()))
    yield f"{document['verdict']}: {len(document['nodes'])} nodes: {nodes}"


def _chosen(choice: Mapping[str, Any]) -> str:
    return str(Choice(choice["algorithm"], choice["protocol"], choice["channels"]))


def fails(document: Mapping[str, Any], fail_on: Any) -> bool:
    """fail_on: `unknown`, or `fail` for proven faults only. Raises ValueError for another word."""
    verdicts = {"unknown": (Verdict.FAIL, Verdict.UNKNOWN), "fail": (Verdict.FAIL,)}
    if fail_on not in verdicts:
        raise ValueError(f"nccl_fail_on is {fail_on!r}, and not one of {', '.join(verdicts)}")
    return document["verdict"] in verdicts[fail_on]
