# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit import rdma_bench as bench
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.rdma_bench import PORT, of_port
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick, values
from hypothesis import HealthCheck, given, settings
from mlnode.checks.model import Verdict
from mlnode.checks.rdma import link as rdma_link
from mlnode.checks.rdma_values import MTUS
from mlnode.host.system import Finished

FILES = ("state", "phys_state", "link_layer", "rate")


def told(machine: Machine, name: str, **declared: object) -> tuple[str, str, str]:
    found = of_port(machine, name, **declared)
    return str(found.verdict), found.found, found.expected


@cases.table
def test_a_port_of_roce(
    roce: Machine,
    name: str,
    files: dict[str, str],
    declared: dict[str, object],
    verdict: str,
    found: str,
    expected: str,
    advice: str,
) -> None:
    for path, text in files.items():
        roce.put(path, f"{text}\n")
    assert told(roce, name, **declared) == (verdict, found, expected)
    assert advice in of_port(roce, name, **declared).advice


@cases.table
def test_state_of_infiniband(infiniband: Machine, text: str, verdict: str, advice: str) -> None:
    infiniband.put(f"{PORT}/state", f"{text}\n")
    found = of_port(infiniband, "state")
    assert (str(found.verdict), found.expected, found.found) == (verdict, "4: ACTIVE", text)
    assert found.source == f"{PORT}/state"
    assert advice in found.advice


@cases.table
def test_rate_of_infiniband(
    infiniband: Machine, text: str, declared: str | float, width: str | None, verdict: str
) -> None:
    infiniband.put(f"{PORT}/rate", f"{text}\n")
    assert told(infiniband, "rate", rate=declared, width=width)[:2] == (verdict, text)


def test_ipoib_that_nobody_uses_is_no_fault(infiniband: Machine) -> None:
    assert told(infiniband, "netdev")[0] == "pass"
    infiniband.put("/sys/class/net/ib0/operstate", "down\n")
    assert told(infiniband, "netdev")[0] == "skip"
    assert told(infiniband, "netdev", netdev="ib0")[0] == "fail"


def test_a_device_without_an_interface_here(tmp_path: pathlib.Path) -> None:
    card = bench.roce()
    machine = bench.node(tmp_path, card)
    machine.remove("/sys/class/net/rail0")
    assert told(machine, "netdev")[0] == told(machine, "netdev_mtu")[0] == told(machine, "mtu")[0] == "skip"
    assert told(machine, "netdev", netdev="rail0")[0] == "unknown"
    assert told(machine, "netdev_mtu", netdev_mtu=9000)[0] == told(machine, "mtu", mtu=4096)[0] == "unknown"


# -- MTUs ------------------------------------------------------------------------------------


@cases.table
def test_the_mtu_of_roce_follows_from_the_interface(roce: Machine, netdev: int, rdma: int) -> None:
    assert rdma_link.roce_mtu(netdev) == rdma
    roce.put("/sys/class/net/rail0/mtu", f"{netdev}\n")
    assert told(roce, "mtu") == ("skip", str(rdma), "")
    assert told(roce, "mtu", mtu=4096)[0] == ("pass" if rdma == 4096 else "fail")
    assert told(roce, "netdev_mtu", netdev_mtu=9000) == (
        "pass" if netdev == 9000 else "fail",
        str(netdev),
        "9000",
    )


def test_ipoib_proves_the_mtu_of_infiniband(infiniband: Machine) -> None:
    assert told(infiniband, "mtu", mtu=4096) == ("pass", "4096", "4096")
    assert told(infiniband, "mtu", mtu=2048)[0] == "fail"


class WithTool(Machine):
    out = ""

    def run(self, command: object, seconds: float = 60) -> Finished:  # as Host has it
        assert command == ["ibv_devinfo", "-d", "mlx5_0", "-i", "1"]
        return Finished(0, self.out, "")


@cases.table
def test_else_ibv_devinfo_is_asked(infiniband: Machine, out: str, verdict: str, found: str) -> None:
    infiniband.put("/sys/class/net/ib0/mtu", "2044\n")
    machine = WithTool(infiniband.root)
    machine.out = out
    assert told(machine, "mtu", mtu=4096)[:2] == (verdict, found)


def test_where_nobody_tells_the_mtu_of_infiniband_it_is_not_known(infiniband: Machine) -> None:
    infiniband.put("/sys/class/net/ib0/mtu", "65520\n")
    assert told(infiniband, "mtu", mtu=4096)[0] == "unknown"
    verdict, found, _expected = told(infiniband, "mtu")
    assert verdict == "skip"
    assert "captured tree" in found


# -- what cannot be read ---------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_what_is_gone_empty_or_unreadable_is_never_a_pass(roce: Machine, name: str) -> None:
    path = f"{PORT}/{name}"
    declared = {"link_layer": "Ethernet", "rate": 100, "width": 4}
    assert told(roce, name, **declared)[0] == "pass"
    text = roce.read(path)
    roce.unreadable[path] = errno.EIO
    assert told(roce, name, **declared)[0] == told(roce, name)[0] == "unknown"
    roce.unreadable.clear()
    roce.put(path, "")
    assert told(roce, name, **declared)[0] == "unknown"
    roce.put(path, text)
    roce.remove(path)
    verdict, found, _expected = told(roce, name, **declared)
    assert verdict == "unknown"
    assert found == f"{path} does not exist"
    if name == "rate":
        assert told(roce, "width", width=4)[0] == "unknown"


@settings(quick, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(values)
def test_odd_texts_pass_nothing(roce: Machine, text: str) -> None:
    for name in ("state", "phys_state", "rate"):
        roce.put(f"{PORT}/{name}", text)
    for name in ("rate", "width"):
        assert of_port(roce, name, rate=100, width=4).verdict is Verdict.UNKNOWN
    for name in ("state", "phys_state"):
        assert of_port(roce, name).verdict in (Verdict.FAIL, Verdict.UNKNOWN)


def test_the_mtus_are_those_of_the_kernel() -> None:
    assert MTUS == (256, 512, 1024, 2048, 4096)
