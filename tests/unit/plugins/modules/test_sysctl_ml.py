# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import sysctl_ml
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner

SWAPPINESS = "/proc/sys/vm/swappiness"
MAP_COUNT = "/proc/sys/vm/max_map_count"
DROP_IN = "/etc/sysctl.d/zz-mlnode-training.conf"
DECLARATION = "/etc/mlnode/declared.d/training.json"
MODULES = "/etc/modules-load.d/mlnode-training.conf"


@pytest.fixture
def sysctl(running: Make) -> Runner:
    return running(sysctl_ml)


# -- bad input -----------------------------------------------------------------------------


def test_an_error_names_the_kind_and_the_declaration(machine: Machine, sysctl: Runner) -> None:
    msg = sysctl.msg(name="training", settings={"vm.swappiness": True})

    assert msg.startswith("sysctl training: vm.swappiness: YAML boolean true; ")


def test_two_declarations_that_disagree_are_both_named(machine: Machine, sysctl: Runner) -> None:
    sysctl.ok(name="training", settings={"vm.swappiness": 1})
    before = machine.tree()

    msg = sysctl.msg(name="fabric", settings={"vm.swappiness": 10})

    assert msg == (
        "sysctl fabric: vm.swappiness: declared as '10' by fabric and as '1' by training "
        f"({DECLARATION}): the two must agree, or one must leave it out"
    )
    assert machine.tree() == before


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


# -- boot layer ----------------------------------------------------------------------------
