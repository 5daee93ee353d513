# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import agent, node_revert, sysctl_ml, thp
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner
from mlnode.engine.units import NIC_PATH_UNIT

SWAPPINESS = "/proc/sys/vm/swappiness"
DROP_IN = "/etc/sysctl.d/zz-mlnode-default.conf"
DECLARATION = "/etc/mlnode/declared.d/default.json"


@pytest.fixture
def revert(running: Make) -> Runner:
    return running(node_revert)


def test_check_mode_predicts_and_the_run_makes_the_node_what_it_was(
    machine: Machine, revert: Runner, running: Make
) -> None:
    before = machine.tree()
    running(agent).ok()
    running(thp).ok(enabled="madvise")
    running(sysctl_ml).ok(settings={"vm.swappiness": 1, "vm.min_free_kbytes": "auto"})
    tuned = machine.tree()

    predicted = revert.ok(check=True)
    assert machine.tree() == tuned
    done = revert.ok()

    assert machine.tree() == before
    assert predicted.changed
    assert predicted.result == done.result


def test_what_is_put_back_is_listed_newest_first_with_what_it_is_again(
    machine: Machine, revert: Runner, running: Make
) -> None:
    machine.put("/etc/sysctl.d/.keep", "")
    running(thp).ok(enabled="madvise")
    running(sysctl_ml).ok(settings={"vm.swappiness": 1})
    drop_in, declaration = machine.read(DROP_IN), machine.read(DECLARATION)

    done = revert.ok()

    assert done.result["reverted"] == [
        {"key": DROP_IN, "value": "removed"},
        {"key": "vm.swappiness", "value": "60"},
        {"key": DECLARATION, "value": "removed"},
        {"key": "thp.enabled", "value": "always"},
    ]
    assert [*done.diff] == ["runtime", DROP_IN, DECLARATION]
    assert done.diff["runtime"] == (
        "vm.swappiness = 1\nthp.enabled = always [madvise] never\n",
        "vm.swappiness = 60\nthp.enabled = always\n",
    ) or done.diff["runtime"] == (
        "vm.swappiness = 1\nthp.enabled = madvise\n",
        "vm.swappiness = 60\nthp.enabled = always\n",
    )
    assert done.diff[DROP_IN] == (drop_in, "")
    assert done.diff[DECLARATION] == (declaration, "")


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("systemd", [False, True])
def test_a_running_systemd_has_to_be_told_of_a_removed_unit(
    machine: Machine, revert: Runner, running: Make, systemd: bool, check: bool
) -> None:
    if systemd:
        machine.put("/run/systemd/system/.keep", "")
    running(agent).ok()
    machine.reloads = 0

    revert.ok(check)

    assert machine.reloads == int(systemd and not check)
    assert machine.active == ({NIC_PATH_UNIT} if systemd and check else set())


def test_a_lost_record_stops_the_revert_and_there_is_a_way_out(
    machine: Machine, revert: Runner, running: Make
) -> None:
    before = machine.tree()
    running(sysctl_ml).ok(settings={"vm.swappiness": 1})
    for path in ("/var/lib/mlnode/origin.json", "/etc/mlnode/origin.json"):
        machine.remove(path)

    assert "mlnode revert --without-origin" in revert.msg()
    predicted = revert.ok(check=True, without_origin=True)
    assert machine.exists(DROP_IN)
    done = revert.ok(without_origin=True)

    assert predicted.changed
    assert done.result["reverted"] == predicted.result["reverted"]
    assert done.result["stays"] == ["vm.swappiness = 1 until the node is booted"]
    machine.put(SWAPPINESS, "60\n")
    assert machine.tree().items() - before.items() <= {("/etc/sysctl.d", ("/", 0))}


def test_that_the_copy_of_the_record_is_used_is_a_warning(
    machine: Machine, revert: Runner, running: Make
) -> None:
    running(sysctl_ml).ok(settings={"vm.swappiness": 1})
    machine.remove("/var/lib/mlnode/origin.json")
    done = revert.ok()
    assert any("its copy /etc/mlnode/origin.json is used" in words for words in done.warnings)
