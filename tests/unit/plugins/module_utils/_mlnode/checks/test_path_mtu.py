# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The measurement on simulated paths; tests/system has real ones."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.path_machine import HERE, NIC, ROUTER, Path, PathMachine
from mlnode.checks import path_mtu
from mlnode.checks.model import Check, Verdict
from mlnode.checks.path_mtu import Peer
from mlnode.host.host import Host
from mlnode.host.system import Finished
from mlnode.model.errors import HostError

PEER = "10.0.0.7"
GOOD = Path()


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> PathMachine:
    return PathMachine(str(tmp_path))


def measure(machine: Host, *peers: Any, size: int | None = 9000) -> list[Check]:
    return path_mtu.measure(machine, path_mtu.parse(peers, size, 3, 1.0))


def one(machine: PathMachine, path: Path = GOOD, size: int | None = 9000) -> Check:
    machine.paths[PEER] = path
    [check] = measure(machine, PEER, size=size)
    return check


# -- verdicts and words --------------------------------------------------------------------


def test_a_good_path_takes_one_packet(machine: PathMachine) -> None:
    assert one(machine).document() == {
        "name": "path_mtu",
        "target": PEER,
        "verdict": "pass",
        "expected": "packets of 9000 bytes arrive",
        "found": "packets of 9000 bytes arrive",
        "source": f"ICMP echo, don't fragment, from {HERE}",
        "advice": "",
    }
    assert machine.sizes == {PEER: [9000]}


@cases.table
def test_a_black_hole_names_the_sizes_and_where_to_look(machine: PathMachine, mtu: int, sizes: str) -> None:
    check = one(machine, Path(mtu=mtu))

    assert check.verdict is Verdict.FAIL
    assert (check.target, check.found) == (PEER, f"packets of 9000 bytes do not arrive, {sizes}")
    assert "every switch port" in check.advice
    # Each that is lost takes three seconds: the wanted one, and the first above the MTU.
    assert len([size for size in machine.sizes[PEER] if size > mtu]) == 2


def test_a_packet_lost_by_chance_does_not_fail_a_path(
    machine: PathMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], seconds: float = 60) -> Finished:
        machine.paths[PEER] = Path(mtu=0 if command[0] == "ping" and not machine.sizes else 9000)
        return PathMachine.run(machine, command, seconds)

    monkeypatch.setattr(machine, "run", run)
    [check] = measure(machine, PEER)

    assert check.verdict is Verdict.PASS
    assert [*machine.sizes[PEER][:3], *machine.sizes[PEER][-2:]] == [9000, 84, 1280, 8950, 9000]


@pytest.mark.parametrize("size", [9000, None])
def test_a_router_is_named_with_its_mtu(machine: PathMachine, size: int | None) -> None:
    check = one(machine, Path(router=1400), size)

    assert check.verdict is Verdict.FAIL
    assert check.found == (
        "packets of 9000 bytes do not arrive, 1400 do and 1420 do not; "
        f"{ROUTER} reports: Frag needed and DF set (mtu = 1400)"
    )
    assert ROUTER in check.advice


def test_a_router_that_refuses_large_packets_by_rule_is_named(machine: PathMachine) -> None:
    check = one(machine, Path(above=1500, report=f"From {ROUTER} icmp_seq=1 Packet filtered"))

    assert check.found == (
        f"packets of 9000 bytes do not arrive, 1500 do and 2044 do not; {ROUTER} reports: Packet filtered"
    )


def test_what_was_reported_before_the_address_was_found_is_no_reason(machine: PathMachine) -> None:
    late = f"From {HERE} icmp_seq=1 Destination Host Unreachable"
    check = one(machine, Path(mtu=1500, above=8000, report=late))

    assert check.found == "packets of 9000 bytes do not arrive, 1500 do and 2044 do not"
    assert "every switch port" in check.advice


def test_the_own_interface_is_blamed_where_it_is_to_blame(tmp_path: pathlib.Path) -> None:
    check = one(PathMachine(str(tmp_path), mtu=1500))

    assert check.verdict is Verdict.FAIL
    assert check.found == (
        f"packets of 9000 bytes do not leave this node, whose interface {NIC} has an MTU of 1500; "
        "1500 do and 2044 do not"
    )
    assert check.advice == "raise the MTU of this node's interface to the peer"


def test_behind_an_own_interface_that_is_too_small_the_path_is_smaller_still(tmp_path: pathlib.Path) -> None:
    check = one(PathMachine(str(tmp_path), mtu=4200), Path(mtu=1500))

    assert "has an MTU of 4200; 1500 do" in check.found
    assert "but before that: no router reports why" in check.advice


def test_what_the_kernel_has_learned_is_not_taken_for_the_interface(machine: PathMachine) -> None:
    check = one(machine, Path(learned=1400), size=None)

    assert check.verdict is Verdict.FAIL
    assert check.found == (
        "packets of 9000 bytes do not leave this node, which knows of an MTU of 1400 on the way; "
        "1400 do and 1420 do not"
    )
    assert "ip route flush cache" in check.advice


def test_the_mtu_of_the_own_interface_is_proven_where_no_size_is_given(machine: PathMachine) -> None:
    machine.paths = {"fd00::8": Path(mtu=1500)}
    good, bad = measure(machine, "fd00::7", "fd00::8", size=None)

    assert (good.target, good.found) == ("fd00::7", "packets of 9000 bytes arrive")
    assert (bad.target, bad.found) == (
        "fd00::8",
        "packets of 9000 bytes do not arrive, 1500 do and 2044 do not",
    )
    assert good.source.endswith(" from fd00::1")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (Path(mtu=0), ""),
        (
            Path(above=0, report=f"From {ROUTER} icmp_seq=1 Packet filtered"),
            f"; {ROUTER} reports: Packet filtered",
        ),
    ],
)
def test_a_peer_that_answers_nothing_is_unknown_and_not_failed(
    machine: PathMachine, path: Path, words: str
) -> None:
    check = one(machine, path)

    assert check.verdict is Verdict.UNKNOWN
    assert check.found == "no answer to packets of 9000 bytes, nor to small ones" + words
    assert check.advice.startswith("nothing is proven")
    assert machine.sizes[PEER] == [9000, 84]


# -- what cannot be asked ------------------------------------------------------------------


@cases.table
def test_a_program_that_is_missing_is_named_with_its_package(
    machine: PathMachine, program: str, package: str
) -> None:
    machine.missing.add(program)

    check = one(machine)

    assert (check.verdict, check.expected) == (Verdict.UNKNOWN, "packets of 9000 bytes arrive")
    assert f"cannot run {program}: " in check.found
    assert package in check.advice


def test_another_ping_than_that_of_iputils_is_not_believed(machine: PathMachine) -> None:
    machine.says["ping"] = Finished(1, "", "ping: invalid option -- 'M'\nBusyBox v1.36.1\n")

    check = one(machine)

    assert check.verdict is Verdict.UNKNOWN
    assert "iputils-ping" in check.advice


@pytest.mark.parametrize(
    ("program", "done", "words"),
    [
        ("ip", Finished(2, "", "RTNETLINK answers: Network is unreachable\n"), "Network is unreachable"),
        ("ip", Finished(0, "", ""), "ip -j route get 10.0.0.7"),
        ("ip", Finished(0, "[]", ""), "ip -j route get 10.0.0.7"),
        ("ip", Finished(0, "[7]", ""), "ip -j route get 10.0.0.7"),
        ("ip", Finished(0, "{}", ""), "ip -j route get 10.0.0.7"),
        ("ip", Finished(0, '[{"dst": "10.0.0.7"}]', ""), "ip -j route get 10.0.0.7"),
        ("ip", Finished(0, '[{"dev": "gone"}]', ""), "/sys/class/net/gone/mtu"),
        ("ping", Finished(2, "", "ping: socket: Operation not permitted\n"), "Operation not permitted"),
    ],
)
def test_what_a_program_refuses_is_unknown(
    machine: PathMachine, program: str, done: Finished, words: str
) -> None:
    machine.says[program] = done

    check = one(machine)

    assert check.verdict is Verdict.UNKNOWN
    assert words in check.found
    assert "ip route get" in check.advice


def test_an_address_of_the_node_itself_proves_nothing(machine: PathMachine) -> None:
    machine.kinds = {HERE: "local", "10.0.0.255": "broadcast"}

    for check in measure(machine, HERE, "10.0.0.255"):
        assert check.verdict is Verdict.UNKNOWN
        assert check.found.endswith(f"it is a {machine.kinds[check.target]} address here, not another node's")
    assert machine.sizes == {}


def test_a_captured_tree_is_no_machine_to_ask(tmp_path: pathlib.Path) -> None:
    [check] = measure(Host(str(tmp_path)), PEER)

    assert check.verdict is Verdict.UNKNOWN
    assert "is a captured tree" in check.found


def test_one_bad_peer_leaves_the_others_alone(machine: PathMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], seconds: float = 60) -> Finished:
        if command[-1] == "10.0.0.8" and command[0] == "ping":
            raise HostError("run", "ping", None, f"no answer in {seconds:.0f} s")
        return PathMachine.run(machine, command, seconds)

    monkeypatch.setattr(machine, "run", run)
    peers = [f"10.0.0.{number}" for number in range(2, 202)]

    checks = measure(machine, *peers)

    assert [check.target for check in checks] == peers
    assert [check.target for check in checks if check.verdict is not Verdict.PASS] == ["10.0.0.8"]


# -- names and rails -----------------------------------------------------------------------


def test_a_resolver_that_does_not_answer_is_no_fault_of_a_program(
    machine: PathMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], seconds: float = 60) -> Finished:
        if command[0] == "getent":
            raise HostError("run", "getent", None, f"no answer in {seconds:.0f} s")
        return PathMachine.run(machine, command, seconds)

    monkeypatch.setattr(machine, "run", run)

    [check] = measure(machine, "gpu7")

    assert check.verdict is Verdict.UNKNOWN
    assert check.found.startswith(
        "cannot be checked: cannot find the address of gpu7: the resolver of this node"
    )
    assert check.found.endswith("no answer in 60 s")


def test_a_name_is_shown_with_its_address_and_a_rail_with_its_interface(machine: PathMachine) -> None:
    machine.finds["gpu7"] = PEER
    rail = {"address": "10.0.0.8", "interface": "rail1", "source": "10.0.0.9"}

    named, rail, unknown = measure(machine, "gpu7", rail, "gpu.invalid")

    assert (named.target, rail.target) == (f"gpu7 ({PEER})", "10.0.0.8 on rail1")
    assert rail.source == "ICMP echo, don't fragment, from 10.0.0.9"
    asked = ["ip", "-j", "route", "get", "10.0.0.8", "from", "10.0.0.9", "oif", "rail1"]
    assert asked in machine.commands
    assert unknown.verdict is Verdict.UNKNOWN
    assert "the address of gpu.invalid" in unknown.found
    assert ["getent", "ahosts", "--", "gpu.invalid"] in machine.commands


def test_the_zone_of_a_link_local_address_is_its_interface(machine: PathMachine) -> None:
    [check] = measure(machine, "fe80::7%rail1")

    assert (check.target, check.verdict) == ("fe80::7%rail1", Verdict.PASS)
    assert ["ip", "-j", "route", "get", "fe80::7", "oif", "rail1"] in machine.commands
    assert machine.commands[-1][-4:] == ["-I", "rail1", "--", "fe80::7"]


# -- what is asked for ---------------------------------------------------------------------


def test_peers_are_told_by_address_or_in_full_and_once() -> None:
    rail = {"address": "gpu8", "interface": "rail0"}
    again = {"address": "10.0.0.7", "source": None}
    request = path_mtu.parse(["10.0.0.7", rail, "10.0.0.7", again], None, 3, 1.0)
    assert request.peers == (Peer("10.0.0.7"), Peer("gpu8", "rail0"))


# -- losses --------------------------------------------------------------------------------


@cases.table
def test_lost_packets_are_counted(
    machine: PathMachine, lost: list[int], verdict: Verdict, words: str, bursts: int
) -> None:
    machine.lost[PEER] = [*lost]
    [check] = path_mtu.measure(machine, path_mtu.parse([PEER], 9000, 3, 1.0, 100))

    assert (check.verdict, check.found) == (verdict, words)
    assert machine.bursts == [(PEER, 100)] * bursts
    assert ("error and discard counters" in check.advice) == bool(lost[0])


def test_losses_of_the_largest_size_that_arrives(machine: PathMachine) -> None:
    machine.paths[PEER] = Path(mtu=1500)
    machine.lost[PEER] = [7]
    [check] = path_mtu.measure(machine, path_mtu.parse([PEER], 9000, 3, 1.0, 100))

    assert check.verdict is Verdict.FAIL
    assert check.found.endswith("1500 do and 2044 do not; 7 of 100 packets of 1500 bytes were lost")
    assert "every switch port between; the loss is on the way" in check.advice


def test_a_silent_peer_and_a_question_without_packets_have_no_losses(machine: PathMachine) -> None:
    machine.paths[PEER] = Path(mtu=0)
    path_mtu.measure(machine, path_mtu.parse([PEER], 9000, 3, 1.0, 100))
    path_mtu.measure(machine, path_mtu.parse(["10.0.0.8"], 9000, 3, 1.0, 0))

    assert machine.bursts == []


@pytest.mark.parametrize(("peers", "root", "number"), [(9, True, 100), (250, True, 40), (1, False, 10)])
def test_many_peers_get_fewer_packets(
    machine: PathMachine, monkeypatch: pytest.MonkeyPatch, peers: int, root: bool, number: int
) -> None:
    monkeypatch.setattr(machine, "is_superuser", lambda: root)
    addresses = [f"10.1.{at // 250}.{at % 250}" for at in range(peers)]

    path_mtu.measure(machine, path_mtu.parse(addresses, 9000, 3, 1.0, 100))

    assert {sent for _peer, sent in machine.bursts} == {number}
