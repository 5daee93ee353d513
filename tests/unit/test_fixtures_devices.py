# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fixtures' trees agree with themselves as files of a kernel do: PCI, interrupts, interfaces, RDMA."""

from __future__ import annotations

import os
import pathlib
import re

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import machines
from ansible_collections.mlnode.tuning.tests.fixtures.seen import NET, NODE, PCI, Seen, numbers, see
from ansible_collections.mlnode.tuning.tests.unit import cases

ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")

NAMES = sorted(machines.MACHINES)
every = pytest.mark.parametrize("seen", NAMES, indirect=True)


@pytest.fixture
def seen(request: pytest.FixtureRequest) -> Seen:
    return see(request.param)


# -- PCI ----------------------------------------------------------------------------------------


@every
def test_every_function_is_on_the_bus_and_below_bridges(seen: Seen) -> None:
    functions = {
        path
        for path in seen.paths
        if path.startswith("/sys/devices/pci")
        and ADDRESS.match(path.rpartition("/")[2])
        and path not in seen.links
    }
    assert functions == {seen.real(f"{PCI}/{address}") for address in seen.names(PCI)}
    for path in functions:
        above = path.split("/")[4:-1]  # /sys/devices/pci0000:00/...
        for depth in range(len(above)):
            bridge = "/".join([*path.split("/")[:4], *above[: depth + 1]])
            assert seen.text(f"{bridge}/class") == "0x060400", path
        assert path.split("/")[3].split(":")[0][3:] == path.rpartition("/")[2].split(":")[0], "PCI domain"


@every
def test_functions_print_their_attributes_as_sysfs_does(seen: Seen) -> None:
    nodes = seen.cpus(f"{NODE}/online")
    for address in seen.names(PCI):
        folder = f"{PCI}/{address}"
        for name in ("vendor", "device", "subsystem_vendor", "subsystem_device"):
            assert re.fullmatch(r"0x[0-9a-f]{4}", seen.text(f"{folder}/{name}")), address
        assert re.fullmatch(r"0x[0-9a-f]{6}", seen.text(f"{folder}/class")), address
        assert f"PCI_SLOT_NAME={address}" in seen.text(f"{folder}/uevent").splitlines()
        node = seen.number(f"{folder}/numa_node")
        assert node == -1 or node in nodes
        local = seen.online if node == -1 else seen.cpus(f"{NODE}/node{node}/cpulist")
        assert seen.cpus(f"{folder}/local_cpulist") == seen.mask(f"{folder}/local_cpus") == local
        if seen.has(f"{folder}/driver"):
            assert seen.real(f"{folder}/driver/{address}") == seen.real(folder)


@pytest.mark.parametrize("seen", ["hgx", "container"], indirect=True)
def test_virtual_functions_and_their_physical_one_point_at_each_other(seen: Seen) -> None:
    links = [path for path in seen.links if path.endswith("/physfn")]
    assert links
    for path in links:
        virtual, physical = path.rpartition("/")[0], seen.real(path)
        made = [name for name in seen.names(physical) if re.fullmatch("virtfn[0-9]+", name)]
        assert virtual in [seen.real(f"{physical}/{name}") for name in made]
        assert seen.number(f"{physical}/sriov_numvfs") == len(made)


# -- interrupts -----------------------------------------------------------------------------------


@every
def test_every_vector_of_a_function_is_an_interrupt_of_its_own(seen: Seen) -> None:
    owned = [number for address in seen.names(PCI) for number in seen.names(f"{PCI}/{address}/msi_irqs")]
    assert owned
    assert len(owned) == len(set(owned))
    assert set(owned) <= set(seen.names("/proc/irq"))
    wired = set(seen.names("/proc/irq")) - set(owned) - {"default_smp_affinity"}
    assert wired in (set(), {"0", "8", "9"})


@every
def test_proc_interrupts_has_the_same_interrupts(seen: Seen) -> None:
    if not seen.interrupts:  # hidden from a container
        assert seen.has("/.dockerenv")
        return
    head, *rows = seen.interrupts
    assert head.split() == [f"CPU{cpu}" for cpu in seen.online]
    shown: dict[str, set[str]] = {}
    for row in rows:
        number, _colon, rest = row.partition(":")
        if number.strip().isdigit():
            counts, words = rest.split()[: len(seen.online)], rest.split(None, len(seen.online))[-1]
            assert all(count.isdigit() for count in counts)
            busy = [cpu for cpu, count in zip(seen.online, counts) if int(count)]
            assert busy == [seen.number(f"/proc/irq/{number.strip()}/effective_affinity_list")]
            shown[number.strip()] = set(re.split(r"  +", words)[-1].split(", "))
    assert set(shown) == set(seen.names("/proc/irq")) - {"default_smp_affinity"}
    for number, handlers in shown.items():
        folder = f"/proc/irq/{number}"
        assert {
            name for name in seen.names(folder) if os.path.isdir(f"{seen.root}{folder}/{name}")
        } == handlers


@every
def test_interrupts_go_where_they_may(seen: Seen) -> None:
    for number in numbers(seen.names("/proc/irq"), ""):
        folder = f"/proc/irq/{number}"
        allowed = set(seen.cpus(f"{folder}/smp_affinity_list"))
        assert set(seen.cpus(f"{folder}/effective_affinity_list")) <= allowed <= set(seen.online), number
        hint = seen.mask(f"{folder}/affinity_hint")
        assert not hint or set(hint) == allowed, number


# -- interfaces and RDMA --------------------------------------------------------------------------


@every
def test_interfaces_stand_where_their_device_is(seen: Seen) -> None:
    indexes = [seen.number(f"{NET}/{name}/ifindex") for name in seen.names(NET)]
    assert len(indexes) == len(set(indexes))
    for name in seen.names(NET):
        place = seen.real(f"{NET}/{name}")
        device = place[: -len(f"/net/{name}")]
        assert seen.has(f"{NET}/{name}/device") == (device != "/sys/devices/virtual")
        if seen.has(f"{NET}/{name}/device"):
            assert seen.real(f"{NET}/{name}/device") == device
            assert seen.has(f"{device}/driver")
        queues = seen.names(f"{NET}/{name}/queues")
        assert {"rx-0", "tx-0"} <= set(queues)
        assert numbers(queues, "rx-") == set(range(len(numbers(queues, "rx-"))))
        for queue in queues:
            assert seen.has(f"{NET}/{name}/queues/{queue}/rps_cpus") == queue.startswith("rx-")
        several = len(numbers(queues, "tx-")) > 1
        assert seen.has(f"{NET}/{name}/queues/tx-0/xps_cpus") == several


@cases.table
def test_drivers_that_hint_send_a_queue_from_the_cpu_of_its_interrupt(name: str, handler: str) -> None:
    seen = see(name)
    folders = {
        name: f"/proc/irq/{number}"
        for number in numbers(seen.names("/proc/irq"), "")
        for name in seen.names(f"/proc/irq/{number}")
    }
    looked_at = 0
    for interface in seen.names(NET):
        for queue in sorted(numbers(seen.names(f"{NET}/{interface}/queues"), "tx-")):
            address = seen.real(f"{NET}/{interface}").split("/")[-3]
            folder = folders.get(handler.format(queue, address, interface))
            if folder:
                looked_at += 1
                hint = seen.text(f"{folder}/affinity_hint")
                assert seen.text(f"{NET}/{interface}/queues/tx-{queue}/xps_cpus") == hint
    assert looked_at > 300


@every
def test_what_is_down_has_no_speed_to_read(seen: Seen) -> None:
    for name in seen.names(NET):
        up = int(seen.text(f"{NET}/{name}/flags"), 16) & 1
        speed = pathlib.Path(f"{seen.root}{NET}/{name}/speed").read_text()
        assert (speed == "") == (not up or name == "lo"), name
        if seen.text(f"{NET}/{name}/operstate") == "down":
            assert speed in ("", "-1\n"), name


def test_upper_and_lower_interfaces_know_each_other() -> None:
    seen = see("epyc256")
    links = [re.fullmatch(r"(.*/net/([^/]+))/lower_([^/]+)", path) for path in seen.links]
    pairs = [found.groups() for found in links if found]
    assert len(pairs) == 3
    for place, upper, lower in pairs:
        assert seen.real(f"{place}/lower_{lower}") == seen.real(f"{NET}/{lower}")
        assert seen.real(f"{NET}/{lower}/upper_{upper}") == place
    assert seen.text(f"{NET}/bond0.100/iflink") == seen.text(f"{NET}/bond0/ifindex")


@every
def test_the_default_route_goes_over_an_interface_that_is_there(seen: Seen) -> None:
    head, *rows = (row.split() for row in seen.text("/proc/net/route").splitlines())
    assert all(len(row) == len(head) for row in rows)
    (name,) = (row[0] for row in rows if row[1] == row[7] == "00000000")
    assert seen.text(f"{NET}/{name}/operstate") == "up"


@every
def test_rdma_devices_stand_beside_their_interfaces(seen: Seen) -> None:
    for name in seen.names("/sys/class/infiniband"):
        folder = f"/sys/class/infiniband/{name}"
        function = seen.real(f"{folder}/device")
        assert seen.real(folder) == f"{function}/infiniband/{name}"
        for number in seen.names(f"{folder}/ports/1/gid_attrs/ndevs"):
            interface = seen.text(f"{folder}/ports/1/gid_attrs/ndevs/{number}")
            assert seen.has(f"{folder}/ports/1/gids/{number}")
            if not seen.has("/.dockerenv"):
                assert seen.real(f"{NET}/{interface}").startswith(f"{function}/net/")
        for number in seen.names(f"{folder}/ports/1/gids"):
            assert re.fullmatch(r"[0-9a-f]{4}(:[0-9a-f]{4}){7}", seen.text(f"{folder}/ports/1/gids/{number}"))
