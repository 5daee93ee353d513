# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno

from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import NET, Tree
from mlnode.host.host import Host
from mlnode.topology import nics, pci
from mlnode.topology.model import Nic
from mlnode.topology.sysfs import Reader


def read(host: Host) -> tuple[dict[str, Nic], list[str]]:
    reader = Reader(host)
    devices = pci.by_address(pci.read(Reader(host)))
    found = nics.read(reader, devices)
    return {nic.name: nic for nic in found}, [problem.what for problem in reader.problems]


def test_a_nic_with_all_it_says(tree: Tree) -> None:
    card = tree.pci("pci0000:00/0000:00:03.0", NET, "15b3:1021", 1, "mlx5_core")
    folder = tree.net("eth0", card, queues=4, speed=400000, mtu=9000)
    tree.link(f"{folder}/master", "/sys/devices/virtual/net/bond0")

    found, problems = read(tree.host)

    assert problems == []
    assert found["eth0"] == Nic(
        name="eth0",
        kind="physical",
        folder=card,
        driver="mlx5_core",
        address="0000:00:03.0",
        speed_mbit=400000,
        operstate="up",
        mtu=9000,
        node=1,
        rx_queues=4,
        tx_queues=4,
        mac="02:00:00:00:00:01",
        master="bond0",
    )


def test_what_virtio_hangs_on_is_its_pci_function(tree: Tree) -> None:
    card = tree.pci("pci0000:00/0000:00:03.0", NET, "1af4:1041", 0, "virtio-pci")
    tree.link(f"{card}/virtio2/driver", "/sys/bus/virtio/drivers/virtio_net")
    tree.net("eth0", f"{card}/virtio2")

    nic = read(tree.host)[0]["eth0"]

    assert (nic.kind, nic.address, nic.node, nic.driver) == ("virtio", "0000:00:03.0", 0, "virtio_net")


def test_virtio_without_pci_has_no_address(tree: Tree) -> None:
    tree.net("eth0", "/sys/devices/platform/d0000000.virtio_mmio/virtio0")

    nic = read(tree.host)[0]["eth0"]

    assert (nic.kind, nic.address, nic.node) == ("virtio", None, None)


def test_virtual_functions_and_sub_functions_are_parts_of_a_nic(tree: Tree) -> None:
    card = tree.pci("pci0000:00/0000:00:03.0", NET)
    tree.net("pf", card)
    tree.net("vf", tree.pci("pci0000:00/0000:00:03.1", NET, physfn="0000:00:03.0"))
    tree.net("sf", f"{card}/mlx5_core.sf.4")
    tree.net("rep", card, phys_port_name="pf0vf0")
    tree.net("rep2", card, phys_port_name="c1pf0sf88")
    tree.net("host", card, phys_port_name="pf0")
    tree.net("host2", card, phys_port_name="c1pf1")
    tree.net("uplink", card, phys_port_name="p0")

    found = read(tree.host)[0]

    assert {name: nic.kind for name, nic in found.items()} == {
        "pf": "physical",
        "vf": "virtual function",
        "sf": "virtual function",
        "rep": "virtual",
        "rep2": "virtual",
        "host": "virtual",
        "host2": "virtual",
        "uplink": "physical",
    }
    assert found["sf"].address == "0000:00:03.0"


@cases.table
def test_interfaces_in_software_say_what_they_are(tree: Tree, uevent: str, kind: str) -> None:
    tree.net("x", uevent=uevent)
    tree.net("lo")

    found = read(tree.host)[0]

    assert (found["x"].kind, found["x"].address, found["x"].driver) == (kind, None, None)
    assert found["lo"].kind == "virtual"


@cases.table
def test_a_nic_on_another_bus_has_no_pci_function(tree: Tree, device: str) -> None:
    tree.pci("pci0000:00/0000:00:14.0", "0x0c0330")
    tree.net("eth0", device)

    nic = read(tree.host)[0]["eth0"]

    assert (nic.kind, nic.address) == ("physical", None)


@cases.table
def test_a_speed_that_the_driver_does_not_know_is_none(tree: Tree, text: str, speed: int | None) -> None:
    tree.net("eth0", speed=text)

    found, problems = read(tree.host)

    assert found["eth0"].speed_mbit == speed
    assert problems == []


def test_the_speed_of_a_link_that_is_down_cannot_be_read_and_is_no_problem(tree: Tree) -> None:
    folder = tree.net("eth0")

    found, problems = read(tree.refusing({f"{folder}/speed": errno.EINVAL}))

    assert found["eth0"].speed_mbit is None
    assert problems == []


def test_interfaces_are_sorted_as_the_bus_is_and_then_by_name(tree: Tree) -> None:
    late = tree.pci("pci0000:c0/0000:c0:00.0", NET)
    early = tree.pci("pci0000:05/0000:05:00.0", NET)
    tree.net("aaa", late)
    tree.net("port1", early, dev_port=1)
    tree.net("port0", early)
    tree.net("veth10")
    tree.net("veth9")

    assert [*read(tree.host)[0]] == ["port0", "port1", "aaa", "veth9", "veth10"]


def test_the_file_of_the_bonding_driver_is_no_interface(tree: Tree) -> None:
    tree.net("eth0")
    tree.put("/sys/class/net/bonding_masters", "bond0")

    found, problems = read(tree.host)

    assert [*found] == ["eth0"]
    assert problems == []


def test_an_interface_that_cannot_be_looked_at_is_told_and_the_others_are_kept(tree: Tree) -> None:
    tree.net("eth0")
    tree.net("eth1")

    found, problems = read(tree.refusing({"/sys/class/net/eth0": errno.EACCES}))

    assert [*found] == ["eth1"]
    assert any("/sys/class/net/eth0" in problem and "EACCES" in problem for problem in problems)


def test_a_machine_without_interfaces_is_told(tree: Tree) -> None:
    found, problems = read(tree.host)

    assert found == {}
    assert "/sys/class/net does not exist" in problems


def test_what_a_driver_leaves_out_is_told(tree: Tree) -> None:
    folder = tree.net("eth0", queues=0)
    (tree.root / folder.lstrip("/") / "mtu").unlink()
    (tree.root / folder.lstrip("/") / "operstate").unlink()

    found, problems = read(tree.host)

    assert (found["eth0"].mtu, found["eth0"].operstate, found["eth0"].rx_queues) == (None, "unknown", 0)
    assert f"{folder}/mtu does not exist" in problems
