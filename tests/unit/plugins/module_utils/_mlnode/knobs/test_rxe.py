# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A virtual machine whose one rail is Soft-RoCE, under the declarations of the role fabric: eth4 (virtio)
carries the default route, eth5 (igb) is what rxe0 is on."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import build
from ansible_collections.mlnode.tuning.tests.unit import door, rxe_machine
from ansible_collections.mlnode.tuning.tests.unit.dcb_machine import Bridge
from ansible_collections.mlnode.tuning.tests.unit.faults import no_disk
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import BARE, Nic
from mlnode.agent import node
from mlnode.checks import expect
from mlnode.checks.rdma import run
from mlnode.engine import engine
from mlnode.engine.engine import Request
from mlnode.engine.kind import Row
from mlnode.knobs.nccl import auto as nccl_auto
from mlnode.knobs.nic.kind import kind as nic
from mlnode.knobs.qos.kind import kind as qos
from mlnode.knobs.rail.kind import kind as rail
from mlnode.model.setting import Layer

from .irq.node import HARDWARE, igb
from .nic.node import virtio
from .qos.node import ROCE, QosNode

MTU = "/sys/class/net/eth5/mtu"
#: As the role fabric declares it
RAILS: dict[str, Any] = {"rails": True, "link_layer": "Ethernet", "management": False}
DECLARED = "/etc/mlnode/declared.d/fabric.json"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    yield from no_disk()


@pytest.fixture
def bare(tmp_path: pathlib.Path) -> QosNode:
    """Without any RDMA device."""
    roots = (HARDWARE.roots[0], replace(HARDWARE.roots[1], functions=(igb("eth5", "0000:41:00.0", "eth5"),)))
    build.build(replace(HARDWARE, roots=roots), str(tmp_path))
    found = QosNode(str(tmp_path))
    found.nics = {"eth4": virtio(), "eth5": Nic("igb", **BARE)}
    found.bridges = {"eth4": Bridge.bare(), "eth5": Bridge.bare()}
    found.carry("eth4")
    found.enable_agent()
    for folder in ("/run", "/var/lib"):
        found.put(f"{folder}/.keep", "")
    found.put("/sys/class/net/eth5/carrier", "1\n")
    found.install("dcb")
    return found


@pytest.fixture
def soft(bare: QosNode) -> QosNode:
    rxe_machine.add(bare, "eth5")
    return bare


def rule(**nics: Any) -> dict[str, Any]:
    return {"rules": [{"name": "rails", "nics": nics, "mtu": 4200}]}


def look(machine: QosNode, kind: Any, spec: dict[str, Any]) -> list[Row]:
    machine.forget()
    return [*engine.evaluate(machine, Request("fabric", kind, spec, (Layer.RUNTIME,))).rows]


@pytest.mark.parametrize(
    "nics", [RAILS, {"rdma": ["rxe0"]}, {"link_layer": "Ethernet"}, {"rails": [0]}], ids=str
)
def test_soft_roce_is_on_the_nic_that_it_names(soft: QosNode, nics: dict[str, Any]) -> None:
    outcome = door.apply(soft, Request("fabric", nic, rule(**nics)))
    assert [str(row.status) for row in outcome.rows] == ["changed"]
    assert soft.now(MTU) == "4200"
    assert soft.now("/sys/class/net/eth4/mtu") == "1500"

    soft.put(MTU, "1500\n")
    soft.forget()
    (item,) = [item for item in node.survey(soft).rows if item.row.setting.kind == "nic"]
    assert (item.row.setting.key, str(item.row.status)) == ("nic.rails.mtu", "drifted")


def test_what_is_on_the_management_path_is_no_rail_to_tune(bare: QosNode) -> None:
    """A machine with one NIC: the rail is there, and its rule means none."""
    rxe_machine.add(bare, "eth4")
    (row,) = look(bare, nic, rule(**RAILS))
    assert str(row.status) == "drifted"
    assert row.reason.startswith(
        "no NIC here matches all rails; link layer Ethernet; not management; here are"
    )
    assert "eth4 (virtio_net, 0000:00:03.0, rail 0)" in row.reason


# -- rules that mean nothing ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("nics", "status"),
    [
        (RAILS, "drifted"),
        ({"rdma": ["rxe0"]}, "drifted"),
        ({"link_layer": "Ethernet"}, "drifted"),
        ({"names": ["eth9"]}, "drifted"),
        ({"addresses": ["0000:99:00.0"]}, "drifted"),
        # Kinds of NIC, of which a node may have none
        ({"drivers": ["mlx5_core"]}, "unsupported"),
        ({"pci_ids": ["15b3:1021"]}, "unsupported"),
        ({"speeds": [400000]}, "unsupported"),
        ({"management": False, "link": "down"}, "unsupported"),
    ],
    ids=str,
)
def test_a_rule_that_asks_for_what_has_to_be_there(bare: QosNode, nics: dict[str, Any], status: str) -> None:
    (row,) = look(bare, nic, rule(**nics))
    assert str(row.status) == status
    assert "no NIC here matches" in row.reason


@pytest.mark.parametrize("nics", [RAILS, {"link_layer": "Ethernet"}, {"rails": True, "nodes": [7]}], ids=str)
def test_rails_of_another_kind_need_no_rule(bare: QosNode, nics: dict[str, Any]) -> None:
    """An image has rules for both kinds of fabric."""
    rxe_machine.add(bare, "eth5")
    bare.put("/sys/class/infiniband/rxe0/ports/1/link_layer", "InfiniBand\n")
    (row,) = look(bare, nic, rule(**nics))
    assert str(row.status) == "unsupported"


def test_it_is_said_once_by_a_setting_that_matters(bare: QosNode) -> None:
    rows = {row.setting.key: row for row in look(bare, qos, {"rules": [{**ROCE, "nics": RAILS}]})}
    said = [key for key, row in rows.items() if "no NIC here matches" in row.reason]
    assert said == ["qos.roce.global_pause"]
    assert [key for key, row in rows.items() if row.status.is_drift] == said
    others = {row.reason for key, row in rows.items() if key not in said}
    assert others == {"the rule roce means no NIC here: see qos.roce.global_pause"}
    assert len(rows) > 8


def test_of_several_settings_the_most_severe_stands_for_the_rule(bare: QosNode) -> None:
    spec = {"rules": [{"name": "rails", "nics": RAILS, "private_flags": {"rx_cqe_moder": True}, "mtu": 9000}]}
    rows = {row.setting.key: str(row.status) for row in look(bare, nic, spec)}
    assert rows == {"nic.rails.private-flag.rx_cqe_moder": "unsupported", "nic.rails.mtu": "drifted"}


def test_rails_in_ip_networks_are_no_exception(bare: QosNode) -> None:
    spec = {"rules": [{"name": "rails", "nics": {"rails": True}, "arp_ignore": 1, "arp_announce": 2}]}
    assert [str(row.status) for row in look(bare, rail, spec)] == ["drifted", "unsupported"]


def declare(machine: QosNode, **kinds: Any) -> None:
    machine.put(DECLARED, json.dumps({"format": 1, "name": "fabric", "kinds": kinds}))
    machine.forget()


def checked(machine: QosNode) -> dict[str, tuple[str, str]]:
    found = run.all_checks(machine, expect.parse({}))
    return {check.target: (str(check.verdict), check.found) for check in found if check.name == "rules"}


def test_the_check_of_the_fabric_fails_where_its_rules_mean_nothing(bare: QosNode) -> None:
    qos_rule = {"name": "rails", "nics": RAILS, "pfc": [3]}
    broad = {"name": "fabric", "nics": {"management": False}, "mtu": 1500}
    declare(bare, nic={"rules": [*rule(**RAILS)["rules"], broad]}, qos={"rules": [qos_rule]})
    found = checked(bare)
    assert {name: verdict for name, (verdict, _found) in found.items()} == {
        "nic.rails": "fail",
        "qos.rails": "fail",
    }
    assert "no NIC here matches all rails" in found["nic.rails"][1]

    rxe_machine.add(bare, "eth5")
    assert checked(bare) == {"nic.rails": ("pass", "eth5"), "qos.rails": ("pass", "eth5")}


def test_without_such_a_rule_there_is_nothing_to_check(bare: QosNode) -> None:
    declare(bare, nic={"rules": "rubbish"}, rail={"rules": []})
    assert {name: verdict for name, (verdict, _found) in checked(bare).items()} == {"node": "skip"}


# -- the traffic class of NCCL -------------------------------------------------------------


def test_no_traffic_class_where_no_rail_has_priorities(soft: QosNode) -> None:
    declare(soft, qos={"rules": [{**ROCE, "nics": RAILS}]})
    answer = nccl_auto.resolve(soft, "NCCL_IB_TC")
    assert answer.value is None
    words = "the priorities that give it a meaning are unsupported on every rail: eth5: the driver igb has no"
    assert answer.note.startswith(f"left out: {words}")


def test_a_traffic_class_where_the_rail_has_priorities(soft: QosNode) -> None:
    soft.bridges["eth5"] = Bridge()
    declare(soft, qos={"rules": [{**ROCE, "nics": RAILS}]})
    assert nccl_auto.resolve(soft, "NCCL_IB_TC").value == "106"


def test_no_traffic_class_where_the_priorities_are_other_nics(soft: QosNode) -> None:
    soft.bridges["eth4"] = Bridge()
    declare(soft, qos={"rules": [{**ROCE, "nics": {"names": ["eth4"]}}]})
    note = nccl_auto.resolve(soft, "NCCL_IB_TC").note
    assert note == "left out: no rule of kind qos that makes priorities means a rail (rxe0:1 on eth5 (igb))"


def test_a_tool_that_is_missing_is_no_proof(soft: QosNode) -> None:
    soft.put("/usr/sbin/dcb", "")
    for folder in ("/usr/sbin", "/usr/bin", "/sbin", "/bin"):
        soft.remove_file(f"{folder}/dcb")
    declare(soft, qos={"rules": [{**ROCE, "nics": RAILS}]})
    assert nccl_auto.resolve(soft, "NCCL_IB_TC").value == "106"
