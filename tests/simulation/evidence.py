# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the results of the grid into README.md beside it: `python -m` with the name of this module, and
--seeds."""

from __future__ import annotations

import argparse
import multiprocessing
import pathlib
from collections.abc import Callable, Mapping, Sequence

from ansible_collections.mlnode.tuning.tests.simulation import grid
from ansible_collections.mlnode.tuning.tests.simulation.grid import KINDS, WORLDS, Look, Outcome

PAGE = pathlib.Path(__file__).parent / "README.md"

BEGIN, END = "<!-- begin of the generated part: tests/simulation/evidence.py -->\n", "<!-- end of it -->\n"

#: Title, whether a kind of worlds has such figures, and the cell for a world
_Column = tuple[str, Callable[[Look], object], Callable[[Outcome], str]]


def _each(figure: Callable[[Look], int]) -> Callable[[Outcome], str]:
    """Both looks of all campaigns."""
    return lambda one: f"{figure(one.first)}, {figure(one.both)}"


def _mean(figure: Callable[[Look], int]) -> Callable[[Outcome], str]:
    return lambda one: ", ".join(f"{figure(look) / one.campaigns:.3g}" for look in (one.first, one.both))


def _always(_look: Look) -> bool:
    return True


_COLUMNS: Sequence[_Column] = (
    ("campaigns", _always, lambda one: str(one.campaigns)),
    ("slow", lambda look: look.slow, lambda one: str(one.both.slow)),
    ("named", lambda look: look.slow, _each(lambda look: look.found)),
    ("by the reference", lambda look: look.slow, _each(lambda look: look.reference)),
    ("false a campaign", _always, _mean(lambda look: look.wrong)),
    ("by the reference", _always, _mean(lambda look: look.reference_wrong)),
    ("blind", _always, _each(lambda look: look.blind)),
    ("unknown a campaign", _always, _mean(lambda look: look.unknown)),
    ("uplinks", lambda look: look.uplinks, lambda one: str(one.both.uplinks)),
    ("named", lambda look: look.uplinks, _each(lambda look: look.uplinks_found)),
    ("false", lambda look: look.uplinks, _each(lambda look: look.uplinks_wrong)),
    ("bad paths", lambda look: look.paths, lambda one: str(one.both.paths)),
    ("named", lambda look: look.paths, _each(lambda look: look.paths_found)),
    ("false paths a campaign", lambda look: look.paths_wrong, _mean(lambda look: look.paths_wrong)),
)


def table(found: Mapping[str, Mapping[str, Outcome]]) -> str:
    """Kind → world → outcome, as one table for each kind. A column that is empty in a kind is left out."""
    return "\n".join(f"## {kind[0].upper()}{kind[1:]}\n\n{_rows(worlds)}" for kind, worlds in found.items())


def _rows(worlds: Mapping[str, Outcome]) -> str:
    looks = [look for one in worlds.values() for look in (one.first, one.both)]
    columns = [column for column in _COLUMNS if any(column[1](look) for look in looks)]
    lines = [
        ["world", *(title for title, _there, _cell in columns)],
        ["---", *("---:" for _column in columns)],
        *([name, *(cell(one) for _title, _there, cell in columns)] for name, one in worlds.items()),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def table_of(text: str) -> str:
    """The generated part of a page."""
    return text.partition(BEGIN)[2].partition(END)[0]


def with_table(text: str, new: str) -> str:
    before, _begin, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}{new}{END}{rest.partition(END)[2]}"


def _one(task: tuple[str, int]) -> tuple[str, Outcome]:
    name, seeds = task
    world = WORLDS[name]
    return name, grid.runs(world, range(1, 1 + seeds * grid.cheapness(world)))


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the grid, and write its table into the page.")
    parser.add_argument("--seeds", type=int, default=5, help="campaigns of each world; small ones get more")
    seeds = parser.parse_args().seeds
    with multiprocessing.Pool() as pool:
        found = dict(pool.imap_unordered(_one, [(name, seeds) for name in WORLDS]))
    by_kind = {kind: {name: found[f"{kind}: {name}"] for name in worlds} for kind, worlds in KINDS.items()}
    PAGE.write_text(with_table(PAGE.read_text("utf-8"), f"\n{table(by_kind)}\n"), "utf-8")


if __name__ == "__main__":
    main()
