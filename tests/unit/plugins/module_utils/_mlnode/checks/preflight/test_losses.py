# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import fnmatch
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.checks.model import Check, Verdict
from mlnode.checks.preflight import losses
from mlnode.engine.revert import BASELINES

KEPT = "/run/mlnode/preflight-4026531840.json"
HEADER = "Inter-|   Receive\n face |bytes packets\n"


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Machine:
    machine = Machine(str(tmp_path / "node"))
    machine.link("/proc/self/ns/net", "net:[4026531840]")
    machine.put("/proc/sys/kernel/random/boot_id", "first\n")
    machine.put("/sys/class/net/rail0/ifindex", "4\n")
    counted(machine, 100)
    return machine


def counted(
    machine: Machine,
    at: float,
    received: int = 0,
    errors: int = 0,
    missed: int = 0,
    sent: int = 0,
    send_errors: int = 0,
    segments: int = 0,
    again: int = 0,
) -> None:
    machine.put("/proc/uptime", f"{at:.2f} 5.00\n")
    row = f" rail0: 5 {received} {errors} {missed} 0 0 0 0 5 {sent} {send_errors} 0 0 0 0 0\n"
    machine.put("/proc/net/dev", f"{HEADER}{row}")
    machine.put("/sys/class/net/rail0/statistics/rx_missed_errors", f"{missed}\n")
    machine.put("/proc/net/snmp", f"Tcp: RtoMin OutSegs RetransSegs\nTcp: 200 {segments} {again}\n")


def look(machine: Machine, writable: bool = True) -> dict[str, Check]:
    return {check.name: check for check in losses.checks(machine, ["rail0"], writable)}


def test_the_first_look_takes_a_baseline_and_passes_nothing(node: Machine) -> None:
    found = look(node)
    assert {check.verdict for check in found.values()} == {Verdict.SKIP}
    assert {check.found for check in found.values()} == {"baseline taken"}
    assert node.exists(KEPT)
    # A revert removes it.
    assert any(fnmatch.fnmatch(KEPT, pattern) for pattern in BASELINES)


def test_without_the_right_to_write_nothing_is_kept(node: Machine) -> None:
    found = look(node, writable=False)
    assert {check.verdict for check in found.values()} == {Verdict.SKIP}
    assert not node.exists(KEPT)


@cases.table
def test_losses_count_since_the_last_look(
    node: Machine, counts: dict[str, int], drops: Verdict, again: Verdict
) -> None:
    # What was lost before is not news.
    before = {"received": 10**6, "errors": 10**5, "segments": 10**6, "again": 10**5}
    counted(node, 100, **before)
    look(node)
    counted(node, 160, **{key: before.get(key, 0) + counts.get(key, 0) for key in {**before, **counts}})
    found = look(node)
    assert (found["nic_drops"].verdict, found["tcp_retransmits"].verdict) == (drops, again)
    assert found["nic_drops"].found.endswith(", in 60 s")


def test_the_words(node: Machine) -> None:
    look(node)
    counted(node, 160, received=9000, errors=3, missed=2, sent=800, segments=700, again=30)
    found = look(node)
    assert found["nic_drops"].found == "received: 5 of 9005 lost, sent: 0 of 800 lost, in 60 s"
    assert found["tcp_retransmits"].found == "segments sent again: 30 of 730, in 60 s"


def test_an_interface_that_was_made_again_and_another_boot_begin_again(node: Machine) -> None:
    counted(node, 100, received=1000, errors=500)
    look(node)
    node.put("/sys/class/net/rail0/ifindex", "9\n")
    counted(node, 160, received=9000, errors=600)
    assert look(node)["nic_drops"].found == "baseline taken"
    node.put("/proc/sys/kernel/random/boot_id", "second\n")
    assert {check.found for check in look(node).values()} == {"baseline taken"}


@cases.table
def test_what_cannot_be_read_is_unknown(node: Machine, path: str, unknown: set[str]) -> None:
    look(node)
    node.unreadable[path] = errno.EACCES
    found = look(node)
    assert {name for name, check in found.items() if check.verdict is Verdict.UNKNOWN} == unknown


def test_an_interface_that_is_not_there_is_unknown(node: Machine) -> None:
    node.put("/proc/net/dev", HEADER)
    assert look(node)["nic_drops"].verdict is Verdict.UNKNOWN


def test_a_file_that_is_damaged_is_not_taken_for_a_first_look(node: Machine) -> None:
    node.put(KEPT, "{")
    found = look(node)
    assert {check.verdict for check in found.values()} == {Verdict.UNKNOWN}
    assert f"{KEPT} is damaged" in found["nic_drops"].found
    assert "remove it" in found["nic_drops"].found


def test_what_cannot_be_kept_is_said(node: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    node.put("/run/mlnode", "in the way of the folder")
    assert look(node)["last_look"].verdict is Verdict.UNKNOWN
