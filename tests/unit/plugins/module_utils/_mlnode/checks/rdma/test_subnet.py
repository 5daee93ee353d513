# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit import rdma_bench as bench
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.rdma_bench import PORT, of_port
from mlnode.checks.model import Verdict


@pytest.fixture
def port(tmp_path: pathlib.Path) -> Machine:
    return bench.node(tmp_path, bench.infiniband())


def test_a_port_that_a_subnet_manager_has_set_up(port: Machine) -> None:
    found = of_port(port, "subnet")
    assert (found.verdict, found.found) == (Verdict.PASS, "lid 0x10, sm_lid 0x1")


@pytest.mark.parametrize("name", ["lid", "sm_lid"])
@cases.table
def test_a_port_without(port: Machine, name: str, text: str | None, verdict: str) -> None:
    if text is None:
        port.remove(f"{PORT}/{name}")
    else:
        port.put(f"{PORT}/{name}", text)
    assert str(of_port(port, "subnet").verdict) == verdict


@cases.table
def test_partitions(port: Machine, table: list[str], declared: str | None, verdict: str, words: str) -> None:
    port.remove(f"{PORT}/pkeys/0")
    for index, text in enumerate(table):
        port.put(f"{PORT}/pkeys/{index}", f"{text}\n")
    found = of_port(port, "pkey", pkey=declared)
    assert str(found.verdict) == verdict
    assert words in found.found


def test_a_program_has_to_be_told_of_another_index(port: Machine) -> None:
    port.put(f"{PORT}/pkeys/3", "0x8001\n")
    assert "NCCL_IB_PKEY=3" in of_port(port, "pkey", pkey="0x8001").advice


def test_roce_has_no_subnet_manager(tmp_path: pathlib.Path) -> None:
    machine = bench.node(tmp_path, bench.roce())
    assert of_port(machine, "subnet").verdict is of_port(machine, "pkey").verdict is Verdict.SKIP
