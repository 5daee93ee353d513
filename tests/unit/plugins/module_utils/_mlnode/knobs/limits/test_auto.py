# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`memlock: auto`: given where something registers memory, and left alone everywhere else."""

from __future__ import annotations

import errno
import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures.build import tree
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.limits_machine import LimitsMachine
from ansible_collections.mlnode.tuning.tests.unit.machine import captured
from mlnode.agent import node
from mlnode.engine import engine
from mlnode.engine.engine import Request
from mlnode.engine.kind import Row
from mlnode.host.host import Host
from mlnode.knobs.limits.auto import LEFT
from mlnode.knobs.limits.kind import kind as limits
from mlnode.model.setting import BOTH_LAYERS, Layer, Status

FILE = "zz-mlnode-default.conf"
PAM, MANAGER = f"/etc/security/limits.d/{FILE}", f"/etc/systemd/system.conf.d/{FILE}"
DROP_IN = f"/etc/systemd/system/slurmd.service.d/{FILE}"
RDMA, GPU = "/sys/class/infiniband/mlx5_0", "/sys/devices/pci0000:00/0000:1b:00.0"
SPEC: dict[str, Any] = {"memlock": "auto"}


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> LimitsMachine:
    found = LimitsMachine.node(str(tmp_path / "node"))
    found.unit("slurmd")
    return found


def rows(host: Host, spec: dict[str, Any], layers: tuple[Layer, ...] = BOTH_LAYERS) -> dict[str, Row]:
    host.forget()
    plan = engine.evaluate(host, Request("default", limits, spec, layers))
    return {row.setting.key[len("limits.") :]: row for row in plan.rows}


def apply(machine: LimitsMachine, spec: dict[str, Any]) -> bool:
    machine.forget()
    return door.apply(machine, Request("default", limits, spec)).changed


def plug(machine: LimitsMachine, path: str) -> None:
    if path == RDMA:
        machine.put(f"{RDMA}/node_type", "1: CA\n")
        return
    for name, text in {"class": "0x030200", "vendor": "0x10de", "device": "0x2330"}.items():
        machine.put(f"{GPU}/{name}", f"{text}\n")
    machine.link("/sys/bus/pci/devices/0000:1b:00.0", "../../../devices/pci0000:00/0000:1b:00.0")


#: Captured machine → whether it has an RDMA device or a GPU
CAPTURED = {
    "trn1": True,
    "mi300x": True,
    "hgx": True,
    "cloud-gpu": True,
    "grace": True,
    "epyc256": True,
    "small-vm": False,
}


@pytest.mark.parametrize("name", [*CAPTURED])
def test_on_captured_machines(name: str) -> None:
    found = rows(captured(tree(name), limits.MOUNTS), SPEC)
    assert {row.reading.want for row in found.values()} == ({"unlimited"} if CAPTURED[name] else {None})
    assert (LEFT in {row.reason for row in found.values()}) is not CAPTURED[name]


@pytest.mark.parametrize("path", [RDMA, GPU])
def test_each_kind_of_device_asks_for_it(machine: LimitsMachine, path: str) -> None:
    plug(machine, path)
    assert apply(machine, SPEC)
    assert "* - memlock unlimited" in machine.text(PAM)
    assert "DefaultLimitMEMLOCK=infinity" in machine.text(MANAGER)
    assert "LimitMEMLOCK=infinity" in machine.text(DROP_IN)
    assert {str(row.status) for row in rows(machine, SPEC).values()} == {"ok"}


def test_elsewhere_it_is_left_with_the_reason(machine: LimitsMachine) -> None:
    machine.process(50, "slurmd")
    apply(machine, {"nofile": 65536, **SPEC})
    assert "memlock" not in machine.text(PAM)
    apply(machine, SPEC)
    found = rows(machine, SPEC)
    assert {(row.status, row.reason) for row in found.values()} == {(Status.OK, LEFT)}
    assert {row.document()["want"] for row in found.values()} == {None}
    shown = {key: row.reading.runtime.text for key, row in found.items()}
    assert shown == {
        "login.*.memlock": "not set",
        "login.root.memlock": "not set",
        "systemd.memlock": "8388608",
        "services.memlock": "8388608 (slurmd)",
    }
    assert not apply(machine, SPEC)


def test_a_device_that_is_not_there_yet_or_failed_takes_nothing_away(machine: LimitsMachine) -> None:
    plug(machine, RDMA)
    apply(machine, SPEC)
    machine.remove(f"{RDMA}/node_type")
    pathlib.Path(machine.real(RDMA)).rmdir()
    assert node.apply_all(machine).errors == ()
    assert not apply(machine, SPEC)
    assert "* - memlock unlimited" in machine.text(PAM)
    assert {row.reading.want for row in rows(machine, SPEC).values()} == {"unlimited"}
    assert {row.reading.want for row in rows(machine, SPEC, (Layer.BOOT,)).values()} == {"unlimited"}


def test_what_another_declaration_gave_is_taken_away(machine: LimitsMachine) -> None:
    apply(machine, {"memlock": "unlimited"})
    assert apply(machine, SPEC)
    assert not machine.exists(PAM)
    assert not machine.exists(DROP_IN)


def test_it_may_be_for_some_alone(machine: LimitsMachine) -> None:
    spec = {"memlock": {"login": "unlimited", "services": "auto", "slurmd": 1 << 30}}
    for _run in range(2):
        apply(machine, spec)
        assert "memlock unlimited" in machine.text(PAM)
        assert not machine.exists(MANAGER)
        assert "LimitMEMLOCK=1073741824" in machine.text(DROP_IN)
        assert rows(machine, spec)["services.memlock"].reading.want == "1073741824 (slurmd)"
    plug(machine, GPU)
    apply(machine, spec)
    assert rows(machine, spec)["services.memlock"].reading.want == "unlimited; 1073741824 (slurmd)"


def test_devices_that_cannot_be_read_are_not_taken_for_none(machine: LimitsMachine) -> None:
    machine.unreadable["/sys/bus/pci/devices"] = errno.EACCES
    assert {row.status for row in rows(machine, SPEC).values()} == {Status.UNKNOWN}
