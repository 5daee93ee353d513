# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole looks: ping and ip are simulated, and the connections are real ones of the loopback interface."""

from __future__ import annotations

import pathlib
import socket
import threading
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit.path_machine import NIC, Path, PathMachine
from mlnode.checks.model import Check, Verdict, summary
from mlnode.checks.path_mtu import Peer
from mlnode.checks.preflight import node, run
from mlnode.model.errors import HostError

A, B = "127.0.0.2", "127.0.0.3"
TO_A, TO_B = {"address": A, "source": B}, {"address": B, "source": A}

#: What is not about other nodes
OWN = {
    "gpu_messages",
    *("jobs", "drift", "clock_sync", "time_wait", "local_ports", "tcp_retransmits"),
    "rdma_check",
    "nccl",
    "container_sysctls",
}


@pytest.fixture
def port() -> int:
    with socket.create_server((A, 0)) as free:
        found: int = free.getsockname()[1]
    return found


class Node(PathMachine):
    """With the counters of a kernel."""

    def __init__(self, root: str, mtu: int = 9000) -> None:
        super().__init__(root, mtu)
        self.put("/proc/net/sockstat", "sockets: used 9\nTCP: inuse 4 orphan 0 tw 0 alloc 7 mem 1\n")
        self.put("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n")
        self.put("/proc/net/dev", f"Inter-|\n face |\n {NIC}: 0 9 0 0 0 0 0 0 0 9 0 0 0 0 0 0\n")
        self.put(f"/sys/class/net/{NIC}/ifindex", "2\n")
        self.put("/proc/net/snmp", "Tcp: OutSegs RetransSegs\nTcp: 9 0\n")
        self.put("/proc/sys/kernel/random/boot_id", "first\n")
        self.put("/proc/uptime", "100.00 5.00\n")
        self.link("/proc/self/ns/net", "net:[1]")


def look(machine: Node, port: int, *peers: Any, mtu: int | None = None) -> list[Check]:
    request = run.parse(peers, mtu, port, {})
    return run.all_checks(machine, request, writable=True)


def verdicts(checks: list[Check], *names: str) -> dict[str, Verdict]:
    return {check.name: check.verdict for check in checks if not names or check.name in names}


def test_two_nodes_look_at_each_other(tmp_path: pathlib.Path, port: int) -> None:
    found: dict[str, list[Check]] = {}

    def of(name: str, peer: Any) -> None:
        found[name] = look(Node(str(tmp_path / name)), port, peer)

    threads = [threading.Thread(target=of, args=one) for one in (("a", TO_B), ("b", TO_A))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in ("a", "b"):
        seen = verdicts(found[name])
        between = {"path_mtu_1500", "path_mtu_9000", "socket_buffers", "nic_drops", "tcp_connect"}
        assert {*seen} == OWN | between
        assert seen["path_mtu_1500"] is seen["path_mtu_9000"] is Verdict.PASS
        assert seen["tcp_connect"] in (Verdict.PASS, Verdict.WARN)
        assert "fail" not in summary(found[name])


def test_without_peers_nothing_between_nodes_passes(tmp_path: pathlib.Path, port: int) -> None:
    checks = look(Node(str(tmp_path)), port)
    assert verdicts(checks, "path_mtu", "tcp_connect") == {
        "path_mtu": Verdict.SKIP,
        "tcp_connect": Verdict.SKIP,
    }
    assert {check.name for check in checks} == {*OWN, "path_mtu", "tcp_connect"}


@pytest.mark.parametrize(
    ("own", "path", "declared", "expected"),
    [
        (1500, Path(), None, {1500: Verdict.PASS, 9000: Verdict.SKIP}),
        (1450, Path(), None, {1450: Verdict.PASS, 1500: Verdict.SKIP, 9000: Verdict.SKIP}),
        (9216, Path(mtu=9100), None, {1500: Verdict.PASS, 9000: Verdict.PASS, 9216: Verdict.FAIL}),
        (9000, Path(mtu=1500), None, {1500: Verdict.PASS, 9000: Verdict.FAIL}),
        # What is declared has to arrive, whatever the interface says.
        (1500, Path(), 9000, {1500: Verdict.PASS, 9000: Verdict.FAIL}),
        (9000, Path(mtu=4200), 4200, {1500: Verdict.PASS, 4200: Verdict.PASS, 9000: Verdict.FAIL}),
        (9000, Path(mtu=0), None, {1500: Verdict.UNKNOWN, 9000: Verdict.UNKNOWN}),
    ],
)
def test_packets_of_each_size_that_counts(
    tmp_path: pathlib.Path, own: int, path: Path, declared: int | None, expected: dict[int, Verdict]
) -> None:
    machine = Node(str(tmp_path), own)
    machine.paths[B] = path
    routes, lost = run._routes(machine, [Peer(B)])
    assert not lost
    found = verdicts(run._mtus(machine, declared, routes))
    assert found == {f"path_mtu_{size}": verdict for size, verdict in expected.items()}


def test_a_peer_that_does_not_come_is_unknown(
    tmp_path: pathlib.Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "LIMIT", 0.5)
    found = verdicts(look(Node(str(tmp_path)), port, TO_B))
    assert found["tcp_connect"] is Verdict.UNKNOWN


@pytest.mark.parametrize("kind", ["unreachable", "local"])
def test_a_peer_without_an_address_or_a_route_to_another_node_is_unknown_twice(
    tmp_path: pathlib.Path, port: int, kind: str
) -> None:
    machine = Node(str(tmp_path))
    machine.kinds[B] = kind
    checks = look(machine, port, "gpu9.invalid", B)
    lost = [(check.name, check.target, check.verdict) for check in checks if check.target != "node"]
    assert lost == [
        (name, target, Verdict.UNKNOWN)
        for target in ("gpu9.invalid", B)
        for name in ("path_mtu", "tcp_connect")
    ]


def test_what_is_not_over_in_time_is_unknown_and_the_rest_is_there(
    tmp_path: pathlib.Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "LIMIT", 0.3)
    gate = threading.Event()
    monkeypatch.setattr(node, "drift", lambda _host: gate.wait(200) or ())
    checks = look(Node(str(tmp_path)), port)
    gate.set()
    [late] = [check for check in checks if check.name == "drift"]
    assert (late.verdict, late.found) == (Verdict.UNKNOWN, "it was not over in 0.3 s")
    assert {check.name for check in checks} >= OWN


def test_an_error_of_one_part_is_its_own(
    tmp_path: pathlib.Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_host: object) -> object:
        raise HostError("list", "/proc", 13)

    monkeypatch.setattr(node, "running", refused)
    found = verdicts(look(Node(str(tmp_path)), port))
    assert found["jobs"] is Verdict.UNKNOWN
    assert found["time_wait"] is Verdict.PASS


def test_a_mistake_in_the_program_is_not_hidden(
    tmp_path: pathlib.Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "running", lambda _host: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        look(Node(str(tmp_path)), port)
