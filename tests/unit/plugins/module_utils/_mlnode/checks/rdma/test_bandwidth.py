# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import perftest as says
from ansible_collections.mlnode.tuning.tests.fixtures.fabric_files import gid
from ansible_collections.mlnode.tuning.tests.unit import rdma_bench as bench
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.perftest_machine import Running, job
from ansible_collections.mlnode.tuning.tests.unit.rdma_bench import PORT
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick, values
from hypothesis import given
from hypothesis import strategies as st
from mlnode.checks.rdma import bandwidth
from mlnode.checks.rdma.bandwidth import Measured
from mlnode.host.system import Finished
from mlnode.model.errors import DeclarationError, RefusedError

GIVEN = {
    "device": "mlx5_0",
    "port": 1,
    "peer": "gpu002",
    "serve": False,
    "gid_index": None,
    "size": 65536,
    "duration": 5,
    "tcp_port": 18515,
    "timeout": 0,
    "fraction": 0.9,
    "least": None,
    "allow": [],
}


@pytest.fixture
def roce(tmp_path: pathlib.Path) -> Running:
    return Running(bench.node(tmp_path, bench.roce()).root)


@pytest.fixture
def infiniband(tmp_path: pathlib.Path) -> Running:
    return Running(bench.node(tmp_path, bench.infiniband()).root)


def measure(machine: Machine, dry: bool = False, **options: Any) -> Measured:
    machine.forget()
    return bandwidth.measure(machine, bandwidth.parse({**GIVEN, **options}), dry)


def verdict(machine: Machine, **options: Any) -> str:
    return str(measure(machine, **options).check.verdict)


# -- what is measured and judged ----------------------------------------------------------------


def test_roce_takes_the_routed_entry_of_its_address(roce: Running) -> None:
    found = measure(roce)
    assert str(found.check) == (
        "mlx5_0/1 -> gpu002: bandwidth pass: 93.1 Gb/s on CPUs 0-1 (expected at least 90 Gb/s, 0.9 of 100)"
    )
    assert found.gbits == 93.1
    assert roce.commands == [
        "ib_write_bw -d mlx5_0 -i 1 -s 65536 -F -D 5 -p 18515 --report_gbits -x 2 gpu002"
    ]
    assert found.check.source == roce.commands[0]


def test_infiniband_needs_no_gid(infiniband: Running) -> None:
    infiniband.says("189.00")
    assert verdict(infiniband) == "pass"
    assert " -x " not in infiniband.commands[0]


def test_the_server_is_judged_as_well(roce: Running) -> None:
    found = measure(roce, peer=None, serve=True)
    assert (found.check.target, str(found.check.verdict)) == ("mlx5_0/1", "pass")
    assert roce.commands[0].endswith(" -x 2")


def test_ipv4_comes_before_ipv6(roce: Running) -> None:
    roce.put(f"{PORT}/gids/0", gid("2001:db8::7") + "\n")
    roce.put(f"{PORT}/gid_attrs/types/0", "RoCE v2\n")
    measure(roce)
    roce.put(f"{PORT}/gid_attrs/types/2", "IB/RoCE v1\n")
    measure(roce)
    measure(roce, gid_index=1)
    assert [command.split()[-2] for command in roce.commands] == ["2", "0", "1"]


@pytest.mark.parametrize(
    ("average", "options", "expected"),
    [
        ("90.00", {}, "pass"),
        ("89.99", {}, "fail"),
        ("50.00", {"fraction": 0.5}, "pass"),
        ("89.99", {"least": 80.0}, "pass"),
        ("93.10", {"least": 95.0}, "fail"),
    ],
)
def test_what_is_enough(roce: Running, average: str, options: dict[str, Any], expected: str) -> None:
    roce.says(average)
    found = measure(roce, **options).check
    assert str(found.verdict) == expected
    assert bool(found.advice) == (expected == "fail")


@pytest.mark.parametrize(
    ("rate", "least"),
    [
        ("400 Gb/sec (4X NDR)", "360 Gb/s, 0.9 of 400"),
        ("40 Gb/sec (4X QDR)", "28.8 Gb/s, 0.9 of 32"),
        ("2.5 Gb/sec (1X SDR)", "1.8 Gb/s, 0.9 of 2"),
        ("40 Gb/sec (4X FDR10)", "36 Gb/s, 0.9 of 40"),
    ],
)
def test_the_coding_of_old_generations_carries_no_data(infiniband: Running, rate: str, least: str) -> None:
    infiniband.put(f"{PORT}/rate", f"{rate}\n")
    assert measure(infiniband).check.expected == f"at least {least}"


def test_on_ethernet_the_generation_is_only_a_word(roce: Running) -> None:
    roce.put(f"{PORT}/rate", "40 Gb/sec (4X QDR)\n")
    assert measure(roce).check.expected == "at least 36 Gb/s, 0.9 of 40"


def test_soft_roce_has_to_be_declared(tmp_path: pathlib.Path) -> None:
    machine = Running(bench.software(tmp_path).root)
    machine.says("0.75")
    found = measure(machine, device="rxe0")
    assert found.gbits == 0.75
    assert str(found.check) == (
        "rxe0/1 -> gpu002: bandwidth unknown: 0.75 Gb/s on any CPU, as its NUMA node is not known; a device "
        "in software has no rate of its own; declare least, in Gb/s"
    )
    assert verdict(machine, device="rxe0", least=0.7) == "pass"
    assert verdict(machine, device="rxe0", least=0.8) == "fail"


def test_a_rate_that_nobody_tells_is_none(roce: Running) -> None:
    roce.put(f"{PORT}/rate", "fast\n")
    found = measure(roce).check
    assert str(found.verdict) == "unknown"
    assert "the port names no rate, but 'fast'" in found.found


def test_what_was_not_measured_is_no_pass(roce: Running) -> None:
    roce.answer = Finished(1, "", says.ERRORS["queues"])
    found = measure(roce)
    assert (str(found.check.verdict), found.gbits) == ("unknown", None)
    assert "GID index" in found.check.advice
    assert found.check.expected == "at least 90 Gb/s, 0.9 of 100"


# -- before it begins ---------------------------------------------------------------------------


def test_nothing_is_sent_in_check_mode(roce: Running) -> None:
    found = measure(roce, dry=True)
    assert (str(found.check.verdict), found.gbits) == ("skip", None)
    assert roce.commands == []


def test_a_device_that_is_not_there_fails(roce: Running) -> None:
    for options in ({"device": "mlx5_1"}, {"port": 2}):
        found = measure(roce, **options).check
        assert (str(found.verdict), found.found) == ("fail", "there is no such port, but mlx5_0/1")
    assert roce.commands == []


@pytest.mark.parametrize(("state", "expected"), [("1: DOWN", "fail"), ("2: INIT", "fail"), ("", "unknown")])
def test_a_port_that_is_not_up(roce: Running, state: str, expected: str) -> None:
    roce.put(f"{PORT}/state", f"{state}\n" if state else "")
    assert verdict(roce) == expected
    assert roce.commands == []


def test_a_port_without_a_routed_address(roce: Running) -> None:
    roce.put(f"{PORT}/gid_attrs/types/2", "IB/RoCE v1\n")
    found = measure(roce).check
    assert (str(found.verdict), found.found) == ("fail", "no routable RoCE v2 entry among its GIDs")
    roce.unreadable[f"{PORT}/gids/2"] = errno.EIO
    found = measure(roce).check
    assert str(found.verdict) == "unknown"
    assert "EIO" in found.found
    assert roce.commands == []
    # Who names one knows it.
    assert verdict(roce, gid_index=2) == "pass"


def test_efa_and_iwarp_are_not_measured_like_that(tmp_path: pathlib.Path) -> None:
    efa = Running(bench.node(tmp_path / "efa", bench.roce(layer="Unspecified")).root)
    assert "link layer Unspecified" in measure(efa).check.found
    iwarp = Running(bench.node(tmp_path / "iwarp", bench.roce(node_type="4: RNIC")).root)
    assert "RDMA-CM" in measure(iwarp).check.found
    for machine in (efa, iwarp):
        assert verdict(machine) == "unknown"
        assert machine.commands == []


@pytest.mark.parametrize("dry", [False, True])
def test_it_is_refused_under_a_job(roce: Running, dry: bool) -> None:
    job(roce)
    with pytest.raises(RefusedError) as caught:
        measure(roce, dry=dry)
    words = "this takes the whole link, under what runs here: pid 4711 (python3) holds /dev/nvidia0"
    assert str(caught.value) == f"mlx5_0/1: {words}; to do it all the same: allow: [busy]"
    assert roce.commands == []
    if not dry:
        assert verdict(roce, allow=["busy"]) == "pass"


# -- what is given ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"peer": None}, "give one of serve: true and peer"),
        ({"serve": True}, "give one of serve: true and peer"),
        ({"peer": ""}, "peer: '' is neither"),
        ({"peer": "-R"}, "peer: '-R' is neither an IPv4 address nor a name"),
        ({"peer": "fe80::1"}, "is neither an IPv4 address"),
        ({"peer": "gpu2 --all"}, "is neither"),
        ({"peer": "gpu2\n"}, "is neither"),
        ({"device": "../mlx5_0"}, "is not an RDMA device"),
        ({"device": "-d"}, "is not an RDMA device"),
        ({"duration": 4}, "duration: 4 is not between 5 and 3600"),
        ({"size": 0}, "size: 0 is not between 2 and 8388608"),
        ({"tcp_port": 80}, "tcp_port: 80 is not between 1024 and 65535"),
        ({"timeout": -1}, "timeout: -1 is not between 0 and 86400"),
        ({"gid_index": 256}, "gid_index: 256 is not between 0 and 255"),
        ({"fraction": 0.0}, "fraction: 0 is not above 0"),
        ({"fraction": 1.5}, "fraction: 1.5 is not above 0"),
        ({"fraction": float("nan")}, "fraction: nan is not above 0"),
        ({"least": 0.0}, "least: 0 is not a bandwidth"),
        ({"least": float("inf")}, "least: inf is not a bandwidth"),
        ({"least": float("nan")}, "least: nan is not a bandwidth"),
        ({"allow": ["jobs"]}, "allow[0]: must be one of busy, got 'jobs'"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        bandwidth.parse({**GIVEN, **options})
    assert words in str(caught.value)


@quick
@given(st.one_of(values, st.text()), st.one_of(values, st.text()))
def test_no_name_becomes_an_option(device: str, peer: str) -> None:
    try:
        wanted = bandwidth.parse({**GIVEN, "device": device, "peer": peer})
    except DeclarationError:
        return
    for word in (wanted.device, wanted.peer):
        assert not word.startswith("-")
        assert word.isascii()
        assert word.split() == [word]
