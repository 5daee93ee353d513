# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fixtures' trees agree with themselves as files of a kernel do: CPUs, memory, what each machine is."""

from __future__ import annotations

import os
import pathlib
import re

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import irqs, machines, tree
from ansible_collections.mlnode.tuning.tests.fixtures.build import build
from ansible_collections.mlnode.tuning.tests.fixtures.seen import CPU, NET, NODE, PCI, Seen, numbers, see
from ansible_collections.mlnode.tuning.tests.unit import cases

NAMES = sorted(machines.MACHINES)
every = pytest.mark.parametrize("seen", NAMES, indirect=True)


@pytest.fixture
def seen(request: pytest.FixtureRequest) -> Seen:
    return see(request.param)


# -- the form of the files --------------------------------------------------------------------


@cases.table
def test_masks_have_all_their_bits(cpus: tuple[int, ...], bits: int, text: str) -> None:
    assert tree.bitmap(cpus, bits) == text


@pytest.mark.parametrize(
    ("cpus", "text"), [((), ""), ((4,), "4"), ((3, 1, 2), "1-3"), ((0, 1, 3, 8, 9), "0-1,3,8-9")]
)
def test_lists_are_the_shortest(cpus: tuple[int, ...], text: str) -> None:
    assert tree.cpulist(cpus) == text


@cases.table
def test_links_are_written_as_the_kernel_does(path: str, target: str, text: str) -> None:
    assert tree.link_text(path, target) == text


@every
def test_links_lead_to_something_inside(seen: Seen) -> None:
    for path, target in seen.links.items():
        assert not target.startswith("/"), path
        assert seen.real(path) in seen.paths, path


@every
def test_members_of_a_class_or_bus_name_it_as_their_subsystem(seen: Seen) -> None:
    members = [path for path in seen.links if re.match(r"/sys/(class/[^/]+|bus/[^/]+/devices)/[^/]+\Z", path)]
    members = [path for path in members if not path.startswith(("/sys/class/dmi", "/sys/class/block"))]
    assert len(members) > 8
    for path in members:
        group = path.rpartition("/")[0]
        group = group[: -len("/devices")] if group.endswith("/devices") else group
        assert seen.real(f"{path}/subsystem") == group, path


@every
def test_masks_and_lists_beside_each_other_agree(seen: Seen) -> None:
    pairs = [path for path in seen.paths if f"{path}_list" in seen.paths]
    assert pairs
    for path in pairs:
        assert seen.mask(path) == seen.cpus(f"{path}_list"), path
    widths = {len(seen.text(path)) for path in pairs}
    assert len(widths) == 1, "the kernel prints all masks with the same number of digits"


# -- CPUs and memory --------------------------------------------------------------------------


@every
def test_cpu_sets_agree_with_the_folders(seen: Seen) -> None:
    possible, present = seen.cpus(f"{CPU}/possible"), seen.cpus(f"{CPU}/present")
    assert set(seen.online) <= set(present) <= set(possible)
    assert set(seen.cpus(f"{CPU}/offline")) == set(possible) - set(seen.online)
    assert set(seen.cpus(f"{CPU}/isolated")) <= set(possible)
    assert numbers(seen.names(CPU), "cpu") == set(present)
    for cpu in present:
        folder = f"{CPU}/cpu{cpu}"
        if seen.has(f"{folder}/online"):
            assert seen.number(f"{folder}/online") == (cpu in seen.online)
        assert seen.has(f"{folder}/topology") == (cpu in seen.online)


@every
def test_threads_and_packages_are_those_with_the_same_numbers(seen: Seen) -> None:
    packages: dict[str, list[int]] = {}
    cores: dict[tuple[str, str], list[int]] = {}
    for cpu in seen.online:
        topology = f"{CPU}/cpu{cpu}/topology"
        package, core = seen.text(f"{topology}/physical_package_id"), seen.text(f"{topology}/core_id")
        packages.setdefault(package, []).append(cpu)
        cores.setdefault((package, core), []).append(cpu)
    for sets, name in ((packages.values(), "package_cpus_list"), (cores.values(), "core_cpus_list")):
        for members in sets:
            for cpu in members:
                assert list(seen.cpus(f"{CPU}/cpu{cpu}/topology/{name}")) == members
    assert seen.number(f"{CPU}/smt/active") == any(len(members) > 1 for members in cores.values())


@every
def test_nodes_divide_the_online_cpus(seen: Seen) -> None:
    nodes = seen.cpus(f"{NODE}/online")
    assert numbers(seen.names(NODE), "node") == set(nodes)
    assert numbers(seen.names(f"{CPU}/cpu0"), "node") == {0}
    members = [cpu for node in nodes for cpu in seen.cpus(f"{NODE}/node{node}/cpulist")]
    assert sorted(members) == list(seen.online)
    for node in nodes:
        here = seen.cpus(f"{NODE}/node{node}/cpulist")
        assert seen.mask(f"{NODE}/node{node}/cpumap") == here
        linked = numbers(seen.names(f"{NODE}/node{node}"), "cpu")
        assert linked & set(seen.online) == set(here)
        for cpu in linked:
            assert seen.real(f"{CPU}/cpu{cpu}/node{node}") == f"{NODE}/node{node}"
    assert [node for node in nodes if seen.text(f"{NODE}/node{node}/cpulist")] == list(
        seen.cpus(f"{NODE}/has_cpu")
    )


@every
def test_distances_are_a_symmetric_table(seen: Seen) -> None:
    nodes = seen.cpus(f"{NODE}/online")
    rows = [[int(word) for word in seen.text(f"{NODE}/node{node}/distance").split()] for node in nodes]
    for row in range(len(nodes)):
        assert len(rows[row]) == len(nodes)
        assert rows[row][row] == min(rows[row]) == 10
        assert rows[row] == [other[row] for other in rows]


def memory(seen: Seen, path: str) -> int:
    return int(re.findall(r"MemTotal: +([0-9]+) kB", seen.text(path))[0])


@every
def test_memory_of_the_nodes_adds_up(seen: Seen) -> None:
    of_nodes = {node: memory(seen, f"{NODE}/node{node}/meminfo") for node in seen.cpus(f"{NODE}/online")}
    assert sum(of_nodes.values()) == memory(seen, "/proc/meminfo")
    with_memory = seen.cpus(f"{NODE}/has_memory")
    assert [node for node, size in of_nodes.items() if size] == list(with_memory)
    assert set(seen.cpus(f"{NODE}/has_normal_memory")) <= set(with_memory)


@every
def test_cpuinfo_shows_the_online_cpus(seen: Seen) -> None:
    stanzas = [dict(re.findall(r"(.+?)\t*: (.*)", part)) for part in seen.text("/proc/cpuinfo").split("\n\n")]
    assert [int(stanza["processor"]) for stanza in stanzas if stanza] == list(seen.online)
    for stanza in stanzas:
        if "physical id" in stanza:
            topology = f"{CPU}/cpu{stanza['processor']}/topology"
            assert stanza["physical id"] == seen.text(f"{topology}/physical_package_id")
            assert stanza["core id"] == seen.text(f"{topology}/core_id")
            assert int(stanza["siblings"]) == len(seen.cpus(f"{topology}/package_cpus_list"))


@every
def test_a_policy_that_can_be_read_has_choices_its_driver_offers(seen: Seen) -> None:
    for number in numbers(seen.names(f"{CPU}/cpufreq"), "policy"):
        policy = f"{CPU}/cpufreq/policy{number}"
        assert seen.real(f"{CPU}/cpu{number}/cpufreq") == policy
        if number not in seen.online:  # EBUSY
            contents = {
                pathlib.Path(seen.root + f"{policy}/{name}").read_text() for name in seen.names(policy)
            }
            assert contents == {""}
            continue
        assert seen.text(f"{policy}/affected_cpus") == str(number)
        assert (
            seen.text(f"{policy}/scaling_governor")
            in seen.text(f"{policy}/scaling_available_governors").split()
        )
        if seen.has(f"{policy}/energy_performance_preference"):
            choices = seen.text(f"{policy}/energy_performance_available_preferences")
            assert choices.endswith(" ")
            assert seen.text(f"{policy}/energy_performance_preference") in choices.split()


# -- what each machine is for -----------------------------------------------------------------


def with_class(seen: Seen, vendor: str, kind: str) -> list[str]:
    return [
        address
        for address in seen.names(PCI)
        if seen.text(f"{PCI}/{address}/vendor") == vendor and seen.text(f"{PCI}/{address}/class") == kind
    ]


def test_epyc_has_its_offline_cpus_its_nodes_and_its_interrupts() -> None:
    seen = see("epyc256")
    assert seen.text(f"{CPU}/offline") == "6-7,134"
    assert seen.text(f"{CPU}/cpu135/topology/core_cpus_list") == "135"
    assert seen.text(f"{NODE}/node0/cpulist") == "0-5,8-15,128-133,135-143"
    assert f"isolcpus=managed_irq,domain,{seen.text(f'{CPU}/isolated')} " in seen.text("/proc/cmdline")
    cards = with_class(seen, "0x8086", "0x020000")
    assert len(cards) == 16
    assert sum(len(seen.names(f"{PCI}/{card}/msi_irqs")) for card in cards) == 2048
    assert len(with_class(seen, "0x1002", "0x120000")) == 8
    # Queue 6 is of an offline CPU, so that its driver asks for nothing; the disk keeps off isolated CPUs.
    queues = {row.split()[-1]: f"/proc/irq/{row.split(':')[0].strip()}" for row in seen.interrupts[1:]}
    assert seen.mask(f"{queues['ice-enp100s0f0-TxRx-6']}/affinity_hint") == ()
    assert seen.mask(f"{queues['ice-enp196s0f0-TxRx-8']}/affinity_hint") == (8,)
    disk = [folder for handler, folder in queues.items() if re.fullmatch("nvme0q[1-9][0-9]*", handler)]
    isolated = set(seen.cpus(f"{CPU}/isolated"))
    for folder in disk:
        allowed = set(seen.cpus(f"{folder}/smp_affinity_list"))
        assert allowed <= isolated or not isolated & set(seen.cpus(f"{folder}/effective_affinity_list"))
    assert any(isolated & set(seen.cpus(f"{folder}/smp_affinity_list")) for folder in disk)
    assert {seen.text(f"{PCI}/{card}/numa_node") for card in cards} == set("01234567")
    narrow = [card for card in cards if seen.text(f"{PCI}/{card}/current_link_width") == "8"]
    assert narrow == ["0000:44:00.0", "0000:44:00.1"]
    assert seen.real(f"{NET}/enp4s0f1/master") == "/sys/devices/virtual/net/bond0"


@pytest.mark.parametrize("scale", [2, 4])
def test_epyc_comes_in_multiples(scale: int) -> None:
    machine = machines.epyc256(scale)
    assert machine.cpus.count == 256 * scale
    cards = [irq for irq in irqs.of(machine) if irq.function and irq.function.driver == "ice"]
    assert len(cards) == 2048 * scale
    addresses = [function.address for _root, _above, function in machine.functions()]
    assert len(addresses) == len(set(addresses))


def test_a_tree_is_the_same_every_time(tmp_path: pathlib.Path) -> None:
    for copy in ("one", "other"):
        build(machines.small_vm(), str(tmp_path / copy))
    one, other = Seen(str(tmp_path / "one")), Seen(str(tmp_path / "other"))
    assert (one.paths, one.links) == (other.paths, other.links)
    for path in one.paths:
        if os.path.isfile(one.root + path):
            assert pathlib.Path(one.root + path).read_bytes() == pathlib.Path(other.root + path).read_bytes()
