# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""drift.yml as others run it: with strategy free, with ansible-runner, and with mitogen's strategy."""

from __future__ import annotations

import importlib.util
import os
import pathlib
from collections.abc import Callable
from typing import Any

from . import measure
from .fleet import PLAYS, Fleet
from .measure import BenchError, Sample


def others(made: Fleet, count: int, rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Strategy or runner → figures, or the error with which it ended."""
    say(f"drift.yml run otherwise, over {count} nodes")
    drift = PLAYS["drift"]
    ways: dict[str, Callable[[], Sample]] = {
        "strategy linear": lambda: made.sample(count, drift),
        "strategy free": lambda: made.sample(count, drift, {"ANSIBLE_STRATEGY": "free"}),
        "ansible-runner": lambda: made.runner(count, drift),
        "strategy mitogen_linear": lambda: made.sample(count, drift, mitogen()),
    }
    found: dict[str, Any] = {}
    for name, way in list(ways.items()):
        try:
            way()
        except BenchError as error:
            found[name] = "does not work: " + " ".join(str(error).split("\n")[-3:])
            ways.pop(name)
    return {**measure.document(measure.interleaved(rounds, ways, say)), **found}


def mitogen() -> dict[str, str]:
    """The environment in which its strategy is found."""
    spec = importlib.util.find_spec("ansible_mitogen")
    if spec is None or spec.origin is None:
        raise BenchError("mitogen is not installed")
    folder = pathlib.Path(spec.origin).parent / "plugins/strategy"
    return {
        "ANSIBLE_STRATEGY_PLUGINS": os.fspath(folder),
        "ANSIBLE_STRATEGY": "mitogen_linear",
        # It reads this from Ansible, and not from the configuration file of ssh. This machine has made the
        # keys of the images.
        "ANSIBLE_HOST_KEY_CHECKING": "false",
    }
