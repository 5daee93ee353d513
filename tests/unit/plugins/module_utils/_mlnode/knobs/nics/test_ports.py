# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.knobs.nics import ports
from mlnode.knobs.nics.selection import Selection
from mlnode.topology.model import Machine, Nic, PciDevice, RdmaDevice, RdmaPort, Topology


def nic(name: str, address: str | None, kind: str = "physical", **more: Any) -> Nic:
    return Nic(name, kind, address=address, **{"driver": "mlx5_core", "node": 0, **more})


def function(address: str, driver: str, physfn: str | None = None) -> PciDevice:
    return PciDevice(address, 0x1D0F, 0xEFA0, 0x020000, (address,), "pci0000:00", driver, physfn=physfn)


NICS = (
    nic("eth0", "0000:00:03.0", "virtio", driver="virtio_net", node=None),
    nic("eth2", "0000:41:00.0", rdma=("mlx5_0",), rail=0),
    nic("eth3", "0000:81:00.0", rdma=("mlx5_1",), rail=1, node=1),
    nic("eth4", "0000:81:00.1", driver="ice", node=1, master="bond0"),
    nic("eth5", "0000:81:00.2", "virtual function", driver="iavf", node=1),
    nic("bond0", None, "bond", driver=None, node=None),
    nic("pf0vf0", "0000:41:00.0", "virtual"),
)
RDMA = (
    RdmaDevice("mlx5_0", "0000:41:00.0", 0, rail=0),
    RdmaDevice("mlx5_1", "0000:81:00.0", 1, rail=1),
    RdmaDevice("efa_0", "10000:10:1b.0", 1, rail=2),
    RdmaDevice("efa_vf", "10000:10:1b.1", 1),
    RdmaDevice("rxe0", None),
)
PCI = (function("10000:10:1b.0", "efa"), function("10000:10:1b.1", "efa", physfn="10000:10:1b.0"))
TOPOLOGY = Topology(Machine("bare metal"), nics=NICS, rdma=RDMA, pci=PCI)
PORTS = ports.ports(TOPOLOGY)


def chosen(**selection: Any) -> list[str]:
    return [port.label for port in ports.chosen(Selection(**selection), PORTS)]


def test_every_function_that_is_a_nic_is_a_port_in_the_order_of_the_bus() -> None:
    assert [(port.label, port.address, port.node, port.drivers, port.rails) for port in PORTS] == [
        ("eth0", "0000:00:03.0", None, ("virtio_net",), ()),
        ("eth2", "0000:41:00.0", 0, ("mlx5_core",), (0,)),
        ("eth3", "0000:81:00.0", 1, ("mlx5_core",), (1,)),
        ("eth4", "0000:81:00.1", 1, ("ice",), ()),
        ("eth5", "0000:81:00.2", 1, ("iavf",), ()),
        ("efa_0", "10000:10:1b.0", 1, ("efa",), (2,)),
        ("efa_vf", "10000:10:1b.1", 1, ("efa",), ()),
    ]


@cases.table
def test_each_list_that_is_given_has_to_name_the_nic(selection: dict[str, Any], labels: list[str]) -> None:
    assert chosen(**selection) == labels


@cases.table
def test_a_virtual_function_is_meant_only_where_it_is_named(
    selection: dict[str, Any], labels: list[str]
) -> None:
    assert chosen(**selection) == labels


def test_two_interfaces_on_one_function_are_one_port() -> None:
    """As on ConnectX-3: both ports have the same interrupts, which can only be in one place."""
    both = TOPOLOGY._replace(nics=(nic("eth6", "0000:04:00.0"), nic("eth7", "0000:04:00.0", port=1)), rdma=())
    (port,) = ports.ports(both)
    assert port.label == "eth6+eth7"
    assert ports.chosen(Selection(names=("eth7",)), (port,)) == (port,)


def test_a_sub_function_is_not_the_nic_it_lives_on() -> None:
    nics = (nic("eth2", "0000:41:00.0"), nic("en1sf0", "0000:41:00.0", "virtual function"))
    (port,) = ports.ports(TOPOLOGY._replace(nics=nics, rdma=()))
    assert (port.label, port.virtual) == ("eth2", False)


def test_an_rdma_device_belongs_to_the_nic_of_its_interface() -> None:
    """Without a PCI function, as Soft-RoCE, or of another one, as the second port of a device."""
    both = (RdmaPort(1, "Ethernet", "", "", ("eth2",)), RdmaPort(2, "InfiniBand", "", "", ("eth3",)))
    rdma = (
        RdmaDevice("mlx5_0", "0000:41:00.0", ports=both, netdevs=("eth2", "eth3")),
        RdmaDevice("rxe0", ports=(RdmaPort(1, "Ethernet", "", "", ("eth4",)),), netdevs=("eth4",)),
        RdmaDevice("rxe1"),
    )
    found = {port.label: port for port in ports.ports(TOPOLOGY._replace(rdma=rdma, pci=()))}
    assert {
        label: ([one.name for one in port.rdma], port.link_layers)
        for label, port in found.items()
        if port.rdma
    } == {
        "eth2": (["mlx5_0"], {"Ethernet"}),
        "eth3": (["mlx5_0"], {"InfiniBand"}),
        "eth4": (["rxe0"], {"Ethernet"}),
    }
    here = tuple(found.values())
    assert ports.chosen(Selection(rdma=("rxe0",)), here) == (found["eth4"],)
    assert ports.chosen(Selection(link_layer="Ethernet"), here) == (found["eth2"], found["eth4"])


def test_a_link_whose_driver_knows_no_states_is_up_by_its_carrier() -> None:
    (port,) = ports.ports(TOPOLOGY._replace(nics=(nic("eth0", "0000:00:03.0"),), rdma=()))
    assert not port.up
    (port,) = ports.ports(TOPOLOGY._replace(nics=(nic("eth0", "0000:00:03.0", carrier=True),), rdma=()))
    assert port.up


def test_a_selection_that_finds_nothing_is_told_with_what_is_there() -> None:
    found = ports.none_found(Selection(drivers=("bnxt_en",)), PORTS, TOPOLOGY)
    assert found == (
        "no NIC here matches drivers bnxt_en; here are: eth0 (virtio_net, 0000:00:03.0), eth2 (mlx5_core, "
        "0000:41:00.0, node 0, rail 0), eth3 (mlx5_core, 0000:81:00.0, node 1, rail 1), eth4 (ice, "
        "0000:81:00.1, node 1), eth5 (iavf, 0000:81:00.2, node 1), efa_0 (efa, 10000:10:1b.0, node 1, "
        "rail 2), efa_vf (efa, 10000:10:1b.1, node 1)"
    )


def test_a_long_list_of_what_is_there_is_cut() -> None:
    many = tuple(PORTS[1]._replace(address=f"0000:{bus:02x}:00.0") for bus in range(20))
    assert ports.none_found(Selection(), many, TOPOLOGY).endswith(", 12 more")


def test_a_machine_without_nics_says_so() -> None:
    empty = Topology(Machine("bare metal"))
    words = ports.none_found(Selection(), (), empty)
    assert words == "no physical NIC is here, nor any other on PCI"
    assert ports.none_found(Selection(), PORTS[4:5], empty) == (
        "no physical NIC is here; here are: eth5 (iavf, 0000:81:00.2, node 1)"
    )


def test_in_a_container_a_device_without_an_interface_is_its_hosts() -> None:
    inside = TOPOLOGY._replace(machine=Machine("container"))
    assert [port.label for port in ports.ports(inside)] == ["eth0", "eth2", "eth3", "eth4", "eth5"]
    assert ports.none_found(Selection(rails=()), (), inside) == (
        "no NIC here matches all rails, nor any other on PCI; NICs without an interface in the "
        "container belong to its host: declare them there"
    )


def test_a_function_without_a_driver_is_told_as_such() -> None:
    bare = TOPOLOGY._replace(nics=(), rdma=(RDMA[2],), pci=())
    here = ports.ports(bare)
    assert "efa_0 (no driver, 10000:10:1b.0" in ports.none_found(Selection(rails=(9,)), here, bare)


def test_a_bond_is_told_by_its_members() -> None:
    found = ports.none_found(Selection(names=("bond0",)), PORTS, TOPOLOGY)
    assert found == "bond0 (bond) has no interrupts of its own; use the interfaces below it: eth4"
    alone = TOPOLOGY._replace(nics=NICS[5:])
    assert ports.none_found(Selection(names=("bond0",)), (), alone) == (
        "bond0 (bond) has no interrupts of its own"
    )
