# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.checks.model import Check, Verdict
from mlnode.checks.preflight import buffers
from mlnode.topology.model import Nic

MIB = 1 << 20
RMEM_MAX = "/proc/sys/net/core/rmem_max"


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Machine:
    """With 16 MiB for all."""
    machine = Machine(str(tmp_path / "node"))
    for way in ("rmem", "wmem"):
        machine.put(f"/proc/sys/net/ipv4/tcp_{way}", f"4096\t131072\t{16 * MIB}\n")
        machine.put(f"/proc/sys/net/core/{way}_max", f"{16 * MIB}\n")
    return machine


def look(
    node: Machine, speed: int | None = 100_000, measured: float | None = None, kind: str = "physical"
) -> Check:
    nics = [Nic("rail0", kind, speed_mbit=speed)]
    [check] = buffers.checks(node, nics, ["rail0"], measured)
    return check


@cases.table
def test_buffers_hold_what_is_on_the_way_twice(
    node: Machine, measured: float | None, verdict: Verdict, need: str
) -> None:
    check = look(node, measured=measured)
    assert (check.verdict, check.expected) == (verdict, need)


def test_each_limit_that_is_too_small_is_named(node: Machine) -> None:
    node.put(RMEM_MAX, "212992\n")
    check = look(node)
    assert check.verdict is Verdict.WARN
    assert "net.core.rmem_max 0.203 MiB, net.core.wmem_max 16 MiB" in check.found
    assert "set net.core.rmem_max to auto" in check.advice


def test_in_a_namespace_what_is_there_counts(node: Machine) -> None:
    for name in ("rmem_max", "wmem_max"):
        node.remove(f"/proc/sys/net/core/{name}")
    assert look(node).verdict is Verdict.PASS
    for name in ("tcp_rmem", "tcp_wmem"):
        node.remove(f"/proc/sys/net/ipv4/{name}")
    assert look(node).verdict is Verdict.SKIP


@pytest.mark.parametrize("text", [None, "4096 131072\n"])
def test_a_limit_that_cannot_be_read_is_unknown(node: Machine, text: str | None) -> None:
    path = "/proc/sys/net/ipv4/tcp_rmem"
    if text is None:
        node.unreadable[path] = errno.EACCES
    else:
        node.put(path, text)
    check = look(node)
    assert (check.verdict, check.found) == (Verdict.UNKNOWN, "cannot be read: net.ipv4.tcp_rmem")


@pytest.mark.parametrize(("speed", "kind"), [(None, "physical"), (10_000, "virtual")])
def test_without_a_cable_there_is_no_rate(node: Machine, speed: int | None, kind: str) -> None:
    assert look(node, speed, kind=kind).verdict is Verdict.SKIP
