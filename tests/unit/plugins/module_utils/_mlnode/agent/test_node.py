# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
from typing import Any

from ansible_collections.mlnode.tuning.tests.unit.machine import THP, Machine
from mlnode.agent import node
from mlnode.engine import declared, revert
from mlnode.engine.declared import Declaration
from mlnode.model.setting import Status

SWAPPINESS = "/proc/sys/vm/swappiness"


def declare(machine: Machine, name: str, **kinds: Any) -> None:
    machine.put(declared.path_of(name), declared.render(Declaration(name, kinds)).decode())


def sysctl(**settings: Any) -> dict[str, Any]:
    return {"settings": {key.replace("__", "."): value for key, value in settings.items()}}


def test_nothing_declared_is_not_compliant(machine: Machine) -> None:
    for found in (node.survey(machine), node.apply_all(machine)):
        assert found.rows == ()
        assert not found.compliant
        assert not found.drifted
        assert found.errors == (f"nothing is declared on this node: {declared.FOLDER} holds no declaration",)


def test_a_look_changes_nothing(machine: Machine) -> None:
    declare(machine, "a", sysctl=sysctl(vm__swappiness=10), thp={"enabled": "madvise"})
    before = machine.tree()
    found = node.survey(machine)
    assert machine.tree() == before
    assert found.drifted
    assert not found.changed
    assert not found.compliant


def test_all_is_applied_thp_first(machine: Machine) -> None:
    machine.enable_agent()
    declare(machine, "a", sysctl=sysctl(vm__swappiness=10, vm__min_free_kbytes=80000))
    declare(machine, "b", thp={"enabled": "madvise"})
    first = node.apply_all(machine)
    assert (first.errors, first.changed) == ((), True)
    assert {item.row.status for item in first.rows[1:]} == {Status.CHANGED}
    # thp.enabled makes the kernel raise it, so it has to come before.
    assert machine.now("/proc/sys/vm/min_free_kbytes") == "80000"
    assert [item.row.setting.key for item in first.rows] == [
        "agent.boot",
        "thp.enabled",
        "vm.swappiness",
        "vm.min_free_kbytes",
    ]
    second = node.apply_all(machine)
    assert (second.compliant, second.changed) == (True, False)
    assert node.survey(machine).compliant


def test_names_that_agree_share_a_row(machine: Machine) -> None:
    for name in ("a", "b", "c"):
        declare(machine, name, sysctl=sysctl(vm__swappiness=10))
    declare(machine, "d", sysctl=sysctl(vm__max_map_count=65530))
    found = node.apply_all(machine)
    assert [(item.row.setting.key, item.declared_by) for item in found.rows] == [
        ("vm.swappiness", ("a", "b", "c")),
        ("vm.max_map_count", ("d",)),
    ]


def test_the_worse_status_of_two_names_stays(machine: Machine) -> None:
    # `b` sorts after a's drop-in, so what overrides `a` is the drop-in of neither.
    declare(machine, "a", sysctl=sysctl(vm__swappiness=10))
    declare(machine, "b", sysctl=sysctl(vm__swappiness=10))
    machine.put(SWAPPINESS, "10\n")
    machine.put("/etc/sysctl.d/zz-mlnode-aa.conf.conf", "")
    machine.put("/etc/sysctl.d/zz-mlnode-a_theirs.conf", "vm.swappiness = 10\n")
    survey = node.survey(machine)
    assert [item.declared_by for item in survey.rows] == [("a", "b")]
    machine.unreadable["/etc/sysctl.d/zz-mlnode-a_theirs.conf"] = errno.EIO
    survey = node.survey(machine)
    assert survey.rows[0].row.status is Status.UNKNOWN


def test_one_failing_part_does_not_stop_the_others(machine: Machine) -> None:
    declare(machine, "a", sysctl=sysctl(vm__swappiness=10), thp={"enabled": "madvise"})
    declare(machine, "b", sysctl=sysctl(vm__max_map_count=262144))
    machine.enable_agent()
    machine.fails[SWAPPINESS] = errno.EPERM
    found = node.apply_all(machine)
    assert len(found.errors) == 1
    assert found.errors[0].startswith("a, sysctl: vm.swappiness: cannot write '10' to")
    assert machine.now(f"{THP}/enabled") == "always [madvise] never"
    assert machine.now("/proc/sys/vm/max_map_count") == "262144"
    assert machine.now(SWAPPINESS) == "60"
    assert found.changed
    assert not found.compliant
    states = {item.row.setting.key: item.row.status for item in found.rows}
    assert states == {
        "agent.boot": Status.OK,
        "thp.enabled": Status.CHANGED,
        "vm.swappiness": Status.DRIFTED,
        "vm.max_map_count": Status.CHANGED,
    }


def test_one_rejected_setting_does_not_stop_the_others_of_its_declaration(machine: Machine) -> None:
    declare(
        machine, "a", sysctl=sysctl(vm__swappiness=10, kernel__numa_balancing=0, vm__max_map_count=262144)
    )
    machine.fails["/proc/sys/kernel/numa_balancing"] = errno.EINVAL
    found = node.apply_all(machine)
    assert [error.split(": ")[1] for error in found.errors] == ["kernel.numa_balancing"]
    assert machine.now(SWAPPINESS) == "10"
    assert machine.now("/proc/sys/vm/max_map_count") == "262144"
    assert machine.now("/proc/sys/kernel/numa_balancing") == "1"


def test_a_node_whose_image_was_tuned_already_keeps_its_origin_from_the_first_boot(machine: Machine) -> None:
    declare(machine, "a", sysctl=sysctl(vm__swappiness=60))
    node.apply_all(machine)  # writes the drop-in
    machine.put(SWAPPINESS, "90\n")
    node.apply_all(machine)
    revert.revert(machine)
    assert machine.now(SWAPPINESS) == "60"


def test_a_declaration_edited_by_hand_is_told_and_stops_nobody_else(machine: Machine) -> None:
    declare(machine, "a", sysctl={"settings": {"vm.swappiness": 10}, "allow": 5})
    declare(machine, "b", sysctl=sysctl(vm__max_map_count=262144))
    found = node.survey(machine)
    assert len(found.errors) == 1
    assert found.errors[0].startswith("a, sysctl: sysctl.allow: must be a list, got 5")
    assert [item.row.setting.key for item in found.rows] == ["vm.swappiness", "vm.max_map_count"]


def test_both_are_told_if_the_part_that_is_understood_fails(machine: Machine) -> None:
    declare(machine, "a", sysctl={"settings": {"vm.swappiness": 10}, "allow": 5})
    declare(machine, "b", sysctl=sysctl(vm__swappiness=20))
    errors = [error for error in node.survey(machine).errors if error.startswith("a, sysctl: ")]
    assert len(errors) == 2
    assert [error for error in errors if "sysctl.allow: must be a list, got 5" in error]


def test_a_refused_setting_does_not_stop_the_boot(machine: Machine) -> None:
    declare(machine, "a", sysctl=sysctl(vm__overcommit_memory=2, vm__swappiness=10))
    found = node.apply_all(machine)
    assert {item.row.setting.key: item.row.status for item in found.rows} == {
        "vm.overcommit_memory": Status.REFUSED,
        "vm.swappiness": Status.CHANGED,
    }
    assert machine.now("/proc/sys/vm/overcommit_memory") == "0"
    assert found.drifted


def test_names_that_disagree_are_errors_of_both(machine: Machine) -> None:
    declare(machine, "a", sysctl=sysctl(vm__swappiness=10))
    declare(machine, "b", sysctl=sysctl(vm__swappiness=20))
    found = node.apply_all(machine)
    assert len(found.errors) == 2
    for error, own, other in ((found.errors[0], "a", "b"), (found.errors[1], "b", "a")):
        assert error.startswith(f"{own}, sysctl: vm.swappiness: ")
        assert declared.path_of(other) in error
    assert machine.now(SWAPPINESS) == "60"


def test_an_unknown_kind_is_named_and_the_rest_is_done(machine: Machine) -> None:
    declare(machine, "a", sysctl=sysctl(vm__swappiness=10), rings={"eth0": 4096})
    found = node.apply_all(machine)
    assert found.errors == (f"{declared.path_of('a')}: kind 'rings' is unknown to this version of mlnode",)
    assert machine.now(SWAPPINESS) == "10"
    assert not found.compliant


def test_a_damaged_declaration_is_named_and_the_others_are_applied(machine: Machine) -> None:
    declare(machine, "a", sysctl=sysctl(vm__swappiness=10))
    machine.put(declared.path_of("b"), "{")
    found = node.apply_all(machine)
    assert len(found.errors) == 1
    assert declared.path_of("b") in found.errors[0]
    assert machine.now(SWAPPINESS) == "10"
    assert not found.compliant


def test_a_folder_that_cannot_be_read_is_an_error(machine: Machine) -> None:
    machine.link(declared.FOLDER, declared.FOLDER)
    found = node.survey(machine)
    assert found.rows == ()
    assert len(found.errors) == 1
    assert "ELOOP" in found.errors[0]
