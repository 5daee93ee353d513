# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""vm.swappiness of a node with cgroup v1, whose slices have a value of their own."""

from __future__ import annotations

import errno
import pathlib
import shutil
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.checks.audit import kernel as audit
from mlnode.checks.audit.model import checks
from mlnode.checks.model import Check
from mlnode.engine import engine, revert
from mlnode.engine.engine import Request
from mlnode.engine.kind import Row
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.model.errors import RefusedError
from mlnode.model.setting import Status
from mlnode.topology import hardware

MEMORY = "/sys/fs/cgroup/memory"
SPEC: dict[str, Any] = {"settings": {"vm.swappiness": 1}}
GROUPS = ("system.slice", "user.slice", "system.slice/slurmd.service", "system.slice/a-b.slice")
SCOPE = "system.slice/docker-1.scope"


def born(machine: Machine, number: int) -> None:
    """What a boot makes: each slice takes the value of its parent, before sysctl.d is read."""
    for group in (*GROUPS, SCOPE):
        machine.put(f"{MEMORY}/{group}/memory.swappiness", f"{number}\n")


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Machine:
    machine = Machine.debian(str(tmp_path / "node"))
    machine.enable_agent()
    machine.put(f"{MEMORY}/memory.swappiness", "60\n")
    born(machine, 60)
    return machine


def row(machine: Machine) -> Row:
    machine.forget()
    (found,) = engine.evaluate(machine, Request("site", sysctl, SPEC)).rows
    return found


def test_services_get_the_declared_value(node: Machine) -> None:
    assert door.apply(node, Request("site", sysctl, SPEC)).rows[0].status is Status.CHANGED
    assert {node.now(f"{MEMORY}/{group}/memory.swappiness") for group in GROUPS} == {"1"}
    assert node.now(f"{MEMORY}/{SCOPE}/memory.swappiness") == "60", "a container has what it was started with"
    found = row(node)
    assert (found.status, found.reason) == (Status.OK, "cgroup v1: counts for 4 slices and services, too")
    assert not door.apply(node, Request("site", sysctl, SPEC)).changed


def test_the_node_alone_is_not_enough(node: Machine) -> None:
    door.apply(node, Request("site", sysctl, SPEC))
    born(node, 60)
    node.put(f"{MEMORY}/user.slice/memory.swappiness", "1\n")
    found = row(node)
    assert found.status is Status.DRIFTED
    words = "runtime is 1; 60 in system.slice, system.slice/a-b.slice, system.slice/slurmd.service"
    assert found.reason.startswith(words)


def test_a_boot_without_the_agent_leaves_services_as_they_were_made(node: Machine) -> None:
    door.apply(node, Request("site", sysctl, SPEC))
    node.remove("/etc/systemd/system/multi-user.target.wants/mlnode-apply.service")
    found = row(node)
    assert (found.status, found.reading.boot.value.text) == (Status.DRIFTED, None)
    assert "before systemd reads sysctl.d" in found.reason


@pytest.mark.parametrize("error", [errno.EINVAL, errno.EBUSY])
def test_a_service_that_refuses_costs_no_other_its_value(node: Machine, error: int) -> None:
    node.fails[f"{MEMORY}/user.slice/memory.swappiness"] = error
    with pytest.raises(RefusedError, match=r"user.slice.*all else is applied"):
        door.apply(node, Request("site", sysctl, SPEC))
    assert node.now("/proc/sys/vm/swappiness") == "1"
    assert node.now(f"{MEMORY}/system.slice/memory.swappiness") == "1"


def test_a_service_that_ends_meanwhile_costs_no_other_its_value(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, ending = node.write_kernel, f"{MEMORY}/system.slice/slurmd.service"

    def write(path: str, value: str) -> None:
        shutil.rmtree(node.root + ending, ignore_errors=True)
        written(path, value)

    monkeypatch.setattr(node, "write_kernel", write)
    (after,) = door.apply(node, Request("site", sysctl, SPEC)).rows
    assert (after.status, node.exists(ending)) == (Status.CHANGED, False)
    groups = ("system.slice", "user.slice", "system.slice/a-b.slice")
    assert {node.now(f"{MEMORY}/{group}/memory.swappiness") for group in groups} == {"1"}


def test_a_revert_puts_each_back(node: Machine) -> None:
    before = node.tuned()
    door.apply(node, Request("site", sysctl, SPEC))
    revert.revert(node)
    assert node.tuned() == before


@cases.table
def test_where_the_node_decides(node: Machine, path: str | None, text: str) -> None:
    if path:
        node.put(path, text)
    else:
        node.remove(f"{MEMORY}/memory.swappiness")  # cgroup v2
    door.apply(node, Request("site", sysctl, SPEC))
    assert (row(node).status, row(node).reason) == (Status.OK, "")
    assert node.now(f"{MEMORY}/system.slice/memory.swappiness") == "60"


def test_the_audit_sees_services(node: Machine) -> None:
    node.put("/proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n/dev/dm-1 partition 33554428 0 -2\n")
    node.put("/proc/sys/vm/swappiness", "1\n")
    found = swappiness(node)
    assert (str(found.verdict), found.found) == (
        "fail",
        "1; 60 in system.slice, system.slice/a-b.slice, system.slice/slurmd.service, user.slice",
    )
    born(node, 10)
    assert str(swappiness(node).verdict) == "pass"


def swappiness(node: Machine) -> Check:
    [found] = [one for one in checks(audit.LOOKS, node, hardware.topology(node)) if one.name == "swappiness"]
    return found
