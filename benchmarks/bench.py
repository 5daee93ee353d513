# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compares the collection with its peers: see docs/guide/benchmarks.md. `make bench` runs it."""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.metadata
import json
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterator

from . import campaigns, commands, effects, fleet, growth, jobs, others, page, report, shaped, simulated
from .fleet import Fleet
from .measure import BenchError

#: Nodes of measurements that do not depend on their number
_SEVERAL = 4

#: For a preflight and a campaign
_MEASURED = 20

PROGRAMS = pathlib.Path(sys.executable).parent

PARTS = ("plays", "campaigns", "commands", "jobs", "growth", "page", "fleet")
#: Only on request: they are about values and verdicts, and take ten minutes each.
EFFECTS, SHAPED = "effects", "shaped"


def say(words: str) -> None:
    print(f"bench: [{time.strftime('%T')}] {words}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--nodes", default="1,4,10,20,40", help="how many nodes a play has, one after the other"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--simulated",
        default="100,500,1000,2000",
        help="how many simulated nodes a play of the part fleet has",
    )
    parser.add_argument("--only", choices=[*PARTS, EFFECTS, SHAPED], action="append")
    parser.add_argument("--output", type=pathlib.Path, default=fleet.ROOT / "tests/output/bench")
    options = parser.parse_args()
    try:
        for results in measured(options):
            text = _keep(results, options.output)
    except BenchError as error:
        say(f"error: {error}")
        return 1
    print(text)
    say(f"results are in {options.output}")
    return 0


def _keep(results: dict[str, object], folder: pathlib.Path) -> str:
    """Written after each part, as a later one may fail after ten minutes."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    text = report.markdown(results)
    (folder / "results.md").write_text(text, encoding="utf-8")
    return text


def measured(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """The results so far, after each part."""
    wanted = options.only or PARTS
    counts = [int(count) for count in options.nodes.split(",")]
    results: dict[str, object] = {
        "date": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        "machine": report.machine(),
        "ansible_core": importlib.metadata.version("ansible-core"),
        "rounds": options.rounds,
    }
    with tempfile.TemporaryDirectory(prefix="mlnode-bench-") as name:
        folder = pathlib.Path(name)
        if "plays" in wanted:
            names = [f"mlnode-bench-{number:03d}" for number in range(1, max(counts) + 1)]
            with fleet.started(Fleet(names, folder, PROGRAMS), say) as made:
                results["plays"] = fleet.plays(made, counts, options.rounds, say)
                results["others"] = others.others(made, _SEVERAL, options.rounds, say)
                results["others_nodes"] = _SEVERAL
            yield results
        if "campaigns" in wanted:
            names = [f"mlnode-bench-{number:03d}" for number in range(1, _MEASURED + 1)]
            with fleet.started(Fleet(names, folder, PROGRAMS), say) as made:
                figures = campaigns.of_nodes(made, folder, options.rounds, say)
            results["campaigns"] = {"nodes": _MEASURED, "plays": figures}
            yield results
            figures = campaigns.results(folder, campaigns.MANY, PROGRAMS, say)
            results["campaigns"] |= {"many": campaigns.MANY, "results": figures}
            yield results
        if "commands" in wanted:
            alone = Fleet([commands.NODE], folder, PROGRAMS, commands.recipe())
            with fleet.started(alone, say) as made:
                results["commands"] = commands.commands(made, 4 * options.rounds, say)
            yield results
        if "jobs" in wanted:
            results["jobs"] = jobs.jobs(folder, options.rounds, say)
            yield results
        if "growth" in wanted:
            results["growth"] = growth.growth(folder, options.rounds, say)
            yield results
        if "page" in wanted:
            results["page"] = page.page(folder, options.rounds, say)
            yield results
        if "fleet" in wanted:
            many = [int(count) for count in options.simulated.split(",")]
            results["fleet"] = simulated.fleets(folder, many, PROGRAMS, say)
            yield results
        if EFFECTS in wanted:
            results["effects"] = effects.effects(options.rounds, say)
            yield results
        if SHAPED in wanted:
            names = [f"mlnode-bench-{number:03d}" for number in range(1, _MEASURED + 1)]
            with fleet.started(Fleet(names, folder, PROGRAMS), say) as made:
                results["shaped"] = shaped.campaigns(made, folder, options.rounds, say)
            yield results


if __name__ == "__main__":
    sys.exit(main())
