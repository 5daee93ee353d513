# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.gpu_machine import GpuMachine
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import node_report
from mlnode.checks import expect
from mlnode.checks.model import Check, Nothing, Verdict
from mlnode.checks.preflight import node as look
from mlnode.checks.preflight import run
from mlnode.checks.rdma import run as rdma_run
from mlnode.engine import declared
from mlnode.host.host import Host
from mlnode.host.system import Finished
from mlnode.model.errors import HostError
from mlnode.topology import hardware

NOTHING = expect.parse({})


class Node(Machine):
    """says: what the agent answers, or why it cannot be asked."""

    says: Finished | HostError

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        assert [*command] == ["/usr/local/bin/mlnode", "check", "--json"]
        if isinstance(self.says, HostError):
            raise self.says
        return self.says


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Node:
    machine = Node(str(tmp_path / "node"))
    machine.put("/etc/mlnode/declared.d/node.json", "{}")
    answers(machine, 0)
    return machine


def answers(node: Node, status: int, *settings: tuple[str, str, str], **more: Any) -> None:
    of = [{"key": key, "status": state, "severity": severity} for key, state, severity in settings]
    report = {"format": node_report.FORMAT, "settings": of, "errors": [], "compliant": status == 0, **more}
    node.says = Finished(status, json.dumps(report), "")


def drift(node: Host) -> list[Check]:
    return [*look.drift(node)]


# -- drift ---------------------------------------------------------------------------------

GOOD = ("vm.swappiness", "ok", "high")


def test_a_node_as_declared(node: Node) -> None:
    answers(node, 0, GOOD, ("nic.rings", "unsupported", "low"))
    [check] = drift(node)
    assert (check.verdict, check.found) == (Verdict.PASS, "2 settings")


@pytest.mark.parametrize(("severity", "verdict"), [("high", Verdict.FAIL), ("medium", Verdict.WARN)])
def test_drift_fails_where_it_is_severe(node: Node, severity: str, verdict: Verdict) -> None:
    answers(node, 3, ("vm.swappiness", "ok", "high"), ("thp.enabled", "overridden", severity))
    [check] = drift(node)
    assert (check.verdict, check.found) == (
        verdict,
        f"1 of 2 settings differ: thp.enabled overridden ({severity})",
    )


def test_what_kept_the_agent_from_looking_is_unknown_beside_drift(node: Node) -> None:
    answers(node, 1, ("thp.enabled", "drifted", "high"), errors=["origin.json is damaged"])
    assert [(check.verdict, check.target) for check in drift(node)] == [
        (Verdict.FAIL, "node"),
        (Verdict.UNKNOWN, "agent"),
    ]


@pytest.mark.parametrize(
    "says",
    [
        HostError("run", "/usr/local/bin/mlnode", errno.ENOENT),
        HostError("run", "/usr/local/bin/mlnode", None, "no answer in 3 s"),
        # An exit status of 0 without a result, and half of one
        Finished(0, "", ""),
        Finished(0, '{"format": 1, "settings": [', ""),
        Finished(0, '{"format": 1, "settings": [], "errors": []}', ""),
        Finished(0, '{"format": 2, "settings": [], "errors": [], "compliant": true}', ""),
        Finished(0, '{"format": 1, "settings": [{"status": "fine"}], "errors": [], "compliant": true}', ""),
        Finished(1, "", "mlnode: killed"),
    ],
)
def test_an_agent_without_an_answer_raises(node: Node, says: Finished | HostError) -> None:
    node.says = says
    with pytest.raises(HostError):
        drift(node)


@pytest.mark.parametrize(("status", "compliant"), [(3, True), (0, False), (-9, True)])
def test_an_answer_that_contradicts_itself_is_unknown(node: Node, status: int, compliant: bool) -> None:
    answers(node, status, GOOD, compliant=compliant)
    assert [check.verdict for check in drift(node)] == [Verdict.UNKNOWN]


def test_where_nothing_is_declared_there_is_no_drift(node: Node) -> None:
    node.remove("/etc/mlnode/declared.d/node.json")
    with pytest.raises(Nothing):
        drift(node)


def test_declarations_are_where_the_engine_keeps_them() -> None:
    assert look._DECLARED == declared.FOLDER
    assert look._FORMAT == node_report.FORMAT


# -- jobs ----------------------------------------------------------------------------------


def process(node: Machine, pid: int, name: str, *files: str, cmdline: str = "") -> None:
    node.put(f"/proc/{pid}/comm", f"{name}\n")
    node.put(f"/proc/{pid}/cmdline", cmdline)
    node.put(f"/proc/{pid}/fd/.keep", "")
    for number, target in enumerate(files):
        node.link(f"/proc/{pid}/fd/{number}", target)


def test_a_job_that_still_runs_is_named(node: Node) -> None:
    process(node, 1, "systemd")
    assert [check.verdict for check in look.running(node)] == [Verdict.PASS]
    process(node, 40, "python3", "/dev/nvidia0")
    process(node, 41, "slurmstepd", cmdline="slurmstepd: [4711.batch]\0")
    [check] = look.running(node)
    assert (check.verdict, check.found) == (
        Verdict.WARN,
        "Slurm job 4711, pid 40 (python3) holds /dev/nvidia0",
    )


def test_processes_that_are_not_seen_are_unknown(node: Node) -> None:
    process(node, 40, "python3", "/dev/nvidia0")
    node.superuser = False
    assert [check.verdict for check in look.running(node)] == [Verdict.WARN, Verdict.UNKNOWN]
    node.unreadable["/proc/40/comm"] = errno.EACCES
    assert [check.verdict for check in look.running(node)] == [Verdict.UNKNOWN]


# -- RDMA ----------------------------------------------------------------------------------


def rdma(host: Host, wanted: expect.Expectations = NOTHING) -> list[Check]:
    return [*look.rdma_check(host, wanted, writable=False)]


def test_without_a_device_there_is_nothing_to_check_unless_one_is_expected(node: Node) -> None:
    with pytest.raises(Nothing):
        rdma(node)
    found = rdma(node, expect.parse({"rails": {"count": 8}}))
    assert Verdict.FAIL in {check.verdict for check in found}


@cases.table
def test_rdma_that_is_well_is_one_line(
    node: Node, monkeypatch: pytest.MonkeyPatch, verdicts: list[str], expected: list[tuple[str, str, str]]
) -> None:
    checks = [Check(f"rate{at}", "mlx5_0/1", Verdict(word), "", "", "") for at, word in enumerate(verdicts)]
    monkeypatch.setattr(rdma_run, "all_checks", lambda *_given, **_named: checks)
    found = rdma(node, expect.parse({"rails": {"count": 1}}))
    assert [(check.name, str(check.verdict), check.found) for check in found] == expected


def test_rdma_has_the_drivers_that_it_asks_for() -> None:
    assert {*rdma_run.MOUNTS} <= {*run.MOUNTS}


# -- variables of NCCL ---------------------------------------------------------------------


def variables(node: Node) -> list[Check]:
    node.forget()
    return [*look.nccl_variables(node, hardware.topology(node))]


def test_variables_of_nccl_are_one_line_unless_something_is_wrong(node: Node) -> None:
    [check] = variables(node)
    assert (check.name, check.verdict) == ("nccl", Verdict.SKIP)
    node.put("/etc/nccl.conf", "NCCL_DEBUG=WARN\n")
    [check] = variables(node)
    assert (check.name, check.verdict) == ("nccl", Verdict.PASS)
    node.put("/etc/nccl.conf", "NCCL_DEBUG=WARN\nNCCL_BUFFSIZE=4M\n")
    [check] = variables(node)
    assert (check.name, check.target, check.verdict) == ("nccl_values", "NCCL_BUFFSIZE", Verdict.WARN)
    assert type(check) is Check


# -- errors of GPUs ------------------------------------------------------------------------


def test_errors_of_gpus_and_switches_are_those_of_the_audit(tmp_path: pathlib.Path, node: Node) -> None:
    machine = GpuMachine.of(str(tmp_path / "gpus"), 2)
    topology = hardware.topology(machine)
    [check] = look.gpu_errors(machine, topology)
    assert (check.name, check.verdict, check.severity) == (look.GPU_ERRORS, Verdict.PASS, None)
    machine.log = (
        "[ 3500.000000] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n"
    )
    machine.forget()
    [check] = look.gpu_errors(machine, topology)
    assert (check.target, check.verdict) == ("NVSwitch 0000:05:00.0", Verdict.FAIL)
    machine.log = None
    machine.forget()
    with pytest.raises(HostError):
        [*look.gpu_errors(machine, topology)]
    with pytest.raises(Nothing):
        [*look.gpu_errors(node, hardware.topology(node))]
