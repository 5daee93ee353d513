# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleets of nodes, each with what rdma_check really says of one, and of which some differ."""

from __future__ import annotations

import copy
import functools
from typing import Any, Dict

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils import fabric_report as fleet
from ansible_collections.mlnode.tuning.tests.fixtures import fabric
from ansible_collections.mlnode.tuning.tests.fixtures.build import tree
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.work import is_linear
from hypothesis import given
from hypothesis import strategies as st
from mlnode.checks import expect
from mlnode.checks.rdma import neighbour, run
from mlnode.host.host import Host
from mlnode.linux.lldp import Neighbour

Nodes = Dict[str, Any]


@functools.lru_cache(maxsize=None)
def checked(name: str, declared: bool = False) -> list[dict[str, Any]]:
    """rdma_check's checks of a captured node; to be copied before anything is changed."""
    spec = fabric.EXPECT[name] if declared else {}
    return [check.document() for check in run.all_checks(Host(tree(name), run.MOUNTS), expect.parse(spec))]


def nodes(number: int, name: str = "roce8") -> Nodes:
    wanted = [one for one in checked(name) if one["name"] in (*fleet.COMPARED, "state")]
    return {f"gpu{place:03}": {"checks": copy.deepcopy(wanted)} for place in range(1, number + 1)}


def change(result: Any, name: str, target: str, found: str, **more: str) -> None:
    [one] = [one for one in result["checks"] if (one["name"], one["target"]) == (name, target)]
    one.update(found=found, **more)
    if "value" in one and "value" not in more:
        one["value"] = "" if more.get("verdict") else found


def lines(given: Nodes, **options: Any) -> list[str]:
    return [str(line) for line in fleet.report(given, **{"fail_on": "fail", **options})["failures"]]


@pytest.mark.parametrize("name", ["ndr-ib", "hdr-ib", "roce8", "efa"])
def test_nodes_that_are_alike(name: str) -> None:
    [found] = fleet.compare(nodes(4, name))
    assert (found.verdict.value, found.found[:12]) == ("pass", "4 alike in h")


def test_a_node_that_has_lost_a_gpu() -> None:
    given = nodes(4)
    change(given["gpu002"], "gpus", "node", "7")
    [line] = lines(given)
    assert line.startswith("gpu002 node: fleet fail: number of GPUs 7, where 3 of 4 have 8;")
    assert "lspci" in line


def test_a_node_with_another_firmware_on_its_gpus() -> None:
    given = nodes(4)
    for name, result in given.items():
        words = f"amdgpu 6.14.14, vbios 113-M3000100-10{3 if name == 'gpu003' else 2}, SPX/NPS1"
        change(result, "gpu_versions", "node", words, value=words)
    [line] = lines(given)
    assert line.startswith("gpu003 node: fleet fail: GPU versions amdgpu 6.14.14, vbios 113-M3000100-103,")
    assert "where 3 of 4 have amdgpu 6.14.14, vbios 113-M3000100-102" in line
    assert "bring all to one driver" in line


def cabled(result: Any, device: str, switch: str) -> None:
    """Add what rdma_check reports of a RoCE port where lldpd runs."""
    more = {"verdict": "skip", "expected": "", "source": "lldpctl -f json0", "advice": ""}
    more |= {"found": str(Neighbour(switch, "swp1")), "value": switch}
    result["checks"].append({"name": neighbour.NAMES[0], "target": f"{device}/1", **more})


def test_a_cable_in_the_leaf_of_another_rail() -> None:
    given = nodes(4)
    for result in given.values():
        for rail in range(3):
            cabled(result, f"mlx5_{rail}", f"leaf{rail}")
    assert fleet.report(given)["warnings"] == []
    last = given["gpu004"]["checks"]
    last[-1]["value"], last[-2]["value"] = last[-2]["value"], last[-1]["value"]
    warnings = fleet.report(given, "fail")["warnings"]
    assert [line.partition(" (expected")[0] for line in warnings] == [
        "leaf1: leaf_rails warn: 3 of mlx5_1, and gpu004 mlx5_2",
        "leaf2: leaf_rails warn: 3 of mlx5_2, and gpu004 mlx5_1",
    ]


def test_values_are_told_whether_they_are_declared_or_not() -> None:
    values = [fleet._values(checked("roce8", declared)) for declared in (False, True)]
    for known in values:
        assert known[fleet.Place("mlx5_3/1", "gid")].text == "3"
        assert known[fleet.Place("mlx5_3/1", "mtu")].text == "4096"
        assert known[fleet.Place("mlx5_3/1", "netdev_mtu")].text == "9000"
        assert known[fleet.Place("mlx5_3/1", "rate")].text == "400 Gb/sec (4X NDR)"
        assert known[fleet.Place("mlx5_3/1", "link_layer")].text == "Ethernet"
        assert known[fleet.Place("mlx5_3", "firmware", "MT_0000000838")].text == "28.43.1014"
    # Which check has a name that is none, nobody would ever notice.
    assert {place.name for place in values[0]} == {*fleet.COMPARED}


@pytest.mark.parametrize(
    ("name", "target", "value", "words"),
    [
        ("firmware", "mlx5_3", "28.39.1002", "firmware 28.39.1002, where 3 of 4 have 28.43.1014"),
        ("hca_type", "mlx5_3", "MT4123", "hca_type MT4123, where 3 of 4 have MT4129"),
        (
            *("rate", "mlx5_3/1", "200 Gb/sec (2X NDR)"),
            "rate 200 Gb/sec (2X NDR), where 3 of 4 have 400 Gb/sec (4X NDR)",
        ),
        ("mtu", "mlx5_3/1", "1024", "RDMA MTU 1024, where 3 of 4 have 4096"),
        ("netdev_mtu", "mlx5_3/1", "1500", "interface's MTU 1500, where 3 of 4 have 9000"),
        ("link_layer", "mlx5_3/1", "InfiniBand", "link_layer InfiniBand, where 3 of 4 have Ethernet"),
        ("gid", "mlx5_3/1", "5", "GID index 5, where 3 of 4 have 3"),
    ],
)
def test_one_that_differs_is_named(name: str, target: str, value: str, words: str) -> None:
    given = nodes(4)
    change(given["gpu002"], name, target, value)
    [line] = lines(given)
    assert line.startswith(f"gpu002 {target}: fleet fail: {words}; ")


def test_a_board_that_differs_has_a_firmware_of_its_own() -> None:
    given = nodes(4)
    change(given["gpu002"], "board_id", "mlx5_3", "MT_0000000900")
    change(given["gpu002"], "firmware", "mlx5_3", "32.40.1000")
    [line] = lines(given)
    assert "board_id MT_0000000900, where 3 of 4 have MT_0000000838" in line


def test_devices_that_differ_alike_are_one_line() -> None:
    given = nodes(4)
    for device in ("mlx5_0", "mlx5_3", "mlx5_4"):
        change(given["gpu002"], "firmware", device, "28.39.1002")
    [line] = lines(given)
    assert line.startswith("gpu002 mlx5_0, mlx5_3, mlx5_4: fleet fail: firmware 28.39.1002, ")


def test_no_majority_is_said() -> None:
    given = nodes(4)
    change(given["gpu002"], "firmware", "mlx5_3", "28.39.1002")
    change(given["gpu003"], "firmware", "mlx5_3", "28.39.1002")
    [line] = lines(given)
    words = "28.43.1014 on 2 (gpu001, gpu004), 28.39.1002 on 2 (gpu002, gpu003)"
    assert line.startswith(f"mlx5_3: fleet fail: firmware has no majority: {words}; ")


def test_many_values_without_a_majority_are_counted() -> None:
    given = nodes(20)
    for place, result in enumerate(given.values()):
        change(result, "firmware", "mlx5_3", f"28.39.{place // 3}")
    [line] = lines(given)
    assert "28.39.0 on 3 (gpu001, gpu002, gpu003), " in line
    assert "and 3 more" in line


@pytest.mark.parametrize("verdict", ["unknown", "skip"])
def test_a_value_that_a_node_could_not_tell_is_named(verdict: str) -> None:
    given = nodes(4)
    change(given["gpu002"], "firmware", "mlx5_3", "fw_ver does not exist", verdict=verdict, advice="")
    [line] = lines(given)
    words = "firmware is unknown (fw_ver does not exist), where 3 of 4 have 28.43.1014"
    assert line.startswith(f"gpu002 mlx5_3: fleet fail: {words}; ")


def test_a_value_that_none_could_tell() -> None:
    given = nodes(4)
    for result in given.values():
        change(result, "firmware", "mlx5_3", "EIO", verdict="unknown", advice="")
    [line] = lines(given)
    assert "firmware is unknown on all 4: gpu001, gpu002, gpu003, gpu004: EIO" in line
    for result in given.values():
        change(result, "firmware", "mlx5_3", "no such thing", verdict="skip", advice="")
    assert lines(given) == []


def test_a_port_without_a_usable_gid() -> None:
    given = nodes(4)
    change(given["gpu002"], "gid", "mlx5_3/1", "index 0: fe80::1 IB/RoCE v1 on x", verdict="fail")
    difference, own = lines(given)
    assert "GID index is unknown (none is usable: index 0: fe80::1 IB/RoCE v1 on x)" in difference
    assert own.startswith("gpu002 mlx5_3/1: gid fail: index 0: fe80::1")


def drop(result: Any, device: str) -> None:
    result["checks"] = [one for one in result["checks"] if one["target"].partition("/")[0] != device]


def test_a_device_that_is_not_there_is_one_line() -> None:
    given = nodes(4)
    drop(given["gpu002"], "mlx5_7")
    [line] = lines(given)
    assert line.startswith("gpu002 mlx5_7: fleet fail: not there, where 3 of 4 have it; ")


def test_a_device_that_others_do_not_have() -> None:
    given = nodes(4)
    for name in ("gpu001", "gpu002", "gpu003"):
        drop(given[name], "mlx5_7")
    [line] = lines(given)
    assert "gpu004 mlx5_7: fleet fail: there, where 3 of 4 have no such device" in line
    drop(given["gpu004"], "mlx5_6")
    given["gpu005"] = copy.deepcopy(given["gpu004"])
    given["gpu006"] = copy.deepcopy(given["gpu004"])
    assert any("of 6 nodes, which is not a majority: gpu004, gpu005, gpu006" in one for one in lines(given))


@cases.table
def test_a_node_that_was_not_checked_is_named(result: Any, words: str) -> None:
    [line] = lines({**nodes(3), "gpu009": result})
    assert line.startswith(f"gpu009: fleet fail: {words}; ")


def test_a_single_node_has_nothing_to_be_compared_with() -> None:
    found = fleet.report(nodes(1))
    assert found["failures"] == []
    assert found["notes"] == ["nodes: 1 checked: there is nothing to compare"]
    assert found["summary"] == {"skip": 1}


def test_nodes_without_rdma_are_no_pass() -> None:
    found = fleet.report({"a": {"checks": []}, "b": {"checks": []}})
    assert found["summary"] == {"skip": 1}


def test_what_nodes_say_of_themselves() -> None:
    given = nodes(3)
    change(given["gpu002"], "state", "mlx5_3/1", "1: DOWN", verdict="fail", advice="look at the cable")
    change(given["gpu003"], "state", "mlx5_4/1", "2: INIT", verdict="warn", advice="look at the manager")
    change(given["gpu003"], "state", "mlx5_5/1", "EIO", verdict="unknown", advice="")

    down = "gpu002 mlx5_3/1: state fail: 1: DOWN (expected 4: ACTIVE); look at the cable"
    assert len(fleet.report(given)["failures"]) == 2
    found = fleet.report(given, "fail")
    assert found["failures"] == [down]
    assert [line[:27] for line in found["warnings"]] == [
        "gpu003 mlx5_4/1: state warn",
        "gpu003 mlx5_5/1: state unkn",
    ]
    assert len(lines(given, fail_on="warn")) == 3
    assert lines(given, fail_on="never") == []
    assert len(fleet.report(given, "never")["warnings"]) == 3


def subnet(**verdicts: str) -> Any:
    return {
        "checks": [
            {"name": name, "target": "subnet", "verdict": verdict, "found": "x"}
            for name, verdict in verdicts.items()
        ]
    }


def test_what_the_subnet_says() -> None:
    told = subnet(manager="pass", links="fail", errors="unknown", topology="warn")
    found = fleet.report(nodes(2), "unknown", {"gpu001": told})
    assert found["failures"] == [
        "subnet of gpu001: links fail: x",
        "subnet of gpu001: errors unknown: x",
    ]
    assert found["warnings"] == ["subnet of gpu001: topology warn: x"]
    assert len(lines(nodes(2), fail_on="warn", subnet={"gpu001": told})) == 3
    assert lines(nodes(2), fail_on="never", subnet={"gpu001": told}) == []


@pytest.mark.parametrize(
    "result", [{}, None, {"failed": True, "msg": "ib_subnet: port"}, {"unreachable": True}]
)
def test_a_subnet_that_was_not_looked_at_is_no_success(result: Any) -> None:
    [line] = lines(nodes(2), subnet={"gpu001": result})
    assert line.startswith("gpu001: ib_subnet fail: ")


@given(order=st.permutations(["28.1", "28.1", "28.1", "28.2", ""]))
def test_the_majority_is_the_same_in_any_order(order: list[str]) -> None:
    given = nodes(5)
    for (_name, result), firmware in zip(given.items(), order):
        verdict = {} if firmware else {"verdict": "unknown", "advice": ""}
        change(result, "firmware", "mlx5_3", firmware or "EIO", **verdict)
    found = lines(given)
    assert len(found) == 2
    assert all(", where 3 of 5 have 28.1; " in line for line in found)
    assert {line.split()[0] for line in found} == {
        name for name, firmware in zip(given, order) if firmware != "28.1"
    }


def each_differs(number: int) -> Nodes:
    """Nodes of eight rails, every one with something of its own."""
    given = nodes(number)
    for place, result in enumerate(given.values()):
        change(result, "firmware", "mlx5_3", f"28.39.{place}")
        change(result, "netdev_mtu", "mlx5_0/1", "1500" if place % 3 else "9000")
    return given


def test_each_node_more_is_the_same_work() -> None:
    sizes = (32, 64, 128)
    fleets = {number: each_differs(number) for number in sizes}
    assert is_linear(sizes, lambda number: fleet.report(fleets[number]))


@pytest.mark.parametrize("checks", ["abc", ["x"], [{"name": "rate", "verdict": "pass"}], {"a": 1}, None])
def test_an_answer_that_makes_no_sense_is_that_of_its_node_alone(checks: Any) -> None:
    found = fleet.report({"n1": {"checks": checks}, "n2": {"checks": []}})
    assert [line for line in found["failures"] if "n1" in line]
    assert not [line for line in found["failures"] if "n2" in line]


def test_a_verdict_of_a_newer_version_is_no_success() -> None:
    one = dict.fromkeys(("name", "target", "expected", "found", "source", "advice"), "x")
    found = fleet.report({"n1": {"checks": [{**one, "verdict": "wow"}]}}, fail_on="warn")
    assert found["failures"]
