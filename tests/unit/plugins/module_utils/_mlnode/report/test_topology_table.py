# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: E501 - lines of a table are as long as they are
from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import (
    CPU,
    GPU,
    NET,
    NODE,
    Tree,
    rail,
    two_nodes,
)
from mlnode.report.topology_table import table
from mlnode.topology import hardware
from mlnode.topology.model import (
    Binding,
    Cpu,
    Cpus,
    Distance,
    Gpu,
    Link,
    Machine,
    Nic,
    PciDevice,
    Problem,
    RdmaDevice,
    RdmaPort,
    Topology,
)


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> Tree:
    return two_nodes(Tree(tmp_path / "tree"))


def test_on_a_terminal_nothing_but_the_tables_is_wider_than_it(tree: Tree) -> None:
    rail(tree, 0x15, 1, 0, link=("2.5 GT/s PCIe", 16))
    for number in range(20):
        tree.net(f"veth{number}")

    lines = table(hardware.read(tree.host), 100).split("\n")

    assert max(map(len, lines)) <= 100
    assert "also: 20 virtual (veth0, veth1, veth2, veth3, veth4, veth5, veth6, veth7, 12 more)" in lines
    assert "         idle, so look again under load" in lines


def test_a_machine_of_which_nothing_is_known(tmp_path: pathlib.Path) -> None:
    text = table(
        Topology(Machine("unknown"), problems=(Problem("/x", "/x does not exist"), Problem("/y", "no /y"))),
        None,
    )

    assert (
        text
        == """\
MACHINE  unknown
CPUS     0 online (none)

NIC  none with its own hardware

NOT KNOWN  /x does not exist
NOT KNOWN  no /y"""
    )


def test_the_machine_line_says_whose_it_is() -> None:
    machine = Machine("container", "kvm", "docker", "aws", "Amazon EC2 p5.48xlarge")

    assert table(Topology(machine), None).splitlines()[0] == (
        "MACHINE  container, docker, hypervisor kvm, cloud aws, Amazon EC2 p5.48xlarge"
    )


def test_sets_of_cpus_that_are_special_are_shown() -> None:
    every = tuple(
        Cpu(at, online=True, package=0, siblings=(at,), kind="performance" if at < 2 else "efficiency")
        for at in range(4)
    )
    cpus = Cpus(every, (), (), (0, 1, 2, 3), offline=(4,), isolated=(2, 3), nohz_full=(3,), allowed=(0, 1))

    assert table(Topology(Machine("bare metal"), cpus), None).split("\n")[1:8] == [
        "CPUS     4 online (0-3): 1 socket, 4 cores, 1 thread per core",
        "         offline 4",
        "         isolated 2-3",
        "         nohz_full 3",
        "         allowed here 0-1",
        "         performance 0-1",
        "         efficiency 2-3",
    ]


@cases.table
def test_what_the_kernel_does_not_report_is_not_counted(
    package: int | None, siblings: bool, words: str
) -> None:
    every = tuple(
        Cpu(at, online=True, package=package, siblings=(at,) if siblings else ()) for at in range(4)
    )
    cpus = Cpus(every, online=(0, 1, 2, 3), allowed=(0, 1, 2, 3))

    assert (
        table(Topology(Machine("bare metal"), cpus), None).split("\n")[1] == f"CPUS     4 online (0-3){words}"
    )


def test_lines_of_a_large_machine_are_for_people_too(tree: Tree) -> None:
    """512 CPUs that are numbered in turn from socket to socket, and a flat virtual machine's 32 devices at one
    distance from each of 8 GPUs."""
    for node, first in enumerate((0, 1)):
        tree.put(f"{NODE}/node{node}/cpulist", ",".join(str(cpu) for cpu in range(first, 512, 2)))
    tree.put(f"{CPU}/online", "0-511")
    tree.put(f"{CPU}/isolated", ",".join(str(cpu) for cpu in range(5, 512, 2)))
    for number in range(8):
        tree.pci(f"pci0000:00/0000:00:{number:02x}.0", GPU, "10de:2330")
    for number in range(32):
        tree.rdma(f"rdmap{number}s0", tree.pci(f"pci0000:00/0000:01:{number:02x}.0", NET, "1d0f:efa1"))

    lines = table(hardware.read(tree.host), None).split("\n")

    assert "         isolated 5-511:2" in lines
    assert "1     62.5 GiB  20 10      1-511:2" in lines
    [nearest] = [line for line in lines if line.startswith("GPU0  rdmap0s0, ")]
    assert ", rdmap7s0, 24 more  PHB" in nearest
    assert max(map(len, lines)) < 300


def nic(**fields: Any) -> list[str]:
    """The cells of one NIC below the names of the columns."""
    topology = Topology(Machine("bare metal"), nics=(Nic("eth0", "physical", **fields),))
    return table(topology, None).split("\n")[4].split()


@cases.table
def test_speeds_are_short(mbit: int | None, shown: str) -> None:
    assert nic(speed_mbit=mbit)[5] == shown


def test_queues_are_one_number_where_both_directions_are_alike() -> None:
    assert nic(rx_queues=8, tx_queues=8)[8] == "8"
    assert nic(rx_queues=4, tx_queues=8)[8] == "4/8"


@cases.table
def test_a_link_is_told_by_its_generation(link: list[Any], shown: str) -> None:
    device = PciDevice("0000:01:00.0", 1, 1, 0x020000, ("0000:01:00.0",), "pci0000:00", link=Link(*link))
    eth0 = Nic("eth0", "physical", address=device.address)
    text = table(Topology(Machine("bare metal"), nics=(eth0,), pci=(device,)), None)

    assert text.split("\n")[4].endswith(f"  {shown}")


def device(address: str, kind: int = 0x020000, physfn: str | None = None) -> PciDevice:
    return PciDevice(address, 1, 1, kind, (address,), "pci0000:00", "efa", 0, None, physfn)


def test_rdma_devices_without_an_interface_have_rows_and_virtual_ones_a_number() -> None:
    ports = (RdmaPort(1, "Unspecified", "ACTIVE", "100 Gb/sec (4X EDR)"), RdmaPort(2, "", "", ""))
    topology = Topology(
        Machine("virtual machine"),
        pci=(device("0000:10:1b.0"), device("0000:10:1b.1", physfn="0000:10:1b.0")),
        gpus=(Gpu("0000:10:1c.0", "NVIDIA", 0x20B0),),
        rdma=(
            RdmaDevice("efa_0", "0000:10:1b.0", 0, ports, rail=0),
            RdmaDevice("vf_0", "0000:10:1b.1"),
            RdmaDevice("soft_0", None, None, ()),
            RdmaDevice("taken", "0000:10:1b.0", netdevs=("eth0",)),
        ),
    )

    lines = table(topology, None).split("\n")

    assert lines[4].split() == [
        "-",
        "efa_0",
        "0",
        "0",
        "0000:10:1b.0",
        "100",
        "Gb/sec",
        "ACTIVE",
        "-",
        "-",
        "efa",
        "-",
    ]
    assert lines[5].split()[:5] == ["-", "soft_0", "-", "-", "-"]
    assert lines[6] == "also: 1 virtual function (vf_0)"
    assert "  0000:10:1b.0  efa_0  -" in lines


def test_what_cannot_be_told_about_a_gpu_is_a_dash() -> None:
    gpu = Gpu("0000:41:00.0", "AMD", 0x74A1)
    topology = Topology(
        Machine("bare metal"),
        gpus=(gpu,),
        distances=(),
        bindings=(Binding(gpu.address, None, "", None, (), "unknown"),),
        pci=(device(gpu.address, 0x120000),),
    )

    text = table(topology, None)

    assert "GPU0  -     0000:41:00.0  AMD 74a1  -       -" in text
    assert "GPU0  -            unknown  -                -" in text
    assert "DISTANCE" not in text


def test_a_device_above_another_has_its_name_too() -> None:
    """A GPU with a bridge of its own is no leaf."""
    above, below = "0000:01:00.0", "0000:02:00.0"
    topology = Topology(
        Machine("bare metal"),
        gpus=(Gpu(above, "AMD", 1),),
        nics=(Nic("eth0", "physical", address=below),),
        pci=(device(above, 0x038000), PciDevice(below, 1, 1, 0x020000, (above, below), "pci0000:00")),
        distances=(Distance(above, "eth0", "PIX"),),
    )

    lines = table(topology, None).split("\n")

    assert lines[lines.index("pci0000:00") + 1 :][:2] == [
        "  0000:01:00.0  GPU0  -",
        "    0000:02:00.0  eth0  -",
    ]


def test_a_hostile_name_moves_no_cursor() -> None:
    text = table(
        Topology(Machine("bare metal", product="\x1b[2J"), nics=(Nic("e\x07\udcff", "physical"),)), None
    )

    assert "\x1b" not in text
    assert "\\x1b[2J" in text
    assert "e\\x07\\udcff" in text
