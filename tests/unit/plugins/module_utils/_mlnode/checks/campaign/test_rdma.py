# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of RDMA on a node whose perftest prints what a test wants; tests/lab runs perftest itself."""

from __future__ import annotations

import errno
import pathlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import perftest as says
from ansible_collections.mlnode.tuning.tests.fixtures.fabric_files import gid
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit import rdma_bench as bench
from ansible_collections.mlnode.tuning.tests.unit.campaign_machine import ASKED, NOW, SLOT, Time
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.rail_machine import Ip
from mlnode.checks.campaign import facts, gpudirect, kinds, part, rdma, rounds
from mlnode.checks.campaign.kind import End, Part, Rail
from mlnode.host.system import Finished
from mlnode.model.errors import HostError, MlnodeError, RefusedError
from mlnode.topology import hardware
from mlnode.topology.model import Distance, Gpu

OWN, PEER = "10.0.0.7", "10.0.0.8"
RAIL = {"rails": [[OWN, PEER]]}

#: The GPU nearest to the NIC, as perftest counts and places it
GPU = {"gpu": 1, "gpu_address": "0000:65:00.0", "gpu_vendor": "NVIDIA"}
OTHER_GPU = {**GPU, "gpu_vendor": "AMD"}

Says = "Callable[[Sequence[str]], Finished | None]"


def of(text: str, own: str = OWN, peer: str = PEER) -> str:
    """As between these addresses: the table has 10.0.0.1 and 10.0.0.2."""
    for old, new in (("01", own), ("02", peer)):
        octets = ":".join(f"{int(one):02}" for one in new.split("."))
        text = text.replace(f"255:255:10:00:00:{old}\n", f"255:255:{octets}\n")
    return text


class Node(Machine):
    """says: what perftest prints, given its words; None for what a good one does, whose packets pass."""

    @classmethod
    def made(cls, path: pathlib.Path, **changes: Any) -> Node:
        node = cls(bench.node(path, bench.roce(**changes)).root)
        node.ip = Ip()
        node.ip.addresses["rail0"] = [f"{OWN}/24"]
        node.says: Says = lambda _words: None
        node.commands: list[str] = []
        node.lock = threading.Lock()
        node.passing = 1.0
        for name in ("port_xmit_packets", "port_rcv_packets"):
            node.put(f"{bench.PORT}/counters/{name}", "1000\n")
        return node

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if command[0] == "ip":
            return self.ip.run(command)
        words = [*command[3:]] if command[0] == "timeout" else [*command]
        self.commands.append(" ".join(words))
        said = self.says(words)
        if said is None:
            said = Finished(0, of(good(words)), "")
            self.count(words)
        return said

    def count(self, words: Sequence[str]) -> None:
        name = "port_rcv_packets" if "--reversed" in words else "port_xmit_packets"
        path = f"{bench.PORT}/counters/{name}"
        with self.lock:
            self.put(path, f"{int(self.read(path)) + int(self.passing * 2**26)}\n")


def good(words: Sequence[str]) -> str:
    """Of 391.87 Gb/s, 381.87 with GPUs, and 1.60 usec."""
    if "ib_write_lat" in words:
        return says.latency(int(words[words.index("-n") + 1]))
    option = next((word for word in words if word.startswith(("--use_cuda", "--use_rocm"))), "")
    if option:
        before = says.ROCM if option.startswith("--use_rocm") else says.CUDA
        return before.format(number=option[-1]) + says.output("381.87", 3)
    return says.output(seconds=3)


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Node:
    return Node.made(tmp_path)


@pytest.fixture(scope="module")
def same(tmp_path_factory: pytest.TempPathFactory) -> Node:
    """For tests that only change what is printed."""
    return Node.made(tmp_path_factory.mktemp("same"))


def asked(kind: str, **more: Any) -> Part:
    slot = {**SLOT, **RAIL}
    given = {**ASKED, "kind": kind, "start": NOW, "rounds": 1, "addresses": [OWN], "slots": [slot], **more}
    return part.parse(given)


def ends(node: Node, made: Part) -> list[End]:
    if made.kind is gpudirect:
        return [end._replace(**GPU) for end in rdma.ends(node, made)]
    return made.kind.ends(node, made)


def measured(node: Node, kind: str, **more: Any) -> dict[str, Any]:
    made, time = asked(kind, **more), Time()
    [found] = rounds.measure(node, made, made.slots[0], ends(node, made), time.clock, 2)
    return found


def served(node: Node, kind: str) -> list[dict[str, Any]]:
    made = asked(kind)
    return rounds.serve(node, made, made.slots[0], ends(node, made))


# -- what is measured ----------------------------------------------------------------------------


def test_the_bandwidth_of_both_directions(node: Node) -> None:
    found = measured(node, "rdma_bw")

    assert (found["reason"], found["forward_gbits"], found["backward_gbits"]) == ("", 391.87, 391.87)
    assert found["evidence"]["interface"] == "mlx5_0/1"
    assert node.commands == [
        f"ib_write_bw -d mlx5_0 -i 1 -s 65536 -F -D 5 -f 1 -p {port} --report_gbits -x 2{more} {PEER}"
        for port, more in ((18600, ""), (18601, " --reversed"))
    ]


def test_the_latency_and_its_tail(node: Node) -> None:
    found = measured(node, "rdma_lat")

    assert (found["reason"], found["usec"], found["p99_usec"]) == ("", 1.60, 1.83)
    assert found["evidence"]["p999_usec"] == 62.95
    assert node.commands == [f"ib_write_lat -d mlx5_0 -i 1 -s 2 -F -n 7500 -p 18600 -x 2 {PEER}"]


def test_memory_of_gpus_and_of_the_hosts(node: Node) -> None:
    found = measured(node, "gpudirect")

    assert found["reason"] == ""
    assert [found[name] for name in gpudirect.FIELDS] == [381.87, 381.87, 391.87, 391.87]
    assert [" --use_cuda=1" in words for words in node.commands] == [False, True, False, True]
    assert [" --reversed" in words for words in node.commands] == [False, False, True, True]
    assert node.commands[1].startswith("env CUDA_DEVICE_ORDER=PCI_BUS_ID ib_write_bw ")
    assert found["evidence"]["command"] == node.commands[-1]


def test_both_ends_start_the_same_programs_on_a_port_of_their_own(node: Node) -> None:
    assert served(node, "gpudirect") == []
    servers = sorted(node.commands, key=lambda words: words.split(" -p ")[1])
    node.commands.clear()
    measured(node, "gpudirect")

    assert [f"{words} {PEER}" for words in servers] == node.commands
    assert len({words.split(" -p ")[1].split()[0] for words in servers}) == 4


# -- what was lost ------------------------------------------------------------------------------


def answer(text: str, status: int = 0, error: str = "") -> Says:
    return lambda _words: Finished(status, of(text), error)


BW, LAT = says.output(seconds=3), says.latency(7500)


#: Packets of one direction, as count() has them
CROSSED = 2**26


@cases.table
def test_packets_that_the_port_has_counted_as_lost(
    node: Node, names: Sequence[str], loss: tuple[int | None, int | None]
) -> None:
    folder = f"{bench.PORT}/hw_counters"
    for name in node.names(folder):
        node.remove(f"{folder}/{name}")

    def says(_words: Sequence[str]) -> None:
        for name in names:
            node.put(f"{folder}/{name}", f"{int(node.read(f'{folder}/{name}')) + CROSSED // 100}\n")

    for name in names:
        node.put(f"{folder}/{name}", "7\n")
    node.says = says

    found = measured(node, "rdma_bw")["loss"]

    assert found == [None if one is None else pytest.approx(one / 100, rel=1e-3) for one in loss]


def test_a_latency_has_the_losses_of_one_direction(node: Node) -> None:
    assert measured(node, "rdma_lat")["loss"] == [0.0, None]


@pytest.mark.parametrize(
    ("answers", "failed"),
    [
        (answer("", 1, says.NOBODY), "unreachable"),
        (answer(says.TABLE, 124), "timeout"),
        (answer("", 1, "Failed status 12: wr_id 0\n"), "nothing"),
        (answer(""), "program"),
        (answer(BW.replace("mlx5_0", "mlx5_1")), "other"),
    ],
)
def test_a_word_for_each_failure(same: Node, answers: Says, failed: str) -> None:
    same.says = answers

    assert measured(same, "rdma_bw")["failed"] == failed


# -- what must not pass --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "answers", "reason"),
    [
        ("rdma_bw", answer("", 1, says.NOBODY), "no server of 10.0.0.8 listened on port 18600"),
        ("rdma_lat", answer("", 1, says.NOBODY), "no server of 10.0.0.8 listened on port 18600"),
        ("rdma_bw", answer(says.TABLE, 124), "ib_write_bw did not end within 9 s"),
        ("rdma_lat", answer("", -9), "ib_write_lat did not end within 7 s"),
        ("rdma_bw", answer(""), "ib_write_bw ended with 0: it printed no result"),
        ("rdma_lat", answer(""), "ib_write_lat ended with 0: it printed no result"),
        ("rdma_lat", answer(LAT[: LAT.index("62.95") + 5]), "it printed no result"),
        ("rdma_lat", answer(says.latency(7500, "0.00")), "it printed no result"),
        ("rdma_lat", answer(says.latency(7500, "1.90")), "it printed no result"),  # above the 99th percentile
        ("rdma_lat", answer(LAT.replace("usec", "cycles")), "it printed no result"),
        ("rdma_lat", answer(BW), "it printed no result"),
        ("rdma_bw", answer(BW, 1, "something new\n"), "ib_write_bw ended with 1: something new"),
        ("rdma_bw", answer(says.output(seconds=2)), "2.00 s were measured of 3 s that were asked for"),
        ("rdma_bw", answer(BW.replace(" 65536 ", " 32768 ").replace("0.747", "1.494")), "32768 bytes"),
        ("rdma_lat", answer(says.latency(1000)), "1000 messages of 2 bytes were measured, and not 7500 of 2"),
        ("rdma_bw", answer(BW.replace("mlx5_0", "mlx5_1")), "mlx5_1 was measured, and not mlx5_0"),
        ("rdma_bw", answer(BW.replace("type : IB", "type : IW")), "the transport was IW, and not IB"),
        ("rdma_bw", lambda _w: Finished(0, of(BW, peer=OWN), ""), "10.0.0.7 was measured to itself"),
        ("rdma_lat", lambda _w: Finished(0, of(LAT, peer="10.9.9.9"), ""), "10.9.9.9 answered in place of"),
        ("rdma_bw", answer(BW), "35876768 packets were measured, but mlx5_0/1 has sent 0: the others went"),
        ("rdma_lat", answer(LAT), "7500 packets were measured, but mlx5_0/1 has sent 0: the others went"),
    ],
)  # fmt: skip
def test_what_is_no_result_has_a_reason(same: Node, kind: str, answers: Says, reason: str) -> None:
    same.says = answers

    found = measured(same, kind)

    assert reason in found["reason"]
    assert not {*kinds.kind(kind).FIELDS} & {*found}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda text: text.replace("allocated GPU buffer", "allocated"),
            "of no GPU was used instead of the",
        ),
        (
            lambda text: text.replace("No. 1", "No. 0"),
            "memory of 17:00 was used instead of the GPU at 0000:65:00.0",
        ),
        (lambda text: says.output(seconds=3), "of no GPU was used instead of the GPU at 0000:65:00.0"),
        (
            lambda text: " Unsupported memory type\n",
            "Unsupported memory type; this perftest was built without",
        ),
        (lambda text: "cuInit(0) returned 999\n", "cuInit(0) returned 999; CUDA does not start"),
        (lambda text: text.replace(says.LINE, " failed to create mr\n", 1), "load nvidia_peermem"),
    ],
)
def test_a_gpu_that_was_not_used_is_no_result(same: Node, change: Callable[[str], str], reason: str) -> None:
    def answers(words: Sequence[str]) -> Finished | None:
        if not words[-2].startswith("--use_cuda"):
            return None
        text = change(good(words))
        same.count(words)
        return Finished(0 if "BW average" in text and "failed" not in text else 1, of(text), "")

    same.says = answers

    assert reason in measured(same, "gpudirect")["reason"]


def test_memory_of_gpus_with_rocm(node: Node) -> None:
    """Its perftest names the bus of the GPU alone, and needs no order of the devices."""
    found = with_rocm(node)

    assert found["reason"] == ""
    assert [found[name] for name in gpudirect.FIELDS] == [381.87, 381.87, 391.87, 391.87]
    assert [" --use_rocm=1" in words for words in node.commands] == [False, True, False, True]
    assert all(words.startswith("ib_write_bw ") for words in node.commands)


def with_rocm(node: Node) -> dict[str, Any]:
    made, time = asked("gpudirect"), Time()
    [end] = ends(node, made)
    [found] = rounds.measure(node, made, made.slots[0], [end._replace(**OTHER_GPU)], time.clock, 2)
    return found


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("0x65", "0x17", "memory of 17 was used instead of the GPU at 0000:65:00.0"),
        (
            "allocated 131072 bytes of GPU",
            "found GPU",
            "of no GPU was used instead of the GPU at 0000:65:00.0",
        ),
        ("Using ROCm", "hipDeviceGetCount() returned 100\nUsing", "returned 100; ROCm does not start"),
        ("allocated", "hipMalloc error=2\nallocated", "hipMalloc error=2; the GPU has no memory left"),
        (
            says.LINE,
            " Unsupported memory type\n",
            "Unsupported memory type; this perftest was built without ROCm",
        ),
        (says.LINE, " failed to create mr\n", "install the driver's peer memory"),
    ],
)
def test_rocm_that_measured_nothing(same: Node, old: str, new: str, reason: str) -> None:
    def answers(words: Sequence[str]) -> Finished | None:
        if not words[-2].startswith("--use_rocm"):
            return None
        text = good(words).replace(old, new, 1)
        same.count(words)
        is_good = not any(sign in text for sign in ("error", "returned", "Unsupported", "failed"))
        return Finished(0 if is_good else 1, of(text), "")

    same.says = answers
    assert reason in with_rocm(same)["reason"]


def test_memory_of_a_gpu_in_place_of_the_hosts_is_no_result(node: Node) -> None:
    node.says = lambda _words: Finished(0, of(says.CUDA.format(number=1) + BW), "")
    node.count(["ib_write_bw"])

    assert (
        "the memory of the GPU at 65:00 was used instead of the host's"
        in measured(node, "gpudirect")["reason"]
    )


def test_packets_that_another_port_has_sent_do_not_count(node: Node) -> None:
    node.passing = 0.25

    assert (
        "but mlx5_0/1 has sent 16777216: the others went another way" in measured(node, "rdma_bw")["reason"]
    )


def test_a_port_that_counts_no_packets_proves_nothing(node: Node) -> None:
    for name in ("port_xmit_packets", "port_rcv_packets"):
        node.remove(f"{bench.PORT}/counters/{name}")

    assert "mlx5_0/1 counts no packets (counters/port_xmit_packets, " in measured(node, "rdma_bw")["reason"]


#: Names of packets sent and received by driver, in a port whose folder counters/ counts nothing
_NAMES = {
    "ionic": ("tx_rdma_ucast_pkts", "rx_rdma_ucast_pkts"),
    "irdma": ("ip4OutPkts", "ip4InPkts"),
    "bnxt": ("tx_pkts", "rx_pkts"),
}


@pytest.mark.parametrize("driver", _NAMES)
def test_a_driver_with_names_of_its_own_is_measured(node: Node, driver: str) -> None:
    folder = f"{bench.PORT}/hw_counters"
    names = [*_NAMES[driver], *(("ip6OutPkts", "ip6InPkts") if driver == "irdma" else ())]
    for name in names:
        node.put(f"{folder}/{name}", "1000\n")

    def count(words: Sequence[str]) -> None:
        path = f"{folder}/{_NAMES[driver]['--reversed' in words]}"
        with node.lock:
            node.put(path, f"{int(node.read(path)) + CROSSED}\n")

    node.count = count

    assert measured(node, "rdma_bw")["reason"] == ""

    node.unreadable[f"{folder}/{_NAMES[driver][0]}"] = errno.EIO
    assert "counts no packets" in measured(node, "rdma_bw")["reason"]


def test_a_peer_that_is_this_node_does_not_count(node: Node) -> None:
    node.ip.prints["route"] = '[{"dev": "lo"}]'

    assert measured(node, "rdma_bw")["reason"].startswith(f"{PEER} is an address of this node itself")


def test_a_stranger_at_the_server_is_reported(node: Node) -> None:
    node.says = lambda _words: Finished(0, of(BW, peer="10.9.9.9"), "")

    [entry] = served(node, "rdma_lat")

    assert entry == {"round": 0, "rail": 0, "reason": f"10.9.9.9 came to port 18600 in place of {PEER}"}


def test_a_server_without_a_client_says_nothing(node: Node) -> None:
    node.says = lambda _words: Finished(124, "", "")

    assert served(node, "rdma_bw") == []


# -- before it begins ----------------------------------------------------------------------------


def test_a_device_may_be_given_and_the_addresses_are_those_to_agree_over(node: Node) -> None:
    node.ip.addresses["eth0"] = ["192.168.0.7/24"]
    given = {"addresses": ["192.168.0.7"], "devices": ["mlx5_0/1/2"]}
    made = asked("rdma_bw", **given)

    [end] = made.kind.ends(node, made)

    assert (end.interface, end.device, end.port, end.gid, end.addressed) == ("eth0", "mlx5_0", 1, 2, False)


def test_the_facts_of_a_rail_are_those_of_its_port(node: Node) -> None:
    made = asked("rdma_bw")

    [rail] = facts.facts(node, made.kind.ends(node, made))["rails"]

    assert (rail["device"], rail["speed_mbit"], rail["mtu"]) == ("mlx5_0/1", 100_000, 9000)
    assert (rail["interface"], rail["firmware"]) == ("rail0", "28.43.1014")


@pytest.mark.parametrize(
    ("change", "more", "said"),
    [
        (lambda node: node.put(f"{bench.PORT}/gids/2", gid("::ffff:10.0.0.9")), {}, "no RDMA port has the"),
        (lambda node: node.put(f"{bench.PORT}/state", "1: DOWN"), {}, "the port is 1: DOWN; look at the"),
        (lambda node: None, {"devices": ["mlx5_7"]}, "mlx5_7/1: there is no such port, but mlx5_0/1"),
        (lambda node: None, {"addresses": ["10.7.7.7"]}, "no interface of this node has the address"),
        (lambda node: None, {"devices": ["mlx5_0", "mlx5_1"]}, "devices: there are 2, and 1 addresses"),
        (lambda node: None, {"devices": ["-R"]}, "devices: '-R' is not an RDMA device such as mlx5_0"),
    ],
)  # fmt: skip
def test_a_rail_that_cannot_be_used(
    node: Node, change: Callable[[Node], object], more: dict[str, Any], said: str
) -> None:
    change(node)

    with pytest.raises(MlnodeError) as error:
        rdma.ends(node, asked("rdma_bw", **more))
    assert said in str(error.value)


def test_a_node_without_a_gpu(node: Node) -> None:
    with pytest.raises(RefusedError, match="mlx5_0: no GPU of NVIDIA or AMD is known to be near it"):
        gpudirect.ends(node, asked("gpudirect"))


@pytest.mark.parametrize(
    ("kind", "answers", "said"),
    [
        ("rdma_bw", lambda words: Finished(1, "Version: 6.24\n", ""), ""),
        (
            "rdma_lat",
            lambda words: Finished(127, "", "error while loading shared libraries"),
            "ended with 127",
        ),
        (
            "gpudirect",
            lambda words: Finished(1, "Version: 4.5\n", ""),
            "this perftest was built without CUDA",
        ),
        ("gpudirect", lambda words: Finished(1, "Version: 6.24\n  --use_cuda=<cuda device id>", ""), ""),
    ],
)
def test_the_program_and_what_it_can_do(same: Node, kind: str, answers: Says, said: str) -> None:
    same.says = answers
    gpu(same, "0x10de")
    if not said:
        kinds.kind(kind).require(same)
        return
    with pytest.raises(HostError, match=said):
        kinds.kind(kind).require(same)


def test_a_program_without_rocm(node: Node) -> None:
    gpu(node, "0x1002")
    node.says = lambda words: Finished(1, "Version: 6.24\n  --use_cuda=<cuda device id>", "")
    with pytest.raises(HostError, match="--use_rocm: this perftest was built without ROCm"):
        kinds.kind("gpudirect").require(node)
    node.forget()
    node.says = lambda words: Finished(1, "Version: 6.24\n  --use_rocm=<rocm device id>", "")
    kinds.kind("gpudirect").require(node)


#: As a public report of eight MI350X has them: HIP counts like the compute driver
HIP = ("75", "05", "65", "15", "f5", "85", "e5", "95")


def kfd(node: Node, buses: Sequence[str]) -> None:
    """The first two nodes are sockets."""
    nodes = "/sys/class/kfd/kfd/topology/nodes"
    for at, bus in enumerate(("", "", *buses)):
        node.put(f"{nodes}/{at}/gpu_id", f"{900 - at if bus else 0}\n")
        node.put(f"{nodes}/{at}/properties", f"location_id {int(bus or '0', 16) << 8}\ndomain 0\n")


def nearest(node: Node, vendor: str, buses: Sequence[str], near: str) -> End:
    return of_addresses(node, vendor, [f"0000:{bus}:00.0" for bus in buses], f"0000:{near}:00.0")


def of_addresses(node: Node, vendor: str, addresses: Sequence[str], near: str) -> End:
    gpus = tuple(Gpu(address, vendor, 0x75A0, 0, None, None) for address in sorted(addresses))
    [end] = rdma.ends(node, asked("rdma_bw"))
    topology = hardware.topology(node)._replace(gpus=gpus, distances=(Distance(near, end.device, "PIX"),))
    return gpudirect._with_gpu(node, topology, end)


@pytest.mark.parametrize("bus", HIP)
def test_a_gpu_has_the_number_that_its_library_gives_it(node: Node, bus: str) -> None:
    kfd(node, HIP)
    assert nearest(node, "AMD", HIP, bus).gpu == HIP.index(bus)
    assert nearest(node, "NVIDIA", HIP, bus).gpu == sorted(HIP).index(bus)


def test_a_gpu_that_the_compute_driver_does_not_have(node: Node) -> None:
    kfd(node, HIP[1:])
    with pytest.raises(RefusedError, match=r"amdgpu has no compute node for the GPU at 0000:75:00\.0"):
        nearest(node, "AMD", HIP, "75")


MANY_DOMAINS = [f"{domain:04x}:04:00.0" for domain in (1, 2, 3, 4)]


@pytest.mark.parametrize("vendor", ["AMD", "NVIDIA"])
def test_a_gpu_that_perftest_cannot_tell_from_others_is_not_measured(node: Node, vendor: str) -> None:
    """perftest prints no domain. In a public report, each GPU of a node is in a domain of its own."""
    for at, address in enumerate(MANY_DOMAINS):
        folder = f"/sys/class/kfd/kfd/topology/nodes/{at}"
        node.put(f"{folder}/gpu_id", f"{900 - at}\n")
        node.put(f"{folder}/properties", f"location_id {4 << 8}\ndomain {int(address[:4], 16)}\n")
    with pytest.raises(RefusedError, match="which one it would measure is unknown"):
        of_addresses(node, vendor, MANY_DOMAINS, MANY_DOMAINS[1])
    assert of_addresses(node, vendor, MANY_DOMAINS[1:2], MANY_DOMAINS[1]).gpu_address == MANY_DOMAINS[1]


def test_two_devices_of_a_bus_are_told_apart_if_perftest_prints_them(node: Node) -> None:
    pair = ["0000:17:00.0", "0000:17:01.0"]
    assert of_addresses(node, "NVIDIA", pair, pair[1]).gpu == 1
    kfd(node, ())
    node.put("/sys/class/kfd/kfd/topology/nodes/0/gpu_id", "1\n")
    node.put("/sys/class/kfd/kfd/topology/nodes/0/properties", "location_id 5896\ndomain 0\n")
    with pytest.raises(RefusedError, match="which one"):
        of_addresses(node, "AMD", pair, pair[1])


#: Vendor → help of a perftest with DMA-BUF, the option, and the name of the module with the RDMA core
DMABUF = {
    "NVIDIA": ("--use_cuda=<cuda device id>\n  --use_cuda_dmabuf  Use", "--use_cuda_dmabuf", "nv_mem"),
    "AMD": ("--use_rocm=<rocm device id>\n  --use_rocm_dmabuf  Use", "--use_rocm_dmabuf", "amdkfd"),
}


@pytest.mark.parametrize("vendor", DMABUF)
def test_dma_buf_is_used_if_the_rdma_core_has_no_peer_memory(node: Node, vendor: str) -> None:
    offers, option, peer = DMABUF[vendor]
    kfd(node, HIP)

    def dmabuf(offered: str) -> bool:
        node.forget()
        node.says = lambda words: Finished(1, f"Version: 6.24\n  {offered}", "")
        return nearest(node, vendor, HIP, "75").dmabuf

    assert dmabuf(offers)
    assert not dmabuf(offers.partition("\n")[0])
    node.put(f"/sys/kernel/mm/memory_peers/{peer}/version", "1.0\n")
    assert not dmabuf(offers)

    end = nearest(node, vendor, HIP, "75")._replace(dmabuf=True)
    made = asked("gpudirect")
    rail = Rail(OWN, PEER, 0, end)
    commands = [made.kind.flows(made, rail, step)[0].request.command for step in range(4)]
    assert [option in command for command in commands] == [False, True, False, True]


def test_peer_memory_that_cannot_be_read_is_an_error(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    exists = node.exists

    def refusing(path: str) -> bool:
        if "memory_peers" in path:
            raise HostError("look at", path, 13)
        return exists(path)

    kfd(node, HIP)
    node.says = lambda words: Finished(1, DMABUF["AMD"][0], "")
    monkeypatch.setattr(node, "exists", refusing)
    with pytest.raises(HostError, match="memory_peers"):
        nearest(node, "AMD", HIP, "75")


def gpu(node: Node, vendor: str) -> None:
    folder = "/sys/devices/pci0000:e1/0000:e1:00.0"
    for name, text in (("vendor", vendor), ("device", "0x2330"), ("class", "0x030200")):
        node.put(f"{folder}/{name}", f"{text}\n")
    if not node.exists("/sys/bus/pci/devices/0000:e1:00.0"):
        node.link("/sys/bus/pci/devices/0000:e1:00.0", f"../../..{folder.replace('/sys', '', 1)}")
    node.forget()


def test_a_node_without_perftest(node: Node) -> None:
    def answers(words: Sequence[str]) -> Finished:
        raise HostError("run", words[0], 2)

    node.says = answers

    with pytest.raises(HostError, match=r"cannot use ib_write_lat: .*: install perftest"):
        kinds.kind("rdma_lat").require(node)
