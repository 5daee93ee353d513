# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Words of launchers, as their manuals have them: mpirun(1) of Open MPI, srun(1)."""

from __future__ import annotations

import shlex

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure import launcher
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure.launcher import Place

PLACES = [Place("192.0.2.1", "gpu01"), Place("192.0.2.2", "gpu02")]

WORDS = {
    "mpirun": "mpirun --host localhost:8,192.0.2.2:8 -np 16 --map-by slot --bind-to none -x A -x B",
    "srun": """srun --nodes 2 --nodelist gpu01,gpu02 --ntasks 16 --ntasks-per-node 8 --exclusive
        --kill-on-bad-exit=1 --export=ALL""",
    "ssh": "",
    "first": "",
}


@pytest.mark.parametrize("name", WORDS)
def test_a_launcher_starts_all_processes_of_all_nodes(name: str) -> None:
    assert launcher.words(name, PLACES, 8, ["A", "B"]) == shlex.split(WORDS[name])
