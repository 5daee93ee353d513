# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of NCCL that cost a job its rails, in each file that may set one."""

from __future__ import annotations

import errno
import pathlib
import shutil
from collections.abc import Iterator

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import build, machines
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.checks.audit import nccl
from mlnode.checks.model import Check, Verdict
from mlnode.host.host import Host
from mlnode.knobs.nccl import jobs, lint
from mlnode.topology import hardware

CONF, LOGIN, PROFILE = "/etc/nccl.conf", "/etc/environment", "/etc/profile.d/site.sh"
RAILS = "=" + ",".join(f"mlx5_{number}:1" for number in (0, 3, 4, 5, 6, 7, 8, 9))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Eight GPUs and rails; mlx5_1, mlx5_2 and mlx5_10 are ports of storage and management."""
    folder = str(tmp_path_factory.mktemp("hgx"))
    build.build(machines.hgx(), folder)
    return folder


@pytest.fixture
def hgx(built: str) -> Iterator[Machine]:
    """Without the files that a test has put there."""
    folders = (pathlib.Path(built), pathlib.Path(built, "proc"))
    before = {path for folder in folders for path in folder.iterdir()}
    yield Machine(built)
    for path in {path for folder in folders for path in folder.iterdir()} - before:
        shutil.rmtree(path)


def look(host: Host) -> list[Check]:
    host.forget()
    return [*nccl.checks(host, hardware.topology(host))]


def bad(host: Host) -> dict[str, tuple[str, Verdict]]:
    """Name of a check and of its variable → its verdict, of those that are not as expected."""
    found = {}
    for check in look(host):
        if check.verdict in (Verdict.FAIL, Verdict.WARN, Verdict.UNKNOWN):
            found[check.target] = (check.name, check.verdict)
    return found


def test_nothing_is_set(hgx: Machine) -> None:
    assert {check.verdict for check in look(hgx)} == {Verdict.SKIP}


def test_what_a_declaration_writes_is_as_it_should_be(hgx: Machine) -> None:
    hgx.put(CONF, f"NCCL_IB_HCA={RAILS}\nNCCL_SOCKET_IFNAME=^=lo,docker0\nNCCL_IB_TC=106\nNCCL_DEBUG=WARN\n")

    assert {check.verdict for check in look(hgx)} == {Verdict.PASS}


@cases.table
@pytest.mark.parametrize("path", [CONF, LOGIN])
def test_what_the_node_has_is_not_to_be_taken_away(hgx: Machine, line: str, path: str) -> None:
    hgx.put(path, f"{line}\n")

    checks = {check.name: check for check in look(hgx) if check.target == line.partition("=")[0]}
    assert checks["nccl_disabled"].verdict is Verdict.FAIL
    assert checks["nccl_disabled"].source == f"{path}:1"


@cases.table
def test_what_takes_nothing_away_is_no_finding(hgx: Machine, line: str) -> None:
    hgx.put(CONF, f"{line}\n")

    assert not [
        check for check in look(hgx) if check.name == "nccl_disabled" and check.verdict is Verdict.FAIL
    ]


@cases.table
def test_what_may_be_right_is_a_warning(hgx: Machine, line: str) -> None:
    hgx.put(CONF, f"{line}\n")

    assert bad(hgx) == {line.partition("=")[0]: ("nccl_disabled", Verdict.WARN)}


def test_an_algorithm_that_is_left_out_leaves_a_choice(hgx: Machine) -> None:
    hgx.put(CONF, "NCCL_ALGO=^Tree\nNCCL_PROTO=^LL128\n")

    assert bad(hgx) == {}


@pytest.mark.parametrize(("level", "lost"), [("PIX", 8), ("1", 8), ("PXB", 0), ("PHB", 0), ("SYS", 0)])
def test_a_level_may_be_nearer_than_the_rails(level: str, lost: int) -> None:
    here = lint.Node((("mlx5_0", 1),), (("mlx5_0", 1),), (), 8, near=("PXB",) * 8)
    line = jobs.Assigned("NCCL_NET_GDR_LEVEL", level, "x", level, True)

    found = [one for one in lint.findings([line], here) if one.kind == lint.DISABLED]
    assert [f"{lost} of 8 GPUs" in one.problem for one in found] == [True] * bool(lost)


def test_a_level_is_compared_with_the_topology(hgx: Machine) -> None:
    here = lint.node(hardware.topology(hgx), ["eth0"])

    assert (here.gpus, {*here.near}, here.coherent) == (8, {"PIX"}, False)


def test_a_node_without_rails_and_gpus_loses_nothing(tmp_path: pathlib.Path) -> None:
    build.build(machines.small_vm(), str(tmp_path / "vm"))
    machine = Machine(str(tmp_path / "vm"))
    machine.put(CONF, "NCCL_IB_DISABLE=1\nNCCL_P2P_DISABLE=1\nNCCL_NET_GDR_LEVEL=LOC\nNCCL_IB_HCA=mlx5\n")

    assert bad(machine) == {}


@cases.table
def test_a_list_of_devices_means_all_rails(hgx: Machine, value: str, verdict: Verdict, words: str) -> None:
    hgx.put(CONF, f"NCCL_IB_HCA={value}\n")

    found = [check for check in look(hgx) if check.name == "nccl_devices"]
    assert (verdict, True) in [(check.verdict, words in check.found) for check in found], found


@pytest.mark.parametrize("value", ["eth9", "=enp24s0np", "^enp,docker,bond,lo,eth,usb,ib", "ETH"])
def test_interfaces_that_are_not_there_end_jobs(hgx: Machine, value: str) -> None:
    hgx.put(LOGIN, f"NCCL_SOCKET_IFNAME={value}\n")

    assert bad(hgx)["NCCL_SOCKET_IFNAME"] == ("nccl_devices", Verdict.FAIL)


@pytest.mark.parametrize("value", ["lo", "=docker0", "docker,lo", "^enp,bond,eth,usb,ib"])
def test_interfaces_that_stay_inside_of_the_node_do_not_meet_others(hgx: Machine, value: str) -> None:
    hgx.put(CONF, f"NCCL_SOCKET_IFNAME={value}\n")

    (check,) = [check for check in look(hgx) if check.name == "nccl_devices"]
    assert (check.verdict, "other nodes cannot reach" in check.found) == (Verdict.FAIL, True)


@cases.table
def test_an_environment_beats_a_declaration(hgx: Machine, path: str, advice: str) -> None:
    hgx.put(path, "NCCL_IB_HCA=mlx4\n")

    assert [check.advice for check in look(hgx) if check.target == "NCCL_IB_HCA"] == [advice]


@cases.table
def test_rails_of_plugins_and_gpus_of_others_count(name: str, value: str, machine: str) -> None:
    """EFA of Amazon, and GPUs of AMD with RCCL."""
    here = lint.node(hardware.topology(Host(build.tree(machine))), ["eth0"])

    (found,) = lint.findings([jobs.Assigned(name, value, "x", value, True)], here)
    assert (found.kind, found.sure) == (lint.DISABLED, True)


@cases.table
def test_what_nccl_misreads_is_a_warning(hgx: Machine, line: str, words: str, advice: str) -> None:
    hgx.put(CONF, f"{line}\n")

    (check,) = [check for check in look(hgx) if check.name == "nccl_values"]
    assert check.verdict is Verdict.WARN
    assert words in check.found
    assert check.advice == advice


@cases.table
def test_a_file_that_only_some_jobs_read_is_a_warning(hgx: Machine, path: str, text: str) -> None:
    hgx.put(path, text)

    assert bad(hgx) == {"NCCL_IB_DISABLE": ("nccl_disabled", Verdict.WARN)}


@pytest.mark.parametrize("folder", ["/etc/slurm", "/run/slurm/conf"])
def test_the_prolog_of_tasks_is_read(hgx: Machine, folder: str) -> None:
    hgx.put(f"{folder}/slurm.conf", "TaskProlog=/etc/slurm/task.sh\n")
    hgx.put("/etc/slurm/task.sh", "#!/bin/sh\necho export NCCL_IB_DISABLE=1\n")

    assert bad(hgx) == {"NCCL_IB_DISABLE": ("nccl_disabled", Verdict.WARN)}


@cases.table
def test_a_line_that_nccl_does_not_read_is_no_value(hgx: Machine, line: str) -> None:
    hgx.put(CONF, f"{line}\n")

    assert bad(hgx) == {"NCCL_IB_DISABLE": ("nccl_values", Verdict.WARN)}


@pytest.mark.parametrize("line", ["# NCCL_IB_DISABLE=1", " # NCCL_IB_DISABLE=1", "NOT_NCCL_IB_DISABLE=1", ""])
def test_a_line_that_means_no_variable_is_no_finding(hgx: Machine, line: str) -> None:
    hgx.put(CONF, f"{line}\n")

    assert bad(hgx) == {}


def run(host: Machine, pid: int, environment: str, device: str = "/dev/nvidia0") -> None:
    """A process that holds a device."""
    host.put(f"/proc/{pid}/comm", "python\n")
    host.put(f"/proc/{pid}/status", "Cpus_allowed_list:\t0\nMems_allowed_list:\t0\n")
    host.put(f"/proc/{pid}/stat", f"{pid} (python) R 1\n")
    host.put(f"/proc/{pid}/environ", environment)
    host.link(f"/proc/{pid}/fd/3", device)


def test_the_environment_of_a_job_that_runs_is_read(hgx: Machine) -> None:
    run(hgx, 71, "PATH=/bin\0NCCL_IB_DISABLE=1\0NCCL_DEBUG=INFO\0NCCL_PSK=secret\0")
    run(hgx, 72, "NCCL_IB_DISABLE=1\0")
    run(hgx, 73, "NCCL_P2P_DISABLE=1\0", "/dev/null")
    hgx.put(LOGIN, "NCCL_DEBUG=INFO\n")

    found = {check.target: check for check in look(hgx) if check.verdict is Verdict.WARN}
    assert [*found] == ["NCCL_IB_DISABLE"]
    assert found["NCCL_IB_DISABLE"].source == "/proc/71/environ"
    assert "in the environment of pid 71 (python) and 1 more" in found["NCCL_IB_DISABLE"].found
    assert [line.where for line in jobs.look(hgx).assignments("NCCL_DEBUG")] == [f"{LOGIN}:1"]
    assert jobs.look(hgx).assignments("NCCL_PSK") == []


def test_the_environment_of_the_command_itself_is_read(hgx: Machine) -> None:
    hgx.put("/proc/self/environ", "NCCL_IB_DISABLE=1\0")

    assert bad(hgx) == {"NCCL_IB_DISABLE": ("nccl_disabled", Verdict.WARN)}


def test_an_environment_that_cannot_be_read_is_unknown(hgx: Machine) -> None:
    run(hgx, 71, "")
    hgx.unreadable["/proc/71/environ"] = errno.EACCES

    assert {check.verdict for check in look(hgx)} == {Verdict.UNKNOWN}


def test_a_file_of_its_own_is_read(hgx: Machine) -> None:
    hgx.put(LOGIN, "NCCL_CONF_FILE=/srv/nccl.conf\n")
    hgx.put("/srv/nccl.conf", "NCCL_IB_DISABLE=1\n")

    assert bad(hgx) == {"NCCL_IB_DISABLE": ("nccl_disabled", Verdict.FAIL)}


def test_a_file_of_its_own_that_is_missing_is_unknown(hgx: Machine) -> None:
    hgx.put(LOGIN, "NCCL_CONF_FILE=/srv/nccl.conf\n")

    assert bad(hgx) == {"node": ("nccl_values", Verdict.UNKNOWN)}


def test_a_line_that_another_one_overrules_is_no_finding(hgx: Machine) -> None:
    hgx.put(LOGIN, "NCCL_IB_DISABLE=1\nNCCL_IB_DISABLE=0\n")
    hgx.put(CONF, "NCCL_IB_DISABLE=1\nNCCL_BUFFSIZE=4194304\nNCCL_BUFFSIZE=4M\n")

    assert bad(hgx) == {}


@cases.table
def test_a_value_that_only_a_shell_knows_is_no_finding(hgx: Machine, line: str) -> None:
    hgx.put(PROFILE, f"{line}\n")

    assert bad(hgx) == {}


def test_a_file_that_cannot_be_read_leaves_it_unknown(hgx: Machine) -> None:
    hgx.put(f"{CONF}/folder", "")

    assert {check.verdict for check in look(hgx)} == {Verdict.UNKNOWN}


def test_a_secret_in_a_file_is_never_shown(hgx: Machine) -> None:
    hgx.put("/etc/nccl.conf", " NCCL_PSK=hunter2\nexport NCCL_PSK=hunter2\nNCCL_PSK=hunter2\n")
    hgx.put("/etc/profile.d/x.sh", "export NCCL_DEBUG=loud NCCL_PSK='hunter two'\n")

    found = jobs.look(hgx)

    assert found.names() == ["NCCL_DEBUG", "NCCL_PSK"]
    assert "hunter" not in repr(found)
    assert not any("hunter" in repr(one) or "two" in repr(one) for one in found.lines)
