# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.dcb_machine import CONFIG, DcbMachine
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick, values
from hypothesis import given
from hypothesis import strategies as st
from mlnode.agent.mounts import ALL
from mlnode.host.host import Host
from mlnode.model.errors import HostError
from mlnode.model.setting import Value

PORT = "/roce/mlx5_0/1"
CLASS = "/sys/class/infiniband/mlx5_0/tc/1/traffic_class"


@pytest.fixture(name="machine")
def _machine(tmp_path: pathlib.Path) -> DcbMachine:
    return made(tmp_path / "node")


def made(folder: pathlib.Path) -> DcbMachine:
    machine = DcbMachine.debian(str(folder))
    assert isinstance(machine, DcbMachine)
    machine.put("/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n")
    machine.put(CLASS, "")
    machine.with_rdma_cm(mlx5_0=[1])
    return machine


@pytest.fixture(name="kept", scope="module")
def _kept(tmp_path_factory: pytest.TempPathFactory) -> DcbMachine:
    """One for all examples of a property, which takes long to make."""
    return made(tmp_path_factory.mktemp("node"))


def test_the_settings_of_a_port_are_files(machine: DcbMachine) -> None:
    assert machine.names("/roce") == ["mlx5_0"]
    assert machine.names("/roce/mlx5_0") == ["1"]
    assert machine.names(PORT) == ["cm-tos", "cm-mode", "traffic-class"]
    assert machine.names(f"{PORT}/cm-tos") == []
    assert machine.now(f"{PORT}/cm-tos") == "0"
    assert machine.now(f"{PORT}/cm-mode") == "RoCE v2"
    assert machine.now(f"{PORT}/traffic-class") == "none"


def test_a_folder_of_configfs_is_there_only_for_the_moment(machine: DcbMachine) -> None:
    before = machine.tree()
    machine.now(f"{PORT}/cm-tos")
    assert machine.tree() == before
    machine.write_kernel(f"{PORT}/cm-tos", "106")
    assert machine.tree() == before
    assert machine.now(f"{PORT}/cm-tos") == "106"


def test_a_folder_that_somebody_else_has_made_stays(machine: DcbMachine) -> None:
    machine.make_folder(f"{CONFIG}/mlx5_0")
    before = machine.tree()
    assert machine.now(f"{PORT}/cm-tos") == "0"
    assert machine.tree() == before


def test_a_folder_goes_though_the_port_has_no_such_file(machine: DcbMachine) -> None:
    machine.put("/sys/class/infiniband/mlx5_0/ports/2/state", "4: ACTIVE\n")
    before = machine.tree()
    assert machine.value("/roce/mlx5_0/2/cm-tos").absent
    assert machine.tree() == before


def test_a_traffic_class_is_set_and_unset(machine: DcbMachine) -> None:
    machine.write_kernel(f"{PORT}/traffic-class", "106")
    assert machine.now(CLASS) == "Global tclass=106"
    assert machine.now(f"{PORT}/traffic-class") == "106"
    machine.write_kernel(f"{PORT}/traffic-class", "none")
    assert machine.now(CLASS) == ""


def test_rules_for_some_queue_pairs_are_not_the_class_of_all(machine: DcbMachine) -> None:
    machine.put(CLASS, "src_ip=1.1.1.1/32,tclass=96\nGlobal tclass=106\nsrc_ip=1.1.1.2/32,tclass=97\n")
    assert machine.now(f"{PORT}/traffic-class") == "106"
    machine.put(CLASS, "src_ip=1.1.1.1/32,tclass=96\n")
    assert machine.now(f"{PORT}/traffic-class") == "none"


@pytest.mark.parametrize(
    "text", ["106\n", "Global tclass=many\n", "Global tclass=106 107\n", "\udcff\n", "Global tcl", "N/A\n"]
)
def test_a_traffic_class_that_is_not_understood_is_not_none(machine: DcbMachine, text: str) -> None:
    machine.put(CLASS, text.encode("utf-8", "surrogateescape"))
    assert "it says" in (machine.value(f"{PORT}/traffic-class").unreadable or "")


@pytest.mark.parametrize("text", ["", "\n", "N/A\n", "0x6a\n", "-1\n", "\udcff\n"])
def test_a_type_of_service_that_is_no_number_is_unreadable(
    machine: DcbMachine, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    read = DcbMachine.read_bytes

    def garbled(self: DcbMachine, path: str) -> bytes:
        own = path.startswith(CONFIG) and path.endswith("/default_roce_tos")
        return text.encode("utf-8", "surrogateescape") if own else read(self, path)

    monkeypatch.setattr(DcbMachine, "read_bytes", garbled)
    assert "expected a number" in (machine.value(f"{PORT}/cm-tos").unreadable or "")


def test_only_root_can_look_into_configfs(machine: DcbMachine) -> None:
    machine.superuser = False
    value = machine.value(f"{PORT}/cm-tos")
    assert value.absent is None
    assert "root is needed" in (value.unreadable or "")


def test_a_captured_tree_has_what_was_there(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path / "node")
    host = Host(str(tmp_path / "node"), ALL)
    monkeypatch.setattr(host, "is_superuser", lambda: True)
    assert "was not captured" in (host.value(f"{PORT}/cm-tos").unreadable or "")
    assert not os.path.exists(tmp_path / "node" / CONFIG.strip("/") / "mlx5_0")


@cases.table
def test_what_is_not_there_is_absent(machine: DcbMachine, path: str, words: str) -> None:
    assert machine.value(path) == Value(absent=words)
    assert not machine.exists(path)
    assert machine.blocked(path) == ""


def test_without_rdma_cm_there_is_nothing_to_set(machine: DcbMachine) -> None:
    os.rmdir(machine.root + CONFIG)
    assert "rdma_cm is not loaded" in (machine.value(f"{PORT}/cm-tos").absent or "")
    assert not machine.exists(f"{PORT}/cm-tos")


def test_without_the_vendors_driver_there_is_no_class(machine: DcbMachine) -> None:
    machine.remove(CLASS)
    assert "let the programs set theirs" in (machine.value(f"{PORT}/traffic-class").absent or "")
    assert machine.names(PORT) == ["cm-tos", "cm-mode"]


@cases.table
def test_what_can_be_no_value_is_refused(machine: DcbMachine, file: str, value: str) -> None:
    before = machine.tree()
    with pytest.raises(HostError, match="EINVAL"):
        machine.write_kernel(f"{PORT}/{file}", value)
    assert machine.tree() == before


def test_what_is_told_only_is_blocked(machine: DcbMachine) -> None:
    assert machine.blocked(f"{PORT}/cm-mode") == f"{PORT}/cm-mode is read-only"
    assert machine.blocked(f"{PORT}/cm-tos") == ""
    machine.read_only[CLASS] = "read-only"
    assert machine.blocked(f"{PORT}/traffic-class") == "read-only"


@quick
@given(
    parts=st.lists(
        st.sampled_from(["roce", "mlx5_0", "..", "1", "cm-tos", "traffic-class"]) | st.text(max_size=6),
        max_size=5,
    ),
    value=values,
)
def test_any_path_and_value_raise_nothing_but_host_errors(
    kept: DcbMachine, parts: list[str], value: str
) -> None:
    machine = kept
    path = "/".join(["/roce", *parts])
    machine.value(path)
    machine.names(path)
    machine.exists(path)
    machine.blocked(path)
    try:
        machine.write_kernel(path, value)
    except HostError:
        return
    now = machine.now(path)
    assert now == value.strip() or int(now) == int(value)
