# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import (
    BRIDGE,
    GEN4,
    GEN5,
    GPU,
    NET,
    VGA,
    Tree,
)
from mlnode.host.host import Host
from mlnode.topology import pci
from mlnode.topology.model import Link, PciDevice
from mlnode.topology.sysfs import Reader


def read(host: Host) -> tuple[dict[str, PciDevice], list[str]]:
    reader = Reader(host)
    return pci.by_address(pci.read(reader)), [problem.what for problem in reader.problems]


@cases.table
def test_an_address_is_written_as_sysfs_does(text: str, expected: str | None) -> None:
    assert pci.normal(text) == expected


def test_addresses_are_sorted_as_numbers() -> None:
    addresses = ["10000:01:00.0", "0000:c1:00.0", "0000:05:00.1", "0009:01:00.0", "0000:05:00.0"]

    assert sorted(addresses, key=pci.order) == [
        "0000:05:00.0",
        "0000:05:00.1",
        "0000:c1:00.0",
        "0009:01:00.0",
        "10000:01:00.0",
    ]


def test_a_function_with_all_it_says(tree: Tree) -> None:
    tree.pci("pci0000:40/0000:40:01.1", BRIDGE, node=1)
    tree.pci("pci0000:40/0000:40:01.1/0000:41:00.0", GPU, "10de:2330", 1, "nvidia", GEN4, GEN5)

    devices, problems = read(tree.host)

    assert problems == []
    assert [*devices] == ["0000:40:01.1", "0000:41:00.0"]
    assert devices["0000:41:00.0"] == PciDevice(
        address="0000:41:00.0",
        vendor=0x10DE,
        device=0x2330,
        class_code=0x030200,
        path=("0000:40:01.1", "0000:41:00.0"),
        root="pci0000:40",
        driver="nvidia",
        node=1,
        link=Link("16.0 GT/s PCIe", 16, "32.0 GT/s PCIe", 16),
    )


def test_an_old_infiniband_card_is_a_serial_bus_and_read_all_the_same(tree: Tree) -> None:
    """A ConnectX-2, and the USB controller beside it."""
    root = tree.pci("pci0000:00/0000:00:03.0", BRIDGE, link=GEN4)
    tree.pci(f"{root[len('/sys/devices/') :]}/0000:05:00.0", "0x0c0600", "15b3:673c", 1, "mlx4_core", GEN4)
    tree.pci("pci0000:00/0000:00:14.0", "0x0c0330")

    found, problems = read(tree.host)

    assert (list(found), problems) == (["0000:00:03.0", "0000:05:00.0"], [])
    assert (found["0000:05:00.0"].node, found["0000:05:00.0"].link) == (1, Link(*GEN4, *GEN4))


def test_parts_of_the_chipset_are_left_out(tree: Tree) -> None:
    tree.pci("pci0000:00/0000:00:00.0", "0x060000")
    tree.pci("pci0000:00/0000:00:01.0", BRIDGE)  # leads nowhere
    tree.pci("pci0000:00/0000:00:1f.4", "0x0c0500")
    tree.pci("pci0000:00/0000:00:03.0", VGA)

    assert [*read(tree.host)[0]] == ["0000:00:03.0"]


@pytest.mark.parametrize("node", [-1, None])
def test_a_node_that_the_firmware_does_not_name_is_unknown_and_never_0(tree: Tree, node: int | None) -> None:
    tree.pci("pci0000:00/0000:00:03.0", NET, node=node)

    devices, problems = read(tree.host)

    assert devices["0000:00:03.0"].node is None
    assert problems == []


@cases.table
def test_a_link_of_which_nothing_is_known_is_none(
    tree: Tree, speed: str, width: int, most: tuple[str, int]
) -> None:
    tree.pci("pci0000:00/0000:00:03.0", NET, link=(speed, width), most=most)

    assert read(tree.host)[0]["0000:00:03.0"].link is None


def test_old_kernels_write_speeds_without_a_fraction(tree: Tree) -> None:
    tree.pci("pci0000:00/0000:00:03.0", NET, link=("8 GT/s", 8), most=("16 GT/s", 16))

    link = read(tree.host)[0]["0000:00:03.0"].link

    assert link is not None
    assert (link.slow, link.narrow, link.degraded) == (True, True, True)


@pytest.mark.parametrize(
    "ids, expected",
    [
        ("8086:37d2", None),  # X722
        ("8086:15ad", None),  # X552, of the X550EM
        ("8086:1572", Link("2.5 GT/s", 1, "8 GT/s", 1)),  # X710, a card
        ("15b3:37d2", Link("2.5 GT/s", 1, "8 GT/s", 1)),
    ],
)
def test_what_is_inside_the_chipset_has_no_link(tree: Tree, ids: str, expected: Link | None) -> None:
    tree.pci("pci0000:5d/0000:60:00.0", NET, ids, link=("2.5 GT/s", 1), most=("8 GT/s", 1))

    assert read(tree.host)[0]["0000:60:00.0"].link == expected


def test_a_virtual_function_names_its_physical_one_and_has_no_link(tree: Tree) -> None:
    tree.pci("pci0000:00/0000:00:03.0", NET, link=GEN4)
    tree.pci("pci0000:00/0000:00:03.1", NET, link=GEN4, physfn="0000:00:03.0")

    device = read(tree.host)[0]["0000:00:03.1"]

    assert (device.physfn, device.link) == ("0000:00:03.0", None)


@cases.table
def test_the_way_from_the_root_wherever_that_is(
    tree: Tree, path: str, root: str, functions: tuple[str, ...]
) -> None:
    tree.pci(path, NET)

    device = read(tree.host)[0][functions[-1]]

    assert (device.root, device.path) == (root, functions)


def test_a_machine_without_pci_is_told(tree: Tree) -> None:
    assert read(tree.host) == ({}, ["/sys/bus/pci/devices does not exist"])


def test_a_damaged_function_is_told_and_the_others_are_kept(tree: Tree) -> None:
    tree.pci("pci0000:00/0000:00:03.0", NET)
    folder = tree.pci("pci0000:00/0000:00:04.0", NET, "rubbish:0x")
    tree.pci("pci0000:00/0000:00:05.0", "rubbish")

    devices, problems = read(tree.host)

    assert [*devices] == ["0000:00:03.0", "0000:00:04.0"]
    assert devices["0000:00:04.0"].vendor == 0
    assert f"{folder}/vendor: '0xrubbish' is not a hexadecimal number" in problems


def test_a_class_that_cannot_be_read_is_told(tree: Tree) -> None:
    folder = tree.pci("pci0000:00/0000:00:03.0", NET)

    devices, problems = read(tree.refusing({f"{folder}/class": errno.EIO}))

    assert devices == {}
    assert len(problems) == 1
    assert "EIO" in problems[0]


def test_peripherals_are_read_only_if_they_are_accelerators(tree: Tree) -> None:
    for slot, kind, ids in (
        ("1c", "0x088000", "1d0f:7164"),
        ("1d", "0x088000", "8086:2025"),
        ("1e", "0xff0000", "1ae0:0027"),
        ("1f", "0xff0000", "8086:0001"),
        ("12", "0x120000", "10ee:5000"),
    ):
        tree.pci(f"pci0000:10/0000:10:{slot}.0", kind, ids, 0)

    assert [*read(tree.host)[0]] == ["0000:10:12.0", "0000:10:1c.0", "0000:10:1e.0"]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_a_peripheral_of_an_unknown_vendor_is_a_problem(tree: Tree, number: int) -> None:
    path = f"{tree.pci('pci0000:10/0000:10:1c.0', '0x088000', '1d0f:7164', 0)}/vendor"

    devices, problems = read(tree.refusing({path: number}))

    assert devices == {}
    assert any(path in problem for problem in problems)
