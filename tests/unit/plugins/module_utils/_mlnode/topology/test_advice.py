# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.topology import advice, distance
from mlnode.topology.distance import Port
from mlnode.topology.model import (
    UNKNOWN,
    Binding,
    Cpu,
    Cpus,
    Distance,
    Gpu,
    Link,
    Machine,
    Nic,
    Node,
    PciDevice,
    Topology,
)


def cpus(
    cores: int, smt: int = 1, isolated: tuple[int, ...] = (), allowed: tuple[int, ...] | None = None
) -> Cpus:
    """Threads numbered as firmware does: the first of each core, then the second."""
    every = tuple(range(cores * smt))
    siblings = {cpu: tuple(range(cpu % cores, cores * smt, cores)) for cpu in every}
    return Cpus(
        all=tuple(Cpu(cpu, online=True, siblings=siblings[cpu]) for cpu in every),
        online=every,
        isolated=isolated,
        allowed=every if allowed is None else allowed,
    )


TWO = (
    Node(0, (0, 1, 2, 3, 8, 9, 10, 11), 1024, (10, 21)),
    Node(1, (4, 5, 6, 7, 12, 13, 14, 15), 1024, (21, 10)),
)
GPUS = tuple(Gpu(f"0000:0{at}:00.0", "NVIDIA", 1, node) for at, node in enumerate((0, 0, 1)))


def bindings(
    processors: Cpus, nodes: tuple[Node, ...] = TWO, gpus: tuple[Gpu, ...] = GPUS
) -> tuple[Binding, ...]:
    return advice.bindings(processors, nodes, gpus, [], [], [])


def test_a_process_gets_its_share_of_the_cores_of_its_node() -> None:
    found = bindings(cpus(8, 2))

    assert [one.numactl for one in found] == [
        "numactl --cpunodebind=0 --membind=0",
        "numactl --cpunodebind=0 --membind=0",
        "numactl --cpunodebind=1 --membind=1",
    ]
    assert [one.omp_num_threads for one in found] == [2, 2, 4]
    assert [one.node for one in found] == [0, 0, 1]


def test_isolated_cpus_are_neither_bound_to_nor_counted() -> None:
    found = bindings(cpus(8, 2, isolated=(2, 3, 10, 11)))

    assert found[0].numactl == "numactl --physcpubind=0-1,8-9 --membind=0"
    assert [one.omp_num_threads for one in found] == [1, 1, 4]


def test_a_core_of_which_one_thread_is_isolated_is_not_counted() -> None:
    found = bindings(cpus(8, 2, isolated=(9, 12)))

    assert found[0].numactl == "numactl --physcpubind=0-3,8,10-11 --membind=0"
    assert [one.omp_num_threads for one in found] == [1, 1, 3]


def test_a_container_binds_to_what_it_was_given() -> None:
    found = bindings(cpus(8, 2, allowed=(1, 9)))

    assert [one.numactl for one in found] == ["numactl --physcpubind=1,9 --membind=0"] * 2 + [""]
    assert [one.omp_num_threads for one in found] == [1, 1, None]
    # The node is known all the same.
    assert found[2].node == 1


def test_a_gpu_of_which_nobody_knows_the_node_is_not_bound() -> None:
    [one] = bindings(cpus(8, 2), gpus=(Gpu("g", "NVIDIA", 1, None),))

    assert (one.node, one.numactl, one.omp_num_threads) == (None, "", None)


@pytest.mark.parametrize("node", [None, 0, 5])
def test_on_a_single_node_there_is_no_question(node: int | None) -> None:
    nodes = (Node(0, (0, 1), 1, (10, 80)), Node(1, (), 1, (80, 10)))

    [one] = bindings(cpus(2), nodes, (Gpu("g", "NVIDIA", 1, node),))

    assert one.numactl == "numactl --cpunodebind=0 --membind=0"


def test_a_gpu_on_a_node_of_memory_is_served_by_the_nearest_node() -> None:
    nodes = (
        *(Node(node.number, node.cpus, 1, (*node.distances, 80)) for node in TWO),
        Node(2, (), 1, (80, 40, 10)),
    )

    [one] = bindings(cpus(8, 2), nodes, (Gpu("g", "NVIDIA", 1, 2),))

    assert one.numactl == "numactl --cpunodebind=1 --membind=1"


def test_where_the_kernel_does_not_tell_cores_nobody_counts_them() -> None:
    silent = Cpus(online=(0, 1), allowed=(0, 1))

    [one] = bindings(silent, (Node(0, (0, 1)),), (Gpu("g", "NVIDIA", 1, 0),))

    assert (one.numactl, one.omp_num_threads) == ("numactl --physcpubind=0-1", None)


def test_where_there_is_one_node_no_memory_is_chosen() -> None:
    """A kernel without NUMA refuses --cpunodebind and --membind."""
    [one] = bindings(cpus(8, 2, isolated=(7, 15)), (Node(0, tuple(range(16)), 1, (10,)),), GPUS[:1])

    assert (one.numactl, one.omp_num_threads) == ("numactl --physcpubind=0-6,8-14", 7)


def test_memory_is_not_bound_to_a_node_that_has_none() -> None:
    nodes = (
        Node(0, TWO[0].cpus, 0, (10, 32, 16)),
        Node(1, TWO[1].cpus, 1024, (32, 10, 32)),
        Node(2, (), 1024, (16, 32, 10)),
    )

    assert [one.numactl for one in bindings(cpus(8, 2), nodes)] == [
        "numactl --cpunodebind=0 --membind=2",
        "numactl --cpunodebind=0 --membind=2",
        "numactl --cpunodebind=1 --membind=1",
    ]
    silent = (Node(0, TWO[0].cpus, 0, ()), TWO[1])
    assert bindings(cpus(8, 2), silent)[0].numactl == "numactl --cpunodebind=0"


def test_a_machine_without_nodes_has_nothing_to_bind_to() -> None:
    assert [one.numactl for one in bindings(cpus(8, 2), ())] == ["", "", ""]


PORTS = (Port("eth0", "a", 0, ()), Port("rail0", "b", 0, ("mlx5_0",)), Port("mgmt0", "c", 0, ("mlx5_1",)))


@pytest.mark.parametrize(
    "kinds, ports, rails, expected",
    [
        (("PIX", "PHB", "SYS"), PORTS, PORTS[1:2], ("PHB", ("rail0",))),
        # as near as a rail, but none
        (("PIX", "PHB", "PHB"), PORTS, PORTS[1:2], ("PHB", ("rail0",))),
        # nearer than any rail
        (("PIX", "SYS", "PHB"), PORTS, PORTS[1:2], ("PHB", ("mgmt0",))),
        # no RDMA at all
        (("PIX", "PHB", "PHB"), PORTS[:1], (), ("PIX", ("eth0",))),
        ((UNKNOWN, UNKNOWN, UNKNOWN), PORTS, PORTS[1:2], (UNKNOWN, ())),
        ((), (), (), (UNKNOWN, ())),
    ],
)
def test_the_nearest_nics_are_those_with_rdma_and_rails_first(
    kinds: tuple[str, ...],
    ports: tuple[Port, ...],
    rails: tuple[Port, ...],
    expected: tuple[str, tuple[str, ...]],
) -> None:
    gpu = GPUS[0]
    distances = [Distance(gpu.address, port.name, kind) for port, kind in zip(PORTS, kinds)]

    [one] = advice.bindings(cpus(8, 2), TWO, [gpu], distances, ports, rails)

    assert (one.distance, one.nics) == expected


# -- warnings ------------------------------------------------------------------------------


def node(
    gpu_node: int | None = 0,
    nic_node: int | None = 0,
    nodes: tuple[Node, ...] = TWO,
    processors: Cpus | None = None,
    machine: Machine = Machine("bare metal"),  # noqa: B008 - it is frozen
    link: Link | None = None,
    rdma: tuple[str, ...] = ("mlx5_0",),
) -> tuple[str, ...]:
    """The warnings about a node with one GPU and one NIC on different host bridges."""
    card = PciDevice(
        "0000:02:00.0", 0x15B3, 1, 0x020000, ("0000:02:00.0",), "pci0000:02", None, nic_node, link
    )
    board = PciDevice("0000:01:00.0", 0x10DE, 1, 0x030200, ("0000:01:00.0",), "pci0000:01", None, gpu_node)
    devices = {board.address: board, card.address: card}
    gpus = (Gpu(board.address, "NVIDIA", 1, gpu_node),)
    ports = [Port("eth0", card.address, 0, rdma)]
    distances = distance.matrix(gpus, ports, devices, nodes)
    known = processors or cpus(8, 2)
    topology = Topology(
        machine,
        known,
        nodes,
        nics=(Nic("eth0", "physical", node=nic_node),),
        gpus=gpus,
        distances=distances,
        bindings=advice.bindings(known, nodes, gpus, distances, ports, ports),
    )
    return advice.warnings(topology, ports, devices)


def test_a_node_as_it_should_be_says_nothing() -> None:
    assert node() == ()


def test_a_gpu_whose_nearest_rdma_nic_is_on_another_node() -> None:
    assert node(gpu_node=0, nic_node=1) == (
        (
            "GPU0 (0000:01:00.0): no RDMA NIC on its NUMA node: "
            "all traffic crosses to another node (SYS) to eth0 mlx5_0"
        ),
    )
    assert node(gpu_node=0, nic_node=1, rdma=()) == ()


def test_a_gpu_whose_nearest_rdma_nic_is_on_another_node_of_its_socket() -> None:
    """As with NPS4 and SNC: a setting of the firmware, and no card in the wrong slot."""
    quarters = cpus(8, 2)
    quarters = quarters._replace(
        all=tuple(cpu._replace(package=0, node=cpu.number % 8 // 4) for cpu in quarters.all)
    )

    assert node(gpu_node=0, nic_node=1, processors=quarters) == ()


def test_a_warning_about_many_names_eight_of_them() -> None:
    gpus = tuple(Gpu(f"0000:{at:02x}:00.0", "NVIDIA", 1) for at in range(40))
    devices = {gpu.address: PciDevice(gpu.address, 1, 1, 0x030200, (gpu.address,), "") for gpu in gpus}

    [words] = advice.warnings(Topology(Machine("bare metal"), nodes=TWO, gpus=gpus), [], devices)

    assert words.startswith("GPU0 (0000:00:00.0), GPU1 (")
    assert ", GPU7 (0000:07:00.0), 32 more: the firmware does not say" in words
    assert len(words) < 300


@cases.table
def test_what_the_firmware_puts_on_no_node(gpu_node: int | None, nic_node: int | None, subjects: str) -> None:
    words = "the firmware does not say on which NUMA node (numa_node is -1), so nothing can be bound to it"

    assert node(gpu_node, nic_node) == (f"{subjects}: {words}",)
    assert node(gpu_node, nic_node, nodes=(Node(0, tuple(range(16)), 1, (10,)),)) == ()


def test_a_node_with_cpus_and_without_memory() -> None:
    nodes = (TWO[0], Node(1, TWO[1].cpus, 0, (21, 10)), Node(2, (), 0))

    assert node(nodes=nodes) == (
        (
            "NUMA node 1: CPUs but no memory, so all of theirs is on another node: "
            "is every memory channel populated?"
        ),
    )
    # Not known is not none.
    assert node(nodes=(TWO[0], Node(1, TWO[1].cpus, None, (21, 10)))) == ()


def test_a_cpu_of_two_nodes() -> None:
    [words] = node(nodes=(TWO[0], Node(1, (3, *TWO[1].cpus), 1024, (21, 10))))

    assert words.startswith("CPU 3: on more than one NUMA node")


def test_a_gpu_with_nothing_to_bind_to() -> None:
    [words] = node(processors=cpus(8, 2, isolated=TWO[0].cpus))

    assert words.startswith("GPU0 (0000:01:00.0): all CPUs of its NUMA node are isolated")


def test_where_the_cpus_are_not_known_nothing_is_said_of_what_may_use_them() -> None:
    assert node(processors=Cpus()) == ()


def test_a_container_is_told_what_is_its_own() -> None:
    container = Machine("container", container="docker")

    assert len(node(machine=container)) == 1
    seen, mine = node(machine=container, processors=cpus(8, 2, allowed=(0, 1)))
    assert seen.startswith("sysfs shows a container the CPUs, memory and PCI devices of the whole host")
    assert mine == "this container may run on CPU 0-1 only"
    assert "this container may run on CPU none only" in node(
        machine=container, processors=cpus(8, 2, allowed=())
    )


def test_distances_in_a_virtual_machine_are_its_hypervisors() -> None:
    [words] = node(machine=Machine("virtual machine"))

    assert words.startswith("the PCI tree of a virtual machine is its hypervisor's")
    assert advice.warnings(Topology(Machine("virtual machine")), [], {}) == ()


def test_a_narrow_link_is_told() -> None:
    [words] = node(link=Link("32.0 GT/s PCIe", 8, "32.0 GT/s PCIe", 16))

    assert words.startswith("eth0 mlx5_0 (0000:02:00.0): PCIe link at 32.0 GT/s x8")
