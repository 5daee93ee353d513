# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import sysctl_ml
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner

MAP_COUNT = "/proc/sys/vm/max_map_count"
DECLARATION = "/etc/mlnode/declared.d/training.json"


@pytest.fixture
def sysctl(running: Make) -> Runner:
    return running(sysctl_ml)


def test_an_error_names_the_kind_and_the_declaration(machine: Machine, sysctl: Runner) -> None:
    msg = sysctl.msg(name="training", settings={"vm.swappiness": True})

    assert msg.startswith("sysctl training: vm.swappiness: YAML boolean true; ")


# -- what the kernel does not do --------------------------------------------------------------


def test_a_failed_write_names_all_there_is_to_know_and_everything_is_put_back(
    machine: Machine, sysctl: Runner
) -> None:
    machine.fails[MAP_COUNT] = errno.EINVAL
    before = machine.tree()

    msg = sysctl.msg(name="training", settings={"vm.swappiness": 1, "vm.max_map_count": 1048576})

    reason = "EINVAL (Invalid argument; the kernel does not accept this value)"
    failed = f"sysctl training: vm.max_map_count: cannot write '1048576' to {MAP_COUNT}: {reason}"
    assert msg == f"{failed}. put back: vm.swappiness = 60, {DECLARATION} = absent"
    assert machine.tree() == before


def test_a_node_without_root_is_told_so(machine: Machine, sysctl: Runner) -> None:
    machine.superuser = False
    before = machine.tree()

    assert "root is needed" in sysctl.msg(settings={"vm.swappiness": 1})
    assert machine.tree() == before
