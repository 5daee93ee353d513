# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st
from mlnode.knobs.irq import plan as irq_plan
from mlnode.knobs.irq.parse import Rule
from mlnode.knobs.nics.ports import Port
from mlnode.model import cpulist
from mlnode.topology.model import Cpu, Cpus, Machine, Nic, Node, Topology


def machine(
    cores: int = 4,
    nodes: int = 2,
    threads: int = 2,
    offline: str = "",
    isolated: str = "",
    nohz_full: str = "",
    empty: int = 0,
    sockets: int = 0,
) -> Topology:
    """So many cores on each node; first threads before second ones. empty: further nodes without CPUs.
    sockets: 0 where the kernel does not say."""
    total = cores * nodes
    off = {*cpulist.parse(offline)}
    present = tuple(range(total * threads))
    online = tuple(cpu for cpu in present if cpu not in off)
    cpus = [
        Cpu(
            number=cpu,
            online=cpu in online,
            package=cpu % total * sockets // total if sockets and cpu in online else None,
            node=cpu % total // cores,
            siblings=tuple(other for other in range(cpu % total, total * threads, total) if other in online),
        )
        for cpu in present
    ]
    members = [
        Node(node, tuple(cpu for cpu in online if cpu % total // cores == node)) for node in range(nodes)
    ]
    return Topology(
        machine=Machine("bare metal"),
        cpus=Cpus(
            all=tuple(cpus),
            present=present,
            online=online,
            isolated=cpulist.parse(isolated),
            nohz_full=cpulist.parse(nohz_full),
        ),
        nodes=(*members, *(Node(nodes + number) for number in range(empty))),
    )


def pool(topology: Topology, node: int | None = 0, allowed: bool = False, **rule: Any) -> irq_plan.Pool:
    return irq_plan.pool(topology, node, Rule(**{"strategy": "spread", **rule}), allowed)


# -- spread --------------------------------------------------------------------------------


@pytest.mark.parametrize(("node", "cpus"), [(0, (0, 1, 2, 3)), (1, (4, 5, 6, 7))])
def test_spread_uses_the_first_thread_of_each_core_beside_the_nic(node: int, cpus: tuple[int, ...]) -> None:
    assert pool(machine(), node) == irq_plan.Pool(cpus)


def test_a_core_whose_first_thread_is_offline_is_used_through_its_second() -> None:
    assert pool(machine(offline="1")).cpus == (0, 2, 3, 9)
    assert pool(machine(offline="1,9")).cpus == (0, 2, 3)


@pytest.mark.parametrize("how", [{"isolated": "2-3,10-11"}, {"nohz_full": "2-3,10-11"}])
def test_cpus_that_are_kept_free_get_nothing(how: dict[str, str]) -> None:
    assert pool(machine(**how)).cpus == (0, 1)


def test_a_node_all_of_whose_cpus_are_kept_free_is_a_refusal_that_says_how_to_allow_it() -> None:
    kept = machine(isolated="0-3,8-11")
    found = pool(kept)
    assert found.cpus == ()
    assert found.refusal == (
        "NUMA node 0 has no CPU but those that isolcpus or nohz_full keep free (0-3,8-11); to do it all "
        "the same: allow: [isolated_cpus]"
    )
    assert pool(kept, allowed=True) == irq_plan.Pool((0, 1, 2, 3))
    assert pool(kept, node=1) == irq_plan.Pool((4, 5, 6, 7))


def test_a_nic_of_no_known_node_is_served_by_all_and_that_is_said() -> None:
    found = pool(machine(), None)
    assert found.cpus == tuple(range(8))
    assert found.note == "the firmware names no NUMA node for it, so the CPUs of all nodes serve it"


def test_on_a_machine_with_one_node_there_is_nothing_to_say_about_it() -> None:
    assert pool(machine(nodes=1), None) == irq_plan.Pool((0, 1, 2, 3))
    assert pool(machine(nodes=0, threads=1), None).cpus == ()


def test_a_node_without_cpus_is_served_by_all_where_none_is_known_to_be_near_and_that_is_said() -> None:
    found = pool(machine(empty=1), 2)
    assert found.cpus == tuple(range(8))
    assert found.note == (
        "its NUMA node 2 has no CPU online, and the firmware does not say which node is near it, so "
        "the CPUs of all nodes serve it"
    )


def memory_near(node: int) -> Topology:
    """Two nodes with CPUs, and a third of memory alone, near one of them."""
    known = machine(empty=1)
    far = tuple(16 if at == node else 32 for at in range(2))
    distances = ((10, 32, far[0]), (32, 10, far[1]), (*far, 10))
    return known._replace(
        nodes=tuple(one._replace(distances=row) for one, row in zip(known.nodes, distances))
    )


@pytest.mark.parametrize("node", [0, 1])
def test_a_node_without_cpus_is_served_by_the_nearest(node: int) -> None:
    known = memory_near(node)
    found = pool(known, 2)
    assert found.cpus == pool(known, node).cpus
    assert found.note == f"its NUMA node 2 has no CPU online; CPUs of node {node} serve it"
    assert pool(known, 2, strategy="housekeeping").cpus == pool(known, node, strategy="housekeeping").cpus
    assert irq_plan.receiving(known, 2, 1) == irq_plan.receiving(known, node, 1)
    assert irq_plan.sending(known, 2, 4) == irq_plan.sending(known, node, 4)


def test_every_cpu_is_a_core_where_the_kernel_does_not_say() -> None:
    silent = Topology(Machine("unknown"), Cpus(online=(0, 1, 2), present=(0, 1, 2)))
    assert pool(silent, None).cpus == (0, 1, 2)


# -- housekeeping --------------------------------------------------------------------------


def test_housekeeping_is_the_first_four_cores_of_the_nics_node() -> None:
    big = machine(cores=8)
    assert pool(big, 0, strategy="housekeeping").cpus == (0, 1, 2, 3)
    assert pool(big, 1, strategy="housekeeping").cpus == (8, 9, 10, 11)
    assert pool(big, None, strategy="housekeeping").cpus == (0, 1, 2, 3, 8, 9, 10, 11)


def test_housekeeping_is_all_there_is_where_there_are_fewer() -> None:
    assert pool(machine(cores=2), 1, strategy="housekeeping").cpus == (2, 3)


@cases.table
def test_housekeeping_counts_for_each_socket_however_many_nodes_it_has(
    nodes: int, sockets: int, cpus: tuple[int, ...]
) -> None:
    """NPS4 would have had 32 of 64 cores for interrupts."""
    there = machine(cores=8, nodes=nodes, sockets=sockets)
    assert irq_plan.housekeeping(there, frozenset()) == cpus
    for node in range(nodes):
        mine = tuple(cpu for cpu in cpus if cpu // 8 == node)
        assert pool(there, node, strategy="housekeeping") == irq_plan.Pool(mine)


def test_a_node_without_a_share_of_the_socket_has_a_core_for_its_own_nic() -> None:
    """Six nodes in a socket, the last of which has the NIC."""
    there = machine(cores=4, nodes=6, sockets=1)
    assert irq_plan.housekeeping(there, frozenset()) == (0, 4, 8, 12)
    there = there._replace(nics=(Nic("eth0", "physical", address="0000:01:00.0", node=5, rx_queues=4),))
    assert pool(there, 5, strategy="housekeeping").cpus == (20,)


@pytest.mark.parametrize(("queues", "cores"), [(1, 1), (64, 1), (65, 2), (127, 2), (300, 5)])
def test_a_core_has_128_interrupts_at_most(queues: int, cores: int) -> None:
    there = machine(cores=8, nodes=8, sockets=2)
    nics = [
        Nic(f"eth{at}", "physical", address=f"0000:01:00.{at}", node=1, rx_queues=queues) for at in (0, 1)
    ]
    there = there._replace(nics=tuple(nics))
    assert len(pool(there, 1, strategy="housekeeping").cpus) == cores
    assert len(pool(there, 2, strategy="housekeeping").cpus) == 1
    guests = tuple(nic._replace(kind="virtual function") for nic in nics)
    assert len(pool(there._replace(nics=guests), 1, strategy="housekeeping").cpus) == 1


def test_isolated_cores_leave_the_share_to_the_others_of_the_socket() -> None:
    there = machine(cores=4, nodes=4, sockets=1, isolated="0-3,16-19")
    assert irq_plan.housekeeping(there, there.cpus.kept_free) == (4, 5, 8, 12)


def test_housekeeping_leaves_out_what_is_kept_free() -> None:
    kept = machine(cores=8, isolated="1-2,4-7,17-18,20-23")
    assert pool(kept, 0, strategy="housekeeping").cpus == (0, 3)


def test_housekeeping_cpus_can_be_named_and_the_nics_node_counts_among_them() -> None:
    found = pool(machine(), 1, strategy="housekeeping", cpus=(0, 1, 4, 12))
    assert found == irq_plan.Pool((4, 12))


def test_a_node_with_none_of_the_named_cpus_is_served_by_all_of_them_and_that_is_said() -> None:
    found = pool(machine(), 1, strategy="housekeeping", cpus=(0, 1))
    assert found == irq_plan.Pool((0, 1), "NUMA node 1 has none of the housekeeping CPUs, so all serve it")


def test_a_machine_without_any_housekeeping_cpu_is_a_refusal() -> None:
    found = pool(machine(isolated="0-15"), 0, strategy="housekeeping")
    assert found.refusal.startswith("this machine has no CPU but those that isolcpus or nohz_full keep free")
    assert pool(machine(isolated="0-15"), 0, True, strategy="housekeeping").cpus == (0, 1, 2, 3)


# -- lists ---------------------------------------------------------------------------------


def test_a_list_is_used_as_it_is() -> None:
    assert pool(machine(), 0, strategy="list", cpus=(5, 13, 14)) == irq_plan.Pool((5, 13, 14))


@pytest.mark.parametrize("strategy", ["list", "housekeeping"])
@cases.table
def test_a_cpu_that_is_not_there_can_never_be(
    strategy: str, how: dict[str, str], cpus: tuple[int, ...], words: str
) -> None:
    assert pool(machine(**how), strategy=strategy, cpus=cpus) == irq_plan.Pool(invalid=words)


@pytest.mark.parametrize("strategy", ["list", "housekeeping"])
def test_a_cpu_that_is_kept_free_is_refused_unless_it_is_allowed(strategy: str) -> None:
    kept = machine(isolated="2", nohz_full="3")
    found = pool(kept, strategy=strategy, cpus=(1, 2, 3))
    assert found.refusal == (
        "CPUs 2-3 are kept free by isolcpus or nohz_full; to do it all the same: allow: [isolated_cpus]"
    )
    assert pool(kept, allowed=True, strategy=strategy, cpus=(1, 2, 3)).cpus == (1, 2, 3)


# -- NICs together -------------------------------------------------------------------------


def ports(*nodes: int | None, virtual: int = 0) -> list[Port]:
    """NICs in the order of the bus, the last of which are virtual functions."""
    return [
        Port(f"0000:{at:02x}:00.0", node, ("x",), (), (), virtual=at >= len(nodes) - virtual)
        for at, node in enumerate(nodes)
    ]


def starts(there: Topology, found: Sequence[Port], **rule: Any) -> list[int]:
    """The CPU of queue 0 of each NIC."""
    pools = irq_plan.pools(there, found, Rule(**{"strategy": "spread", **rule}), False)
    return [pools[port.address].cpus[0] for port in found]


def test_queue_0_of_each_nic_of_a_node_is_on_another_core() -> None:
    there = machine(cores=8)
    assert starts(there, ports(0, 0, 0, 0)) == [0, 2, 4, 6]
    assert starts(there, ports(0, 0, 0)) == [0, 2, 5]
    assert starts(there, ports(0, 1, 0, 1)) == [0, 8, 4, 12]
    assert starts(there, ports(*[0] * 16)) == [*range(8), *range(8)]
    pools = irq_plan.pools(there, ports(0, 0), Rule(strategy="spread"), False)
    assert pools["0000:01:00.0"] == irq_plan.Pool((4, 5, 6, 7, 0, 1, 2, 3))


def test_housekeeping_cores_are_shared_in_the_same_way() -> None:
    there = machine(cores=8)
    assert starts(there, ports(0, 0, 1), strategy="housekeeping") == [0, 2, 8]
    assert starts(there, ports(0, 0, 1), strategy="housekeeping", cpus=(1, 2, 3, 8)) == [1, 2, 8]


def test_a_list_is_used_in_its_own_order_by_every_nic() -> None:
    assert starts(machine(), ports(0, 0, 1), strategy="list", cpus=(5, 6)) == [5, 5, 5]


def test_names_and_the_order_of_discovery_are_no_matter() -> None:
    there, found = machine(cores=8), ports(0, 0, 0, 0)
    renamed = [port._replace(nics=(Nic(f"z{9 - at}", "physical"),)) for at, port in enumerate(found)]
    assert starts(there, renamed) == starts(there, found)


def test_nics_whose_node_is_not_known_share_the_cpus_of_all() -> None:
    assert starts(machine(), ports(None, 0, None, 1)) == [0, 0, 4, 4]
    # On one node they are among the others, behind those of which it is known.
    assert starts(machine(cores=8, nodes=1), ports(None, 0)) == [4, 0]


def test_a_virtual_function_that_comes_moves_no_nic() -> None:
    there = machine(cores=8)
    assert starts(there, ports(0, 0, 0, 0, virtual=2)) == [0, 4, 0, 4]


def test_transmit_queues_go_to_the_core_of_their_interrupt() -> None:
    there = machine(isolated="1,9")
    pools = irq_plan.pools(there, ports(0, 0), Rule(strategy="spread"), False)
    served = pools["0000:01:00.0"].cpus
    assert served == (2, 3, 0)
    found = irq_plan.sending(there, 0, 4, served)
    # Then the core that is kept free, and those of the other node
    assert found == ((2, 4, 10, 12), (3, 5, 11, 13), (0, 6, 8, 14), (1, 7, 9, 15))


# -- packet steering -----------------------------------------------------------------------


@cases.table
def test_rps_helps_only_where_there_are_fewer_queues_than_cores(queues: int, cpus: tuple[int, ...]) -> None:
    assert irq_plan.receiving(machine(), 0, queues) == irq_plan.Takers(cpus)


def test_rps_never_names_an_isolated_cpu() -> None:
    assert irq_plan.receiving(machine(isolated="1,9"), 0, 1).cpus == (0, 2, 3, 8, 10, 11)
    found = irq_plan.receiving(machine(isolated="0-3,8-11"), 0, 1)
    assert found.cpus == ()
    assert found.refusal.endswith("and the kernel takes such CPUs out of rps_cpus")


def test_rps_sends_no_packet_to_another_node_by_a_guess() -> None:
    found = irq_plan.receiving(machine(), None, 1)
    assert found == irq_plan.Takers(
        note="its NUMA node is not known, so auto leaves RPS off; give a list of CPUs"
    )
    assert irq_plan.receiving(machine(nodes=1), None, 1).cpus == (0, 1, 2, 3, 4, 5, 6, 7)


def test_xps_gives_all_threads_of_a_core_the_queue_whose_interrupt_is_there() -> None:
    assert irq_plan.sending(machine(), 0, 4) == ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
    assert irq_plan.sending(machine(), 0, 2) == ((0, 2, 4, 6, 8, 10, 12, 14), (1, 3, 5, 7, 9, 11, 13, 15))
    both = ((4, 12), (5, 13), (6, 14), (7, 15), (0, 8), (1, 9), (2, 10), (3, 11))
    assert irq_plan.sending(machine(), 1, 8) == both
    assert irq_plan.sending(machine(), 1, 6) == (
        (2, 4, 10, 12),
        (3, 5, 11, 13),
        (6, 14),
        (7, 15),
        (0, 8),
        (1, 9),
    )
    assert irq_plan.sending(machine(), None, 8)[:2] == ((0, 8), (1, 9))


def test_xps_leaves_queues_over_where_there_are_more_of_them_than_cores() -> None:
    assert irq_plan.sending(machine(cores=1, nodes=1), 0, 3) == ((0, 1), (), ())


@quick
@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 2), st.integers(1, 20))
def test_with_xps_every_cpu_sends_through_one_queue(
    cores: int, nodes: int, threads: int, queues: int
) -> None:
    found = irq_plan.sending(machine(cores, nodes, threads), nodes - 1, queues)
    assert max(map(len, found)) - min(map(len, found)) <= threads
    assert sorted(cpu for cpus in found for cpu in cpus) == [*range(cores * nodes * threads)]
    assert len(found) == queues


@cases.table
def test_flows_are_shared_out_in_powers_of_two(entries: int, queues: int, each: int) -> None:
    assert irq_plan.flows(entries, queues) == each


@quick
@given(st.integers(0, 29).map(lambda power: 1 << power), st.integers(1, 300))
def test_all_queues_together_never_have_more_flows_than_were_asked_for(entries: int, queues: int) -> None:
    each = irq_plan.flows(entries, queues)
    assert each * queues <= entries
    assert each & (each - 1) == 0
    assert max(1, each * 2) * queues > entries


# -- size ----------------------------------------------------------------------------------


def test_more_than_a_thousand_cpus_are_just_more_of_them() -> None:
    large = machine(cores=512, nodes=4)
    assert pool(large, 3).cpus == tuple(range(1536, 2048))
    assert pool(large, 3, strategy="list", cpus=(4095,)).cpus == (4095,)
    assert irq_plan.sending(large, 3, 512)[511] == (511, 1023, 1535, 2047, 2559, 3071, 3583, 4095)


@quick
@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 2), st.data())
def test_whatever_is_offline_or_kept_free_never_serves(
    cores: int, nodes: int, threads: int, data: st.DataObject
) -> None:
    some = st.lists(st.integers(0, cores * nodes * threads - 1), max_size=8).map(cpulist.render)
    there = machine(cores, nodes, threads, offline=data.draw(some), isolated=data.draw(some))
    node = data.draw(st.one_of(st.none(), st.integers(0, nodes)))
    for strategy in ("spread", "housekeeping"):
        found = pool(there, node, strategy=strategy)
        assert bool(found.cpus) is not bool(found.refusal)
        assert {*found.cpus} <= {*there.cpus.online} - {*there.cpus.isolated}
        siblings = {cpu.number: cpu.siblings for cpu in there.cpus.all}
        cores_used = [siblings[cpu] for cpu in found.cpus]
        assert len({*cores_used}) == len(cores_used)


# -- summaries -----------------------------------------------------------------------------


@cases.table
def test_a_summary_spells_out_what_has_an_order(lists: Sequence[str], text: str) -> None:
    assert irq_plan.summary(lists) == text


@quick
@given(st.lists(st.integers(0, 12), min_size=1, max_size=14))
def test_a_short_summary_says_exactly_where_every_queue_is(cpus: list[int]) -> None:
    text = irq_plan.summary([str(cpu) for cpu in cpus])
    if "queues over" in text:
        return
    found: list[int] = []
    for word, after in itertools.zip_longest(text.split(), text.split()[1:], fillvalue=""):
        if word.startswith("x"):
            continue
        first, dots, rest = word.partition("..")
        last, _colon, step = rest.partition(":")
        run = [*range(int(first), int(last) + 1, int(step or 1))] if dots else [int(first)]
        found += run * (int(after[1:]) if after.startswith("x") else 1)
    assert found == cpus
