# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Probes on simulated paths; tests/system has real ones."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit.path_machine import HERE, Path, PathMachine
from mlnode.checks.campaign import probe

PEER = "10.0.0.7"


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> PathMachine:
    return PathMachine(str(tmp_path))


def probed(machine: PathMachine, seconds: float = 5.0) -> dict[str, Any] | None:
    return probe.losses_and_mtu(machine, HERE, PEER, seconds)


def test_a_good_path(machine: PathMachine) -> None:
    found = probed(machine)

    sizes = len(machine.bursts)
    assert found == {"sent": 25 * sizes, "lost": 0, "mtu": None}
    assert sizes > 10


def test_a_hole_is_named_by_the_greatest_size_that_arrives(machine: PathMachine) -> None:
    machine.paths[PEER] = Path(mtu=4100)

    found = probed(machine)

    assert found is not None
    assert (found["mtu"], found["lost"]) == (4092, 0)


def test_losses_of_all_sizes_that_arrive(machine: PathMachine) -> None:
    machine.lost[PEER] = [1, 0, 2]

    found = probed(machine)

    assert found is not None
    assert (found["lost"], found["mtu"]) == (3, None)


def test_a_peer_that_is_down(machine: PathMachine) -> None:
    machine.paths[PEER] = Path(mtu=0)

    found = probed(machine)

    assert found is not None
    assert found["sent"] == found["lost"] > 0
    assert found["mtu"] is None


@pytest.mark.parametrize(("seconds", "number"), [(0.0, 0), (0.6, 0), (0.71, 5), (0.9, 15), (600.0, 25)])
def test_it_takes_no_longer_than_there_is_time(machine: PathMachine, seconds: float, number: int) -> None:
    assert (probed(machine, seconds) is None) == (number == 0)
    assert {sent for _peer, sent in machine.bursts} == ({number} if number else set())


def test_a_node_that_cannot_send(machine: PathMachine) -> None:
    machine.kinds[PEER] = "local"

    assert probed(machine) is None
