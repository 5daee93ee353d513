# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno

from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import NET, Tree
from mlnode.host.host import Host
from mlnode.topology import nics, pci, rdma
from mlnode.topology.model import Nic, RdmaDevice, RdmaPort
from mlnode.topology.sysfs import Reader


def read(host: Host) -> tuple[dict[str, RdmaDevice], dict[str, Nic], list[str]]:
    reader = Reader(host)
    devices = pci.by_address(pci.read(reader))
    interfaces = nics.read(reader, devices)
    found = rdma.read(reader, interfaces, devices)
    joined = rdma.joined(interfaces, found)
    problems = [problem.what for problem in reader.problems]
    return {device.name: device for device in found}, {nic.name: nic for nic in joined}, problems


def test_a_device_with_all_it_says(tree: Tree) -> None:
    card = tree.pci("pci0000:00/0000:00:03.0", NET, node=1)
    tree.net("eth0", card)
    tree.rdma("mlx5_0", card)

    devices, interfaces, problems = read(tree.host)

    assert problems == []
    assert devices["mlx5_0"] == RdmaDevice(
        name="mlx5_0",
        address="0000:00:03.0",
        node=1,
        ports=(RdmaPort(1, "Ethernet", "ACTIVE", "400 Gb/sec (4X NDR)", ("eth0",)),),
        netdevs=("eth0",),
    )
    assert interfaces["eth0"].rdma == ("mlx5_0",)


def test_a_machine_without_rdma_has_none_and_no_problem(tree: Tree) -> None:
    tree.net("eth0", tree.pci("pci0000:00/0000:00:03.0", NET))

    devices, interfaces, problems = read(tree.host)

    assert (devices, interfaces["eth0"].rdma, problems) == ({}, (), [])


def test_a_folder_that_cannot_be_looked_at_is_told(tree: Tree) -> None:
    tree.net("eth0", tree.pci("pci0000:00/0000:00:03.0", NET))

    devices, _interfaces, problems = read(tree.refusing({"/sys/class/infiniband": errno.EACCES}))

    assert devices == {}
    assert len(problems) == 1
    assert "EACCES" in problems[0]


def test_a_function_with_two_ports_is_told_apart_by_the_port(tree: Tree) -> None:
    card = tree.pci("pci0000:00/0000:00:03.0", NET)
    tree.net("eth0", card)
    tree.net("eth1", card, dev_port=1)
    tree.rdma("mlx4_0", card, ports=2)
    tree.rdma("second", card, ports=1)

    devices, interfaces, _problems = read(tree.host)

    assert devices["mlx4_0"].netdevs == ("eth0", "eth1")
    assert devices["second"].netdevs == ("eth0",)
    assert interfaces["eth1"].rdma == ("mlx4_0",)


def test_alone_on_its_function_the_port_of_an_interface_says_nothing(tree: Tree) -> None:
    """The driver of a card with two functions may number its ports through."""
    for number in (0, 1):
        card = tree.pci(f"pci0000:00/0000:00:03.{number}", NET)
        tree.net(f"eth{number}", card, dev_port=number)
        tree.rdma(f"bnxt_re{number}", card)

    devices, _interfaces, _problems = read(tree.host)

    assert [device.netdevs for device in devices.values()] == [("eth0",), ("eth1",)]


def test_a_port_of_a_switch_on_the_card_is_not_where_its_rdma_is(tree: Tree) -> None:
    card = tree.pci("pci0000:00/0000:00:03.0", NET)
    tree.net("eth0", card)
    tree.net("rep0", card, phys_port_name="pf0vf0")
    tree.rdma("mlx5_0", card)

    assert read(tree.host)[0]["mlx5_0"].netdevs == ("eth0",)


def test_a_bond_of_two_ports_has_the_rdma_device_of_both(tree: Tree) -> None:
    card = tree.pci("pci0000:00/0000:00:03.0", NET)
    tree.net("eth0", card)
    tree.net("bond0", uevent="DEVTYPE=bond")
    folder = tree.rdma("mlx5_bond_0", card)
    tree.put(f"{folder}/ports/1/gid_attrs/ndevs/0", "bond0")

    devices, interfaces, _problems = read(tree.host)

    assert devices["mlx5_bond_0"].netdevs == ("eth0", "bond0")
    assert interfaces["bond0"].rdma == ("mlx5_bond_0",)


def bonded(tree: Tree, *names: str, functions: str = "01") -> list[str]:
    """bond0 over these, each on a function of one card. Returns the functions."""
    cards = [tree.pci(f"pci0000:00/0000:00:03.{at}", NET) for at in functions]
    bond = tree.net("bond0", uevent="DEVTYPE=bond")
    for name, card in zip(names, cards):
        tree.link(f"{tree.net(name, card)}/master", bond)
        tree.link(f"{bond}/lower_{name}", f"{card}/net/{name}")
    return cards


def named(tree: Tree, folder: str, *netdevs: str, port: int = 1) -> None:
    for index, netdev in enumerate(netdevs):
        tree.put(f"{folder}/ports/{port}/gid_attrs/ndevs/{index}", netdev)


def test_one_device_for_a_whole_bond_is_on_all_its_members(tree: Tree) -> None:
    """RoCE LAG: the device is on the function of the first, and its GIDs are the bond's."""
    cards = bonded(tree, "eth0", "eth1")
    named(tree, tree.rdma("mlx5_bond_0", cards[0]), "bond0")

    devices, interfaces, _problems = read(tree.host)

    assert devices["mlx5_bond_0"].netdevs == ("eth0", "eth1", "bond0")
    assert interfaces["eth1"].rdma == interfaces["bond0"].rdma == ("mlx5_bond_0",)


def test_in_a_bond_without_lag_each_member_keeps_its_device(tree: Tree) -> None:
    cards = bonded(tree, "eth0", "eth1")
    named(tree, tree.rdma("mlx5_0", cards[0]), "bond0")
    named(tree, tree.rdma("mlx5_1", cards[1]), "eth1", "bond0")

    devices, interfaces, _problems = read(tree.host)

    assert devices["mlx5_0"].netdevs == ("eth0", "bond0")
    assert devices["mlx5_1"].netdevs == ("eth1",)
    assert interfaces["eth0"].rdma == ("mlx5_0",)


def test_software_on_a_bond_or_a_vlan_is_on_the_hardware_below(tree: Tree) -> None:
    bonded(tree, "eth0", "eth1")
    vlan = tree.net("bond0.5", uevent="DEVTYPE=vlan")
    tree.link(f"{vlan}/lower_bond0", "/sys/devices/virtual/net/bond0")
    tree.rdma("rxe0", parent="bond0.5")

    assert read(tree.host)[0]["rxe0"].netdevs == ("eth0", "eth1", "bond0.5")


def test_each_port_of_a_device_is_on_the_interface_that_it_names(tree: Tree) -> None:
    """A device with two ports whose second is another function's, as mlx5 has it for dual-port RoCE."""
    cards = [tree.pci(f"pci0000:00/0000:00:03.{at}", NET) for at in (0, 1)]
    for name, card in zip(("eth0", "eth1"), cards):
        tree.net(name, card)
    folder = tree.rdma("mlx5_0", cards[0], ports=2)
    named(tree, folder, "eth0")
    named(tree, folder, "eth1", port=2)

    devices, interfaces, _problems = read(tree.host)

    assert [port.netdevs for port in devices["mlx5_0"].ports] == [("eth0",), ("eth1",)]
    assert interfaces["eth1"].rdma == ("mlx5_0",)


def test_without_a_parent_software_is_on_what_its_addresses_are_on(tree: Tree) -> None:
    """The first GIDs are empty and cannot be read."""
    tree.net("eth0", tree.pci("pci0000:00/0000:00:03.0", NET))
    folder = tree.rdma("siw0")
    named(tree, folder, "", "", "eth0")
    empty = {f"{folder}/ports/1/gid_attrs/ndevs/{index}": errno.EINVAL for index in (0, 1)}

    devices, interfaces, problems = read(tree.refusing(empty))

    assert (devices["siw0"].netdevs, interfaces["eth0"].rdma, problems) == (("eth0",), ("siw0",), [])


def test_an_interface_of_another_namespace_is_none_here(tree: Tree) -> None:
    card = tree.pci("pci0000:00/0000:00:03.0", NET)
    named(tree, tree.rdma("mlx5_0", card), "elsewhere")

    assert read(tree.host)[0]["mlx5_0"].netdevs == ()


def test_rdma_in_software_says_what_it_is_on(tree: Tree) -> None:
    tree.net("eth0", tree.pci("pci0000:00/0000:00:03.0", NET, node=0))
    tree.rdma("rxe0", parent="eth0")
    tree.rdma("rxe1", parent="gone0")

    devices, interfaces, _problems = read(tree.host)

    assert (devices["rxe0"].address, devices["rxe0"].node, devices["rxe0"].netdevs) == (None, None, ("eth0",))
    assert devices["rxe1"].netdevs == ()
    assert interfaces["eth0"].rdma == ("rxe0",)


def test_a_device_without_an_interface_is_a_device_too(tree: Tree) -> None:
    tree.rdma("efa_0", tree.pci("pci0000:10/0000:10:1b.0", NET, "1d0f:efa1", 0, "efa"))

    device = read(tree.host)[0]["efa_0"]

    assert (device.address, device.node, device.netdevs) == ("0000:10:1b.0", 0, ())


def test_an_unused_gid_cannot_be_read_and_is_no_problem(tree: Tree) -> None:
    card = tree.pci("pci0000:00/0000:00:03.0", NET)
    tree.net("eth0", card)
    folder = tree.rdma("mlx5_0", card)
    path = f"{folder}/ports/1/gid_attrs/ndevs/0"
    tree.put(path, "eth0")

    devices, _interfaces, problems = read(tree.refusing({path: errno.EINVAL}))

    assert (devices["mlx5_0"].netdevs, problems) == (("eth0",), [])


def test_a_port_that_says_less_is_told(tree: Tree) -> None:
    card = tree.pci("pci0000:00/0000:00:03.0", NET)
    tree.net("eth0", card)
    folder = tree.rdma("mlx5_0", card)
    tree.put(f"{folder}/ports/rubbish/state", "4: ACTIVE")
    (tree.root / folder.lstrip("/") / "ports/1/state").unlink()

    devices, _interfaces, problems = read(tree.host)

    assert devices["mlx5_0"].ports == (RdmaPort(1, "Ethernet", "", "400 Gb/sec (4X NDR)", ("eth0",)),)
    assert problems == [f"{folder}/ports/1/state does not exist"]


def test_devices_are_sorted_as_people_count(tree: Tree) -> None:
    for number in (10, 2, 1):
        tree.rdma(f"mlx5_{number}", tree.pci(f"pci0000:00/0000:00:{number:02x}.0", NET))

    assert [*read(tree.host)[0]] == ["mlx5_1", "mlx5_2", "mlx5_10"]
