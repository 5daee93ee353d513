# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.topology import distance
from mlnode.topology.distance import Port
from mlnode.topology.model import (
    UNKNOWN,
    Cpu,
    Cpus,
    Distance,
    Gpu,
    Machine,
    Nic,
    Node,
    PciDevice,
    RdmaDevice,
    Topology,
)


def device(path: str, node: int | None = 0, physfn: str | None = None) -> PciDevice:
    """`40 01.0 u1 d1 x`: the host bridge and the way down from it."""
    root, *way = path.split()
    return PciDevice(way[-1], 0x15B3, 1, 0x020000, tuple(way), f"pci0000:{root}", None, node, None, physfn)


@cases.table
def test_what_lies_between_two_functions(one: str, other: str, kind: str) -> None:
    assert distance.between(device(one), device(other), one_node=False) == kind
    assert distance.between(device(other), device(one), one_node=False) == kind


@cases.table
def test_between_host_bridges_only_the_nodes_tell(
    one: int | None, other: int | None, one_node: bool, kind: str
) -> None:
    assert distance.between(device("40 r gpu", one), device("60 r nic", other), one_node) == kind


@cases.table
def test_a_host_bridge_that_the_firmware_divides_between_nodes_is_two(
    one: int | None, other: int | None, kind: str
) -> None:
    assert distance.between(device("40 r1 gpu", one), device("40 r2 nic", other), one_node=False) == kind


def test_functions_without_a_host_bridge_have_only_their_nodes() -> None:
    gpu = PciDevice("g", 1, 1, 0x030000, ("r", "g"), "", None, 0)
    nic = PciDevice("n", 1, 1, 0x020000, ("r", "n"), "", None, 1)

    assert distance.between(gpu, nic, one_node=False) == "SYS"


ADDRESSES = ("0000:01:00.0", "0000:02:00.0", "0000:03:00.0")
DEVICES = {
    address: PciDevice(address, 0x15B3, 1, 0x020000, (address,), "pci0000:00") for address in ADDRESSES
}


def test_ports_are_interfaces_with_hardware_and_rdma_devices_without_an_interface() -> None:
    first, second, third = ADDRESSES
    devices = {**DEVICES, "0000:01:00.1": PciDevice("0000:01:00.1", 1, 1, 1, (), "", physfn=first)}
    nics = [
        Nic("late", "physical", address=second, rdma=("mlx5_1",)),
        Nic("port1", "physical", address=first, port=1),
        Nic("port0", "virtio", address=first),
        Nic("vf", "virtual function", address=first),
        Nic("rep", "virtual", address=first),
        Nic("usb", "physical"),
        Nic("lost", "physical", address="0000:99:00.0"),
        Nic("bond0", "bond", rdma=("mlx5_1",)),
    ]
    rdma = [
        RdmaDevice("mlx5_1", second, netdevs=("late", "bond0")),
        RdmaDevice("efa_0", third),
        RdmaDevice("vf_0", "0000:01:00.1"),
        RdmaDevice("rxe0"),
        RdmaDevice("lost_0", "0000:99:00.0"),
    ]

    assert distance.ports(nics, rdma, devices) == (
        Port("port0", first, 0, ()),
        Port("port1", first, 1, ()),
        Port("late", second, 0, ("mlx5_1",)),
        Port("efa_0", third, 0, ("efa_0",)),
    )


def test_a_port_is_called_by_both_of_its_names() -> None:
    assert Port("eth0", "", 0, ("mlx5_0", "mlx5_1")).label == "eth0 mlx5_0 mlx5_1"
    assert Port("efa_0", "", 0, ("efa_0",)).label == "efa_0"


@pytest.mark.parametrize(
    "nodes, kind", [((Node(0, (0,)),), "NODE"), ((Node(0, (0,)), Node(1, (1,))), UNKNOWN), ((), UNKNOWN)]
)
def test_without_a_word_from_the_firmware_only_a_single_node_is_certain(
    nodes: tuple[Node, ...], kind: str
) -> None:
    one, other, _third = ADDRESSES
    devices = {
        one: PciDevice(one, 1, 1, 0x030200, (one,), "pci0000:01"),
        other: PciDevice(other, 1, 1, 0x020000, (other,), "pci0000:02"),
    }

    found = distance.matrix([Gpu(one, "NVIDIA", 1)], [Port("eth0", other, 0, ())], devices, nodes)

    assert [(entry.gpu, entry.nic, entry.kind) for entry in found] == [(one, "eth0", kind)]


def test_the_nearest_are_all_that_are_as_near() -> None:
    known = [
        Distance("g0", "a", "NODE"),
        Distance("g0", "b", "PXB"),
        Distance("g0", "c", "PXB"),
        Distance("g0", "d", UNKNOWN),
        Distance("g1", "a", UNKNOWN),
        Distance("g1", "b", "PIX"),
    ]

    assert distance.nearest(known, "g0", "abcd") == ("PXB", ("b", "c"))
    assert distance.nearest(known, "g0", "ad") == ("NODE", ("a",))
    assert distance.nearest(known, "g1", "a") == (UNKNOWN, ())
    assert distance.nearest(known, "g2", "abcd") == (UNKNOWN, ())


@cases.table
def test_among_equals_the_distance_of_their_nodes_decides(
    apart: tuple[int | None, ...], near: tuple[str, ...]
) -> None:
    known = [Distance("g0", name, "SYS", far) for name, far in zip("abc", apart)]

    assert distance.nearest(known, "g0", "abc") == ("SYS", near)
    # What is on the same node or switch comes first whatever the firmware says.
    assert distance.nearest([*known, Distance("g0", "d", "NODE", 99)], "g0", "abcd") == ("NODE", ("d",))


def test_a_distance_has_that_of_its_nodes() -> None:
    gpu, nic, _third = ADDRESSES
    devices = {
        gpu: PciDevice(gpu, 1, 1, 0x030200, (gpu,), "pci0000:01", node=0),
        nic: PciDevice(nic, 1, 1, 0x020000, (nic,), "pci0000:02", node=1),
    }
    nodes = (Node(0, (0,), 1, (10, 16)), Node(1, (1,), 1, (16, 10)))

    found = distance.matrix([Gpu(gpu, "NVIDIA", 1)], [Port("eth0", nic, 0, ())], devices, nodes)

    assert found == (Distance(gpu, "eth0", "SYS", 16),)


def test_a_coherent_link_reaches_what_is_on_the_node_of_its_cpu() -> None:
    known = [
        Distance("g0", name, kind) for name, kind in zip("abcde", ("PIX", "PHB", "NODE", "SYS", UNKNOWN))
    ]

    assert distance.coherent(known, Gpu("g0", "NVIDIA", 0x2941, coherent=True), "acde") == ("c",)
    assert distance.coherent(known, Gpu("g1", "NVIDIA", 0x2941, coherent=True), "abcde") == ()
    assert distance.coherent(known, Gpu("g0", "NVIDIA", 0x2330), "abcde") == ()


def at_nodes(gpu: int | None, nic: int | None, sockets: tuple[int | None, ...] = (0, 0, 1)) -> Topology:
    """A GPU and a NIC on two nodes of a machine whose CPU n is on node n, and at one of these sockets."""
    cpus = Cpus(tuple(Cpu(at, online=True, node=at, package=socket) for at, socket in enumerate(sockets)))
    return Topology(
        Machine("bare metal"),
        cpus,
        gpus=(Gpu("g0", "NVIDIA", 1, gpu),),
        nics=(Nic("eth0", "physical", node=nic),),
        rdma=(RdmaDevice("efa_0", node=nic),),
    )


@pytest.mark.parametrize("name", ["eth0", "efa_0"])
def test_nodes_of_one_socket(name: str) -> None:
    assert distance.one_socket(at_nodes(0, 1), "g0", [name])
    assert not distance.one_socket(at_nodes(0, 2), "g0", [name])
    # nothing is guessed
    for gpu, nic in ((0, None), (None, 1), (0, 3)):
        assert not distance.one_socket(at_nodes(gpu, nic), "g0", [name])
    assert not distance.one_socket(at_nodes(0, 1, (None, None)), "g0", [name])
