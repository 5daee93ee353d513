# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a large fleet report in a browser: how long it takes until it is made, drawn and searched."""

from __future__ import annotations

import pathlib
import statistics
import time
from collections.abc import Callable

from ..plugins.plugin_utils.fleet_report import page as made_page
from ..tests.system import browser
from ..tests.unit.plugins.plugin_utils.fleet_report import fleets
from .measure import BenchError

#: Each with 80 settings; two of them differ on every host
HOSTS = 5000


def page(folder: pathlib.Path, rounds: int, say: Callable[[str], None]) -> dict[str, float]:
    """Medians in seconds, and the size in bytes. Raises BenchError."""
    program = browser.find()
    if program is None:
        raise BenchError(f"no Chromium is here: apt-get install {browser.PACKAGE}")
    say(f"page of {HOSTS} hosts")
    path = folder / "fleet.html"
    fleet = fleets.synthetic(HOSTS)
    times: dict[str, list[float]] = {"made": [], "opened": [], "searched": []}
    with browser.browser(program) as tab:
        tab.size(1440, 900)
        for _round in range(rounds):
            begin = time.monotonic()
            path.write_text("".join(made_page.lines(fleet)), "utf-8", "backslashreplace")
            made = time.monotonic()
            tab.open(path)
            tab.ask("document.querySelectorAll('.group').length")
            opened = time.monotonic()
            tab.click("#search")
            tab.type("planted")
            tab.ask("document.getElementById('found').textContent")
            ended = time.monotonic()
            for name, seconds in zip(times, (made - begin, opened - made, ended - opened)):
                times[name].append(seconds)
    return {"bytes": path.stat().st_size, **{name: statistics.median(some) for name, some in times.items()}}
