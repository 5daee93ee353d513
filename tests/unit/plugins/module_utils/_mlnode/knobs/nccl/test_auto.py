# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `auto` is, on machines made for it."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.knobs.nccl import auto as nccl_auto
from mlnode.knobs.nccl.auto import Answer, resolve
from mlnode.topology import management

from .node import EMPTY_GID, HCAS, declare_class, give_addresses, node, rail, roce

PORT = "/sys/class/infiniband/mlx5_0/ports/1"
ROUTES = "/proc/net/route"
ROUTES6 = "/proc/net/ipv6_route"
HEADER = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"


@pytest.fixture
def folder() -> Iterator[str]:
    for memory in in_memory():
        yield str(memory / "node")


def asked(machine: Machine, name: str) -> Answer:
    machine.forget()
    return resolve(machine, name)


# -- rails ---------------------------------------------------------------------------------


def test_the_rails_in_their_order_each_with_its_port(folder: str) -> None:
    machine = roce(folder, 11)
    names = ",".join(f"mlx5_{number}:1" for number in range(11))
    assert asked(machine, "NCCL_IB_HCA") == Answer(f"={names}")


def test_a_machine_without_rails(folder: str) -> None:
    answer = asked(node(folder), "NCCL_IB_HCA")
    assert answer.value is None
    assert answer.problem.absent == "/sys/class/infiniband: this machine has no RDMA device"


def test_a_device_that_is_neither_infiniband_nor_ethernet(folder: str) -> None:
    machine = node(folder, rail(0, "Unspecified", "rdmap0s0"))
    for name in ("NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_IB_TC"):
        words = asked(machine, name).problem.absent or ""
        assert words.startswith("rdmap0s0: neither InfiniBand nor Ethernet")


def test_rails_of_two_kinds_are_told(folder: str) -> None:
    machine = node(folder, rail(0), rail(1, "InfiniBand"))
    answer = asked(machine, "NCCL_IB_HCA")
    assert answer.value == HCAS
    assert answer.note == "some rails are InfiniBand, others Ethernet, and NCCL joins only like with like"


def test_only_the_ports_that_are_rails_of_a_device_with_several(folder: str) -> None:
    """As on ConnectX-3. What has an interface is its port 1; the storage network has taken port 2."""
    machine = roce(folder, 1)
    second = f"{folder}/sys/class/infiniband/mlx5_0/ports/2"
    shutil.copytree(f"{folder}{PORT}", second)
    shutil.rmtree(f"{second}/gid_attrs")  # of the other port's interface
    assert asked(machine, "NCCL_IB_HCA").value == "=mlx5_0:1"


def test_all_ports_of_a_device_without_interfaces(folder: str) -> None:
    machine = node(folder, rail(0, "InfiniBand"))
    shutil.copytree(f"{folder}{PORT}", f"{folder}/sys/class/infiniband/mlx5_0/ports/2")
    assert asked(machine, "NCCL_IB_HCA").value == "=mlx5_0:1,mlx5_0:2"


def test_more_rails_than_nccl_takes(folder: str) -> None:
    machine = node(folder, rail(0, "InfiniBand"))
    for number in range(2, 34):
        shutil.copytree(f"{folder}{PORT}", f"{folder}/sys/class/infiniband/mlx5_0/ports/{number}")
    words = asked(machine, "NCCL_IB_HCA").problem.absent
    assert words == "33 rails, and NCCL takes 32: name them"


def test_a_name_that_cannot_be_in_a_list(folder: str) -> None:
    machine = node(folder, rail(0, name="a,b"))
    words = asked(machine, "NCCL_IB_HCA").problem.absent
    assert words == "the name of the RDMA device 'a,b' cannot be part of a list: rename it"


def test_what_cannot_be_read_is_not_absent(folder: str) -> None:
    machine = roce(folder)
    path = next(
        os.path.join(at, "link_layer")[len(folder) :]
        for at, _folders, files in os.walk(f"{folder}/sys/devices")
        if "link_layer" in files
    )
    machine.unreadable[path] = errno.EIO
    answer = asked(machine, "NCCL_IB_HCA")
    assert answer.value is None
    assert "EIO" in (answer.problem.unreadable or "")


# -- where jobs meet -----------------------------------------------------------------------


def test_the_interface_of_the_default_route(folder: str) -> None:
    assert asked(roce(folder), "NCCL_SOCKET_IFNAME") == Answer("=eth0")


def test_the_preferred_one_of_two_default_routes(folder: str) -> None:
    machine = roce(folder)
    line = "{}\t00000000\t0101A8C0\t0003\t0\t0\t{}\t00000000\t0\t0\t0\n"
    machine.put(ROUTES, HEADER + line.format("rail1", 50) + line.format("eth0", 100))
    assert asked(machine, "NCCL_SOCKET_IFNAME").value == "=rail1"


def test_ipv6_alone(folder: str) -> None:
    machine = roce(folder)
    machine.put(ROUTES, HEADER)
    zero = "0" * 32
    machine.put(
        ROUTES6, f"{zero} 00 {zero} 00 fe80{'0' * 27}1 00000400 00000001 00000000 00000003     eth0\n"
    )
    assert asked(machine, "NCCL_SOCKET_IFNAME").value == "=eth0"


def test_without_a_route_what_the_record_has_kept(folder: str) -> None:
    """A bond and what it stands on: only the bond has an address."""
    machine = roce(folder)
    machine.put(ROUTES, HEADER)
    machine.link("/sys/class/net/rail0/upper_eth0", "../eth0")
    entries = [
        {"name": name, "address": "", "carries": "default route", "top": top}
        for name, top in (("eth0", ""), ("rail0", "eth0"))
    ]
    machine.put(management.RECORD, json.dumps({"format": 1, "interfaces": entries}))
    assert asked(machine, "NCCL_SOCKET_IFNAME") == Answer("=eth0")


def test_without_anything_all_but_what_is_local(folder: str) -> None:
    machine = roce(folder)
    machine.put(ROUTES, HEADER)
    answer = asked(machine, "NCCL_SOCKET_IFNAME")
    assert answer.value == "^=lo,docker0"
    assert answer.note.startswith("there is no default route")


def test_routes_that_cannot_be_read(folder: str) -> None:
    machine = roce(folder)
    machine.unreadable[ROUTES] = errno.EACCES
    assert "EACCES" in (asked(machine, "NCCL_SOCKET_IFNAME").problem.unreadable or "")


def test_an_interface_whose_name_cannot_be_in_a_list(folder: str) -> None:
    machine = roce(folder)
    machine.put(ROUTES, f"{HEADER}a,b\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n")
    assert "'a,b' cannot be part of a list" in (asked(machine, "NCCL_SOCKET_IFNAME").problem.absent or "")


# -- the index of the address --------------------------------------------------------------


@pytest.mark.parametrize("place", [3, 11])
def test_the_same_place_on_every_rail(folder: str, place: int) -> None:
    machine = roce(folder)
    give_addresses(machine, {"mlx5_0": [place], "mlx5_1": [place]})
    assert asked(machine, "NCCL_IB_GID_INDEX") == Answer(str(place))


@cases.table
def test_an_index_that_is_not_certain_is_left_out(
    folder: str, places: dict[str, list[int]], words: str
) -> None:
    machine = roce(folder)
    give_addresses(machine, places)
    answer = asked(machine, "NCCL_IB_GID_INDEX")
    assert (answer.value, answer.problem.problem) == (None, "")
    assert answer.note.startswith("left out: ")
    assert words in answer.note


@pytest.mark.parametrize(
    ("name", "what"), [("NCCL_IB_GID_INDEX", "index"), ("NCCL_IB_ADDR_FAMILY", "family")]
)
def test_neither_index_nor_family_on_infiniband(folder: str, name: str, what: str) -> None:
    machine = node(folder, rail(0, "InfiniBand"))
    assert asked(machine, name).note == f"left out: the {what} is RoCE's, and these rails are InfiniBand"


GLOBAL, LOCAL = "2001:0db8:0000:0000:0000:0000:0000:0001", "fe80:0000:0000:0000:0000:00ff:fe00:0001"


def give_ipv6(machine: Machine, device: str, **gids: str) -> None:
    """_1: the address at index 1, of RoCE v2."""
    at = f"/sys/class/infiniband/{device}/ports/1"
    for name, gid in gids.items():
        machine.put(f"{at}/gids/{name[1:]}", f"{gid}\n")
        machine.put(f"{at}/gid_attrs/types/{name[1:]}", "RoCE v2\n")


def test_rails_with_ipv6_alone_have_its_index_and_family(folder: str) -> None:
    machine = roce(folder)
    for device in ("mlx5_0", "mlx5_1"):
        give_ipv6(machine, device, _1=LOCAL, _5=GLOBAL, _6=EMPTY_GID)
    assert asked(machine, "NCCL_IB_GID_INDEX") == Answer("5")
    assert asked(machine, "NCCL_IB_ADDR_FAMILY") == Answer("AF_INET6")


def test_beside_ipv4_the_addresses_of_ipv6_do_not_count(folder: str) -> None:
    machine = roce(folder)
    give_addresses(machine, {"mlx5_0": [3], "mlx5_1": [3]})
    for device in ("mlx5_0", "mlx5_1"):
        give_ipv6(machine, device, _5=GLOBAL)
    assert asked(machine, "NCCL_IB_GID_INDEX") == Answer("3")
    assert asked(machine, "NCCL_IB_ADDR_FAMILY").note == "left out: NCCL looks for IPv4 by itself"


@pytest.mark.parametrize("gid", [LOCAL, EMPTY_GID])
def test_what_nccl_passes_over_is_no_address(folder: str, gid: str) -> None:
    machine = roce(folder)
    give_ipv6(machine, "mlx5_0", _5=GLOBAL)
    give_ipv6(machine, "mlx5_1", _5=gid)
    assert asked(machine, "NCCL_IB_GID_INDEX").note == (
        "left out: each rail must have one IPv6 address of RoCE v2, and mlx5_1:1 has none"
    )
    assert asked(machine, "NCCL_IB_ADDR_FAMILY").note == (
        "left out: mlx5_1:1 has no routable address of RoCE v2"
    )


def test_a_type_that_cannot_be_read_is_not_absent(folder: str) -> None:
    machine = roce(folder, 1)
    give_addresses(machine, {"mlx5_0": [3]})
    machine.unreadable[f"{PORT}/gid_attrs/types/3"] = errno.EIO
    answer = asked(machine, "NCCL_IB_GID_INDEX")
    assert (answer.value, answer.note) == (None, "")
    assert "EIO" in (answer.problem.unreadable or "")


# -- the traffic class ---------------------------------------------------------------------


def test_the_class_that_is_declared_for_the_nics(folder: str) -> None:
    machine = roce(folder)
    declare_class(machine, 106)
    declare_class(machine, 106, 106, name="other")
    assert asked(machine, "NCCL_IB_TC") == Answer("106")


@cases.table
def test_a_class_that_is_not_certain_is_left_out(folder: str, classes: list[int], words: str) -> None:
    machine = roce(folder)
    if classes:
        declare_class(machine, *classes)
    assert asked(machine, "NCCL_IB_TC") == Answer(note=words)


def test_no_class_on_infiniband(folder: str) -> None:
    machine = node(folder, rail(0, "InfiniBand"))
    declare_class(machine, 106)
    assert "InfiniBand" in asked(machine, "NCCL_IB_TC").note


@pytest.mark.parametrize("text", ["{", '{"format": 1, "name": "fabric", "kinds": {"qos": []}}'])
def test_a_damaged_declaration_is_reported_by_its_own(folder: str, text: str) -> None:
    machine = roce(folder)
    machine.put("/etc/mlnode/declared.d/fabric.json", text)
    assert nccl_auto.traffic_classes(machine) == {}


# -- what is declared by hand --------------------------------------------------------------


@cases.table
def test_whole_names_that_are_not_there(folder: str, name: str, value: str, words: str) -> None:
    assert nccl_auto.doubts(roce(folder), name, value) == words


@cases.table
def test_an_index_without_an_address(folder: str, index: str, words: str) -> None:
    machine = roce(folder)
    give_addresses(machine, {"mlx5_0": [3], "mlx5_1": [3, 5]})
    assert nccl_auto.doubts(machine, "NCCL_IB_GID_INDEX", index) == words


def test_an_index_on_infiniband_is_not_judged(folder: str) -> None:
    assert nccl_auto.doubts(node(folder, rail(0, "InfiniBand")), "NCCL_IB_GID_INDEX", "7") == ""


def test_what_cannot_be_read_is_said_of_a_declared_value(folder: str) -> None:
    machine = roce(folder, 1)
    give_addresses(machine, {"mlx5_0": [3]})
    machine.unreadable[f"{PORT}/gid_attrs/types/3"] = errno.EIO
    assert "EIO" in nccl_auto.doubts(machine, "NCCL_IB_GID_INDEX", "3")
