# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Costs of a large node: a tree of 256 CPUs, 2,048 interrupts, 16 NICs and 8 GPUs, and its multiples."""

from __future__ import annotations

import json
import pathlib
import shutil
import statistics
import time
from collections.abc import Callable
from typing import Any

from ..plugins.module_utils._mlnode.agent import mounts as drivers
from ..plugins.module_utils._mlnode.agent import node
from ..plugins.module_utils._mlnode.agent import node_report as document
from ..plugins.module_utils._mlnode.engine import declared, engine
from ..plugins.module_utils._mlnode.engine.declared import Declaration
from ..plugins.module_utils._mlnode.engine.engine import Request
from ..plugins.module_utils._mlnode.host.host import Host
from ..plugins.module_utils._mlnode.knobs.irq.kind import kind as irq
from ..plugins.module_utils._mlnode.report import table
from ..plugins.module_utils._mlnode.topology import hardware
from ..tests.fixtures import build, epyc
from ..tests.unit.roles import declaration

SCALES = (1, 2, 4)


def growth(folder: pathlib.Path, rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Scale → what → median of the CPU seconds it takes."""
    found = {}
    for scale in SCALES:
        root = str(folder / f"epyc-{scale}")
        build.build(epyc.epyc256(scale), root)
        found[str(scale)] = {**_undeclared(root, rounds), **_declared(root, rounds)}
        say(
            f"{256 * scale} CPUs: "
            + ", ".join(f"{name} {spent:.3f} s" for name, spent in found[str(scale)].items())
        )
        shutil.rmtree(root)
    return found


def _declare(root: pathlib.Path) -> None:
    kept = Declaration("node", declaration("training"))
    path = root / kept.path.lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_bytes(declared.render(kept))


def _undeclared(root: str, rounds: int) -> dict[str, float]:
    spread = Request("bench", irq, irq.checked({"rules": [{"name": "all", "strategy": "spread"}]}))
    return {
        "read the topology": _median(rounds, lambda: hardware.read(Host(root, drivers.ALL))),
        "plan all interrupts": _median(rounds, lambda: engine.evaluate(Host(root, drivers.ALL), spread)),
    }


def _declared(root: str, rounds: int) -> dict[str, float]:
    """A declaration without origins, which a survey reports and a plan refuses."""
    _declare(pathlib.Path(root))
    state = node.survey(Host(root, drivers.ALL))
    settings = document.settings(state)
    return {
        "survey the training node": _median(rounds, lambda: node.survey(Host(root, drivers.ALL))),
        "render table and JSON": _median(
            rounds, lambda: (table.render(settings, 120), json.dumps(document.node(state)))
        ),
    }


def _median(rounds: int, work: Callable[[], object]) -> float:
    spent = []
    for _round in range(rounds):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return statistics.median(spent)
