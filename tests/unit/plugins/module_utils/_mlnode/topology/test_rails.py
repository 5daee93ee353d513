# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import json

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures.build import tree as captured
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import (
    BRIDGE,
    GPU,
    NET,
    NODE,
    Tree,
    rail,
    two_nodes,
)
from mlnode.host.host import Host
from mlnode.topology import hardware, rails
from mlnode.topology.distance import Port
from mlnode.topology.management import RECORD
from mlnode.topology.model import UNKNOWN, Distance, Gpu, Nic, PciDevice, RdmaDevice, Topology
from mlnode.topology.sysfs import Reader

ROUTE = "/proc/net/route"
HEAD = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
DEFAULT6 = (
    f"{'0' * 32} 00 {'0' * 32} 00 fe80000000000000000000000000000{1} 00000400 00000002 00000000 00000003"
)


def route(name: str, flags: str = "0003", target: str = "00000000", mask: str = "00000000") -> str:
    return f"{HEAD}{name}\t{target}\t0102000A\t{flags}\t0\t0\t100\t{mask}\t0\t0\t0"


def nics(*names: str) -> list[Nic]:
    return [Nic(name, "physical", folder="/sys/devices/x", rdma=("mlx5_0",)) for name in names]


def management(tree: Tree, *names: str) -> tuple[frozenset[str], list[str]]:
    reader = Reader(tree.host)
    return rails.management(reader, nics(*names)), [problem.what for problem in reader.problems]


@pytest.mark.parametrize(
    "text, expected",
    [
        (route("eth0"), {"eth0"}),
        (route("eth0", flags="0001"), {"eth0"}),
        (route("eth0", flags="0002"), set()),  # not up
        (route("eth0", target="0000000A", mask="000000FF"), set()),
        (route("eth0", mask="00000080"), set()),
        (HEAD, set()),
        ("rubbish", set()),
    ],
)
def test_the_interface_of_the_default_route(tree: Tree, text: str, expected: set[str]) -> None:
    tree.put(ROUTE, text)

    assert management(tree, "eth0", "eth1") == (expected, [])


@pytest.mark.parametrize(
    "line, expected",
    [
        (f"{DEFAULT6}     eth1", {"eth1"}),
        (f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} ffffffff 00000001 00000000 00200200       lo", set()),
        (f"fd{'0' * 30} 40 {'0' * 32} 00 {'0' * 32} 00000100 00000001 00000000 00000001     eth1", set()),
    ],
)
def test_the_interface_of_the_default_route_of_ipv6(tree: Tree, line: str, expected: set[str]) -> None:
    tree.put(ROUTE, HEAD)
    tree.put("/proc/net/ipv6_route", line)

    assert management(tree, "eth0", "eth1") == (expected, [])


def test_what_a_bond_or_a_vlan_is_made_of_carries_the_route_too(tree: Tree) -> None:
    tree.put(ROUTE, route("bond0.100"))
    tree.link(f"{tree.net('bond0.100', uevent='DEVTYPE=vlan')}/lower_bond0", tree.net("bond0"))
    known = [
        Nic("bond0.100", "vlan"),
        Nic("bond0", "bond"),
        Nic("eth0", "physical", folder="/x", master="bond0", rdma=("mlx5_0",)),
        Nic("eth1", "physical", folder="/x", master="bond1", rdma=("mlx5_1",)),
    ]

    assert rails.management(Reader(tree.host), known) == {"bond0.100", "bond0", "eth0"}


def test_routes_that_cannot_be_read_are_told(tree: Tree) -> None:
    reader = Reader(tree.refusing({ROUTE: errno.EACCES}))

    assert rails.management(reader, nics("eth0")) == frozenset()
    assert [problem.path for problem in reader.problems] == [ROUTE]


def kept(tree: Tree, *entries: tuple[str, str, str]) -> None:
    """Of interfaces: name, address of the device and what each carries."""
    found = [
        {"name": name, "address": address, "carries": carries, "top": ""}
        for name, address, carries in entries
    ]
    tree.put(RECORD, json.dumps({"format": 1, "interfaces": found}))


@pytest.mark.parametrize(
    "text, expected",
    [
        (HEAD.strip(), {"now0", "eth2"}),
        (route("eth1"), {"eth1"}),  # what is there counts more
    ],
)
def test_before_there_is_a_route_the_record_tells(tree: Tree, text: str, expected: set[str]) -> None:
    card = tree.pci("pci0000:26/0000:26:01.0/0000:29:00.0", NET, "15b3:101f", 0)
    tree.net("now0", card)
    for name in ("eth1", "eth2"):
        tree.net(name)
    tree.put(ROUTE, text)
    kept(
        tree,
        ("then0", "0000:29:00.0", "default route"),
        ("eth2", "", "default route"),
        ("eth1", "", "connection"),
    )
    known = [Nic("now0", "physical", address="0000:29:00.0", rdma=("mlx5_0",)), *nics("eth1", "eth2")]
    reader = Reader(tree.host)

    assert rails.management(reader, known) == expected
    assert reader.problems == []


def test_a_record_that_cannot_be_used_is_told(tree: Tree) -> None:
    tree.put(ROUTE, HEAD.strip())
    tree.put(RECORD, "rubbish")
    reader = Reader(tree.host)

    assert rails.management(reader, nics("eth0")) == frozenset()
    assert [problem.path for problem in reader.problems] == [RECORD]
    assert "is damaged" in reader.problems[0].what


def test_without_rdma_nobody_asks_for_routes(tree: Tree) -> None:
    reader = Reader(tree.host)

    assert rails.management(reader, [Nic("eth0", "physical")]) == frozenset()
    assert reader.problems == []


PORTS = tuple(Port(name, f"0000:0{at}:00.0", 0, (f"mlx5_{at}",)) for at, name in enumerate("abcd"))
PLAIN = Port("plain", "0000:09:00.0", 0, ())
GPUS = (Gpu("g0", "NVIDIA", 1), Gpu("g1", "NVIDIA", 1))


def chosen(kinds: dict[str, str], avoid: str = "", models: dict[str, int] | None = None) -> str:
    """kinds: of ports a to d, GPU by GPU. models: of ports that are not like the others."""
    other = models or {}
    ports = (*PORTS, PLAIN)
    distances = [Distance(gpu, port, kind) for gpu in kinds for port, kind in zip("abcd", kinds[gpu].split())]
    distances += [Distance(gpu, "plain", "PIX") for gpu in kinds]
    devices = {
        port.address: PciDevice(port.address, 0x15B3, other.get(port.name, 0x1021), 0x020000, (), "")
        for port in ports
    }
    gpus = [gpu for gpu in GPUS if gpu.address in kinds]
    return "".join(port.name for port in rails.choose(ports, gpus, distances, devices, avoid))


def test_the_nearest_to_any_gpu_are_rails() -> None:
    assert chosen({"g0": "PIX NODE NODE SYS", "g1": "SYS SYS SYS PXB"}) == "ad"


def test_as_near_as_the_nearest_is_as_good() -> None:
    assert chosen({"g0": "PHB PHB NODE SYS", "g1": "SYS SYS NODE NODE"}) == "abcd"


def test_a_gpu_of_which_nothing_is_known_chooses_nothing() -> None:
    unknown = " ".join([UNKNOWN] * 4)

    assert chosen({"g0": unknown, "g1": "SYS SYS SYS PXB"}) == "d"
    assert chosen({"g0": unknown, "g1": unknown}) == "abcd"


def test_without_gpus_every_rdma_port_is_a_rail() -> None:
    assert chosen({}) == "abcd"


def test_rails_are_of_one_model_which_is_that_of_most() -> None:
    assert chosen({}, models={"b": 1}) == "acd"
    # Two of each: nobody can tell which are meant.
    assert chosen({}, models={"b": 1, "c": 1}) == "abcd"
    # Near comes first: a and b are near, and of two models.
    assert chosen({"g0": "PIX PIX NODE NODE"}, models={"b": 1}) == "ab"


def test_the_default_route_is_not_on_a_rail_unless_there_is_no_other() -> None:
    assert chosen({}, avoid="a") == "bcd"
    assert chosen({"g0": "PIX NODE NODE NODE"}, avoid="a") == "a"
    assert chosen({}, avoid="abcd") == "abcd"


def test_rails_are_numbered_in_the_order_of_the_bus() -> None:
    nics_, rdma = rails.numbered(
        [Nic("b", "physical"), Nic("a", "physical"), Nic("x", "physical")],
        [RdmaDevice("mlx5_1"), RdmaDevice("mlx5_0"), RdmaDevice("mlx5_9")],
        PORTS[:2],
    )

    assert [(nic.name, nic.rail) for nic in nics_] == [("b", 1), ("a", 0), ("x", None)]
    assert [(device.name, device.rail) for device in rdma] == [("mlx5_1", 1), ("mlx5_0", 0), ("mlx5_9", None)]


def test_the_members_of_a_bond_with_one_device_are_one_rail() -> None:
    ports = [
        Port("a", "0000:01:00.0", 0, ("mlx5_bond_0",), bond="bond0"),
        Port("b", "0000:01:00.1", 0, ("mlx5_bond_0",), bond="bond0"),
        Port("c", "0000:02:00.0", 0, ("mlx5_2",)),
    ]
    nics_ = [Nic(name, "physical") for name in "abc"]

    found, rdma = rails.numbered(nics_, [RdmaDevice("mlx5_bond_0"), RdmaDevice("mlx5_2")], ports)

    assert [nic.rail for nic in found] == [0, 0, 1]
    assert [device.rail for device in rdma] == [0, 1]


def test_software_is_a_rail_only_where_there_is_no_hardware(tree: Tree) -> None:
    two_nodes(tree)
    for number, name in ((3, "eth0"), (4, "eth1")):
        tree.net(name, tree.pci(f"pci0000:00/0000:00:{number:02x}.0", NET, driver="igb"))
    tree.rdma("rxe0", parent="eth1")
    tree.put(ROUTE, route("eth0"))
    assert {nic.name: nic.rail for nic in topology(tree).nics} == {"eth0": None, "eth1": 0}

    card = tree.pci("pci0000:00/0000:00:05.0", NET, "15b3:1021")
    tree.net("eth2", card)
    tree.rdma("mlx5_0", card)
    assert {nic.name: nic.rail for nic in topology(tree).nics} == {"eth0": None, "eth1": None, "eth2": 0}


def test_a_nic_on_another_bus_may_be_a_rail(tree: Tree) -> None:
    two_nodes(tree)
    tree.pci("pci0000:00/0000:00:01.0", GPU, "10de:2330", 0)
    tree.net("eth0", "/sys/devices/netdevsim1")
    tree.rdma("rxe0", parent="eth0")
    tree.put(ROUTE, HEAD.strip())

    assert [(nic.name, nic.rail) for nic in topology(tree).nics] == [("eth0", 0)]


@pytest.mark.parametrize("model, found", [("10de:2941", 3), ("10de:2901", 1)])
def test_what_a_gpu_reaches_over_its_own_link_to_the_cpu_is_a_rail(
    tree: Tree, model: str, found: int
) -> None:
    """GB200 as on EC2: one device on the switch of the GPU, two on other root ports of its node, the last one
    on another node. A B200 has no such link."""
    two_nodes(tree)
    tree.net("lo")
    tree.put(ROUTE, HEAD.strip())
    switch = "pci0000:20/0000:20:01.0/0000:21:00.0"
    for part in (switch.rpartition("/")[0], switch, f"{switch}/0000:22:00.0", f"{switch}/0000:22:01.0"):
        tree.pci(part, BRIDGE, node=0)
    tree.pci("pci0000:20/0000:20:02.0", BRIDGE, node=0)
    tree.pci(f"{switch}/0000:22:00.0/0000:23:00.0", GPU, model, 0)
    for number, place in enumerate(
        (
            f"{switch}/0000:22:01.0/0000:24:00.0",
            "pci0000:20/0000:20:02.0/0000:25:00.0",
            "pci0000:30/0000:30:01.0/0000:31:00.0",
            "pci0000:90/0000:90:01.0/0000:91:00.0",
        )
    ):
        tree.rdma(f"rdmap{number}", tree.pci(place, NET, "1d0f:efa3", 1 if number == 3 else 0))

    known = topology(tree)

    assert [device.rail for device in known.rdma] == [*range(found), *[None] * (4 - found)]
    # Nearest is what is on its switch, all the same.
    assert known.bindings[0].nics == ("rdmap0",)


def test_a_device_with_two_ports_has_the_number_of_its_first() -> None:
    both = ("mlx4_0",)
    ports = [Port("a", "0000:01:00.0", 0, both), Port("b", "0000:01:00.0", 1, both)]

    assert rails.numbered([], [RdmaDevice("mlx4_0")], ports)[1][0].rail == 0


def topology(tree: Tree) -> Topology:
    found = hardware.read(tree.host)
    assert found.problems == ()
    return found


def test_the_management_card_of_a_gpu_node_is_no_rail(tree: Tree) -> None:
    two_nodes(tree)
    rail(tree, 0x15, 0, 0)
    rail(tree, 0x97, 1, 1)
    for number in (0, 1):
        card = tree.pci(f"pci0000:26/0000:26:01.0/0000:29:00.{number}", NET, "15b3:101f", 0)
        tree.net(f"mgmt{number}", card)
        tree.rdma(f"mlx5_{2 + number}", card)
    tree.put(ROUTE, route("mgmt0"))

    found = topology(tree)

    assert {nic.name: nic.rail for nic in found.nics} == {
        "rail0": 0,
        "mgmt0": None,
        "mgmt1": None,
        "rail1": 1,
    }
    assert {device.name: device.rail for device in found.rdma} == {
        "mlx5_0": 0,
        "mlx5_1": 1,
        "mlx5_2": None,
        "mlx5_3": None,
    }


def test_on_a_socket_of_four_nodes_the_rail_is_the_next_ones(tree: Tree) -> None:
    """A first EPYC: a GPU on node 0, and NICs on node 1 beside it and on node 2 of the other socket."""
    tree.cpus("0 1 2", packages=1)
    tree.nodes("0", "1", "2")
    for number, row in enumerate(("10 16 32", "16 10 32", "32 32 10")):
        tree.put(f"{NODE}/node{number}/distance", row)
    tree.pci("pci0000:00/0000:00:01.0", GPU, "10de:2330", 0)
    for node in (1, 2):
        card = tree.pci(f"pci0000:{node}0/0000:{node}0:01.0", NET, "15b3:1021", node)
        tree.net(f"eth{node}", card)
        tree.rdma(f"mlx5_{node}", card)
    tree.put(ROUTE, HEAD.strip())

    known = topology(tree)

    assert [(nic.name, nic.rail) for nic in known.nics] == [("eth1", 0), ("eth2", None)]
    assert (known.bindings[0].distance, known.bindings[0].nics) == ("SYS", ("eth1",))


#: What Oracle's guides give as NCCL_IB_HCA of BM.GPU.H100.8, and all EFA devices of p6e-gb200.36xlarge
NAMED = {
    "oci-gpu": [f"mlx5_{number}" for number in range(18) if number not in (2, 11)],
    "gb200": [
        f"rdmap{bus}s0" for bus in (39, 40, 54, 55, 61, 62, 76, 77, 139, 140, 154, 155, 161, 162, 176, 177)
    ],
    "gcp-gpu": [],
}


@pytest.mark.parametrize("name", NAMED)
def test_rails_of_a_cloud_are_those_that_its_provider_names(name: str) -> None:
    found = hardware.read(Host(captured(name), hardware.MOUNTS))

    numbered = sorted((device.rail, device.name) for device in found.rdma if device.rail is not None)
    assert numbered == [*enumerate(NAMED[name])]
    assert found.problems == ()
