# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import pathlib

from ansible_collections.mlnode.tuning.tests.fixtures.fabric_files import EMPTY, gid
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit import rdma_bench as bench
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.rdma_bench import PORT, of_port
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick, values
from hypothesis import HealthCheck, given, settings
from mlnode.checks.model import Verdict

CM = "/sys/kernel/config/rdma_cm/mlx5_0/ports/1"


def table(machine: Machine, *entries: tuple[str, str, str]) -> None:
    """The whole table; an empty type or interface cannot be read."""
    for index in range(8):
        address, kind, netdev = entries[index] if index < len(entries) else ("::", "", "")
        machine.put(f"{PORT}/gids/{index}", f"{gid(address)}\n")
        machine.put(f"{PORT}/gid_attrs/types/{index}", f"{kind}\n" if kind else "")
        machine.put(f"{PORT}/gid_attrs/ndevs/{index}", f"{netdev}\n" if netdev else "")


V1, V2, LOCAL, GLOBAL = "IB/RoCE v1", "RoCE v2", "fe80::1", "::ffff:10.0.0.7"


def test_the_index_is_told(roce: Machine) -> None:
    found = of_port(roce, "gid")
    assert (found.verdict, found.found) == (Verdict.PASS, "index 2: 10.0.0.7 RoCE v2 on rail0")
    assert found.expected == "a routable RoCE v2 entry"


@cases.table
def test_roce(roce: Machine, entries: list[tuple[str, str, str]], verdict: str, words: str) -> None:
    table(roce, *entries)
    found = of_port(roce, "gid")
    assert str(found.verdict) == verdict
    assert words in found.found
    assert bool(found.advice) == (verdict in ("warn", "fail"))


def test_the_interface_may_be_declared(roce: Machine) -> None:
    table(roce, (GLOBAL, V2, "rail0.7"))
    assert of_port(roce, "gid", netdev="rail0.7").verdict is Verdict.PASS
    assert of_port(roce, "gid", netdev="rail0").verdict is Verdict.FAIL


def test_version_1_may_be_declared(roce: Machine) -> None:
    table(roce, (LOCAL, V1, "rail0"))
    assert of_port(roce, "gid", gid_type="IB/RoCE v1").verdict is Verdict.PASS


def test_a_table_that_is_not_there_or_makes_no_sense_is_unknown(roce: Machine) -> None:
    table(roce)
    roce.put(f"{PORT}/gids/3", "fe80\n")
    assert of_port(roce, "gid").verdict is Verdict.UNKNOWN
    roce.put(f"{PORT}/gids/3", f"{EMPTY}\n")
    roce.unreadable[f"{PORT}/gids/0"] = errno.EIO
    assert of_port(roce, "gid").verdict is Verdict.UNKNOWN
    roce.unreadable.clear()
    for index in range(8):
        roce.remove(f"{PORT}/gids/{index}")
    found = of_port(roce, "gid")
    assert (found.verdict, found.found) == (Verdict.UNKNOWN, f"{PORT}/gids does not exist")


def test_infiniband_needs_an_entry(tmp_path: pathlib.Path) -> None:
    machine = bench.node(tmp_path, bench.infiniband())
    assert of_port(machine, "gid").verdict is Verdict.PASS
    machine.put(f"{PORT}/gids/0", f"{EMPTY}\n")
    assert of_port(machine, "gid").verdict is Verdict.FAIL
    assert of_port(machine, "rdma_cm").verdict is Verdict.SKIP


@settings(quick, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(values, values)
def test_odd_texts_pass_nothing(roce: Machine, address: str, kind: str) -> None:
    table(roce, (GLOBAL, V2, "rail0"))
    roce.put(f"{PORT}/gid_attrs/types/0", kind)
    assert of_port(roce, "gid").verdict in (Verdict.FAIL, Verdict.UNKNOWN)
    roce.put(f"{PORT}/gid_attrs/types/0", V2)
    roce.put(f"{PORT}/gids/0", address)
    assert of_port(roce, "gid").verdict in (Verdict.FAIL, Verdict.UNKNOWN)


# -- RDMA-CM ---------------------------------------------------------------------------------


def test_rdma_cm_is_read_where_somebody_made_its_folder(roce: Machine) -> None:
    found = of_port(roce, "rdma_cm")
    assert found.verdict is Verdict.SKIP
    assert "mkdir" in found.found
    assert of_port(roce, "rdma_cm", rdma_cm_tos=106).verdict is Verdict.UNKNOWN
    assert not roce.exists("/sys/kernel/config")
    roce.put(f"{CM}/default_roce_mode", "RoCE v2\n")
    roce.put(f"{CM}/default_roce_tos", "106\n")
    assert of_port(roce, "rdma_cm").verdict is Verdict.PASS
    assert of_port(roce, "rdma_cm", rdma_cm_tos=106).found == "RoCE v2, ToS 106"
    assert of_port(roce, "rdma_cm", rdma_cm_tos=104).verdict is Verdict.FAIL
    assert of_port(roce, "rdma_cm", rdma_cm_mode="IB/RoCE v1").verdict is Verdict.FAIL
    roce.put(f"{CM}/default_roce_mode", "IB/RoCE v1\n")
    assert of_port(roce, "rdma_cm").verdict is Verdict.FAIL
    roce.remove(f"{CM}/default_roce_tos")
    assert of_port(roce, "rdma_cm", rdma_cm_tos=106).verdict is Verdict.UNKNOWN
