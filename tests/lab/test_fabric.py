# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rdma_check and the role fabric where they refuse; a node that is declared is in test_training.py."""

from __future__ import annotations

from typing import Any

import pytest

from . import guest_facts as facts
from .collection import Collection, Hosts
from .fabric_node import Fabric
from .machine import Machine

PORT = "/sys/class/infiniband/rxe0/ports/1"
DECLARED = "/etc/mlnode/declared.d/fabric.json"


@pytest.fixture(scope="module")
def fabric(baremetal_agent: Machine) -> Fabric:
    """With the agent, or each look would compile the library."""
    return Fabric(baremetal_agent)


def checked(fabric: Fabric, collection: Collection, **expect: Any) -> dict[str, Any]:
    """Name → verdict and what was found, of the checks of rxe0's port."""
    played = collection.task(
        "rdma_check", fabric.machine, expect={"devices": {"rxe0": expect}}, fail_on="never"
    )
    assert played.status == 0
    return {one["name"]: one for one in played.result["checks"] if one["target"].startswith("rxe0")}


# -- what the port says --------------------------------------------------------------------


def test_a_port_that_is_up_passes(fabric: Fabric, collection: Collection) -> None:
    found = checked(fabric, collection, netdev=fabric.rail, gid_type="RoCE v2")
    assert {
        name: found[name]["verdict"] for name in ("inventory", "state", "phys_state", "gid", "netdev")
    } == (dict.fromkeys(("inventory", "state", "phys_state", "gid", "netdev"), "pass"))
    assert found["state"]["found"] == fabric.machine.read(f"{PORT}/state") == "4: ACTIVE"


def test_what_software_does_not_have_is_no_pass(fabric: Fabric, collection: Collection) -> None:
    found = checked(fabric, collection)
    assert {found[name]["verdict"] for name in ("slot", "degradation", "aer") if name in found} == {"skip"}
    assert all(one["found"] for one in found.values() if one["verdict"] == "skip")


def test_a_gid_of_another_type_fails(fabric: Fabric, collection: Collection) -> None:
    gid = checked(fabric, collection, gid_type="IB/RoCE v1")["gid"]
    assert gid["verdict"] == "fail"
    assert gid["advice"]


def test_a_port_that_is_down_fails_with_its_state(fabric: Fabric, collection: Collection) -> None:
    fabric.machine.run(f"ip link set {fabric.rail} down")
    found = checked(fabric, collection)
    fabric.machine.run(f"ip link set {fabric.rail} up")
    assert (found["state"]["verdict"], found["state"]["found"]) == ("fail", "1: DOWN")
    assert found["phys_state"]["verdict"] == "fail"
    facts.until(lambda: fabric.machine.read(f"{PORT}/state") == "4: ACTIVE", "the port is up again")


def test_a_device_that_is_not_there_fails(fabric: Fabric, collection: Collection) -> None:
    played = collection.task("rdma_check", fabric.machine, expect={"devices": {"rxe7": {}}})
    assert played.status != 0
    assert "rxe7: inventory fail" in played.result["msg"]


# -- the role ------------------------------------------------------------------------------


def test_a_node_of_another_fabric_is_refused_before_it_is_changed(
    fabric: Fabric, collection: Collection
) -> None:
    played = collection.play(
        "site", Hosts.of(fabric.machine, "fabric"), **{**fabric.variables, "fabric_type": "infiniband"}
    )
    assert played.status != 0
    words = " ".join(played.output.split())
    assert "fabric_type is infiniband, and this node has RDMA ports of Ethernet only" in words
    assert fabric.machine.run(f"test -e {DECLARED}", check=False).returncode != 0
