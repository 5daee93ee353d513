# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Words that start a program on several nodes at once, from the first of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Place(NamedTuple):
    """A node for a launcher. address: for mpirun's SSH. hostname: for Slurm."""

    address: str
    hostname: str


def words(launcher: str, places: Sequence[Place], each: int, variables: Iterable[str] = ()) -> list[str]:
    """Begin of the command line, for the first of the places; empty for a launcher that starts no others.
    each: processes of a node. variables: names of the environment for them."""
    processes = len(places) * each
    if launcher == "mpirun":
        # Open MPI 5 does not find the slots of the node that it runs on by its address (prrte, pull request
        # 2258). It starts the others by its own SSH, and hands on only the variables that are named.
        addresses = ["localhost", *(place.address for place in places[1:])]
        hosts = ",".join(f"{address}:{each}" for address in addresses)
        named = [word for name in variables for word in ("-x", name)]
        options = ["--host", hosts, "-np", processes, "--map-by", "slot", "--bind-to", "none", *named]
        return ["mpirun", *map(str, options)]
    if launcher == "srun":
        hostnames = ",".join(place.hostname for place in places)
        options = ["--nodes", len(places), "--nodelist", hostnames, "--ntasks", processes]
        options += ["--ntasks-per-node", each]
        return ["srun", *map(str, options), "--exclusive", "--kill-on-bad-exit=1", "--export=ALL"]
    return []
