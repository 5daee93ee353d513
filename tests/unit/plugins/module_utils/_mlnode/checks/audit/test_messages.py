# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages of NICs and of PCIe, as the sources of kernels write them, and some that others have published."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import build
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory
from ansible_collections.mlnode.tuning.tests.unit.gpu_machine import GpuMachine
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.irq.node import (
    ETH2,
    ETH3,
    HARDWARE,
)
from mlnode.checks.audit import nic_messages, pcie_messages
from mlnode.checks.audit.model import checks
from mlnode.checks.model import Check, Verdict
from mlnode.topology import hardware
from mlnode.topology.model import Topology

UP = 100 * 3600
BEGIN = "[    0.500000] Linux version 6.12.0\n"
CORE = f"mlx5_core {ETH2}"
NET = f"mlx5_core {ETH2} eth2"
IB = "infiniband mlx5_0"


@pytest.fixture(scope="module")
def tree() -> Iterator[str]:
    for folder in in_memory():
        build.build(HARDWARE, str(folder / "node"))
        yield str(folder / "node")


@pytest.fixture
def node(tree: str) -> GpuMachine:
    """eth2 with mlx5_0 and eth3 with mlx5_1, of mlx5_core; eth4 of virtio_net."""
    made = GpuMachine(tree)
    made.put("/proc/uptime", f"{UP}.25 900.00\n")
    return made


def said(node: GpuMachine, *texts: str, hours: float = 1) -> None:
    """The log: the begin of the boot, and these lines some hours ago."""
    node.log = BEGIN + "".join(f"[{UP - hours * 3600:12.6f}] {text}\n" for text in texts)
    node.forget()


def nics(node: GpuMachine) -> dict[str, Check]:
    """By target, without the driver that is not known."""
    node.forget()
    found = {check.target: check for check in checks(nic_messages.LOOKS, node, hardware.topology(node))}
    other = found.pop("other drivers", None)
    if other:
        assert (other.verdict, other.found) == (Verdict.SKIP, "messages of virtio_net are not known here")
    return found


def pcie(node: GpuMachine) -> dict[str, Check]:
    node.forget()
    return {check.target: check for check in checks(pcie_messages.LOOKS, node, hardware.topology(node))}


# -- NICs ----------------------------------------------------------------------------------


@cases.table
def test_a_message_is_judged_by_its_cause_and_age(
    node: GpuMachine, line: str, severity: str, found: str
) -> None:
    said(node, line)
    [check] = nics(node).values()
    verdict = Verdict.FAIL if severity == "high" else Verdict.WARN
    assert (check.target, check.verdict, str(check.severity)) == ("eth2", verdict, severity)
    assert check.found == f"{found}, 60 min ago"
    assert check.advice
    said(node, line, hours=25)
    [check] = nics(node).values()
    assert (check.verdict, check.found) == (Verdict.SKIP, f"old: {found}, 25 h ago")


@cases.table
def test_other_messages_are_none(node: GpuMachine, line: str) -> None:
    said(node, line)
    [check] = nics(node).values()
    assert (check.target, check.verdict) == ("node", Verdict.PASS)


def test_a_driver_that_is_not_known_is_no_part_of_a_pass(node: GpuMachine) -> None:
    """Also beside events of others."""
    for texts in ((), (f"{NET}: Link down",)):
        said(node, *texts)
        verdicts = {
            check.target: check.verdict for check in checks(nic_messages.LOOKS, node, hardware.topology(node))
        }
        assert verdicts.pop("other drivers") is Verdict.SKIP
        assert verdicts == ({"eth2": Verdict.WARN} if texts else {"node": Verdict.PASS})


def test_a_link_that_goes_down_again_and_again(node: GpuMachine) -> None:
    said(node, f"{NET}: Link down", f"{NET}: Link up")
    assert str(nics(node)["eth2"].severity) == "low"
    said(
        node, f"{NET}: Link down", f"{NET}: Link up", f"{NET}: Link down", f"mlx5_core {ETH3} eth3: Link down"
    )
    found = nics(node)
    assert (str(found["eth2"].severity), found["eth2"].found) == (
        "medium",
        "Link down (link) 2 times, last 60 min ago",
    )
    assert str(found["eth3"].severity) == "low"


def test_links_come_up_at_boot(node: GpuMachine) -> None:
    node.log = BEGIN + f"[   30.000000] {NET}: Link down\n[  119.000000] {NET}: Link down\n"
    assert nics(node)["node"].verdict is Verdict.PASS
    node.log = BEGIN + f"[  121.000000] {NET}: Link down\n"
    assert nics(node)["eth2"].found.startswith("old: Link down (link), ")
    node.log = BEGIN + f"[   30.000000] {CORE}: device's health compromised\n"
    assert "eth2" in nics(node), "all else counts at boot, too"


def test_one_error_of_a_queue_is_counted_once(node: GpuMachine) -> None:
    said(
        node,
        f"{IB}: mlx5_handle_error_cqe:332:(pid 0): WC error: 10, message: remote access error",
        f"{IB}: dump_cqe:272:(pid 0): dump error cqe",
        "00000000: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
    )
    assert nics(node)["eth2"].found == "error CQE: remote access error (queue), 60 min ago"


def test_the_worst_counts_and_all_are_told(node: GpuMachine) -> None:
    said(node, f"{NET}: Link down", f"{CORE}: device's health compromised", f"{NET}: Link down")
    check = nics(node)["eth2"]
    assert check.verdict is Verdict.FAIL
    assert check.found == (
        "Link down (link) 2 times, last 60 min ago; health compromised (firmware), 60 min ago"
    )


def test_a_nic_that_is_gone_has_its_address(node: GpuMachine) -> None:
    said(node, "mlx5_core 0000:99:00.0: device's health compromised")
    assert [*nics(node)] == ["0000:99:00.0"]


@pytest.mark.parametrize("look", [nics, pcie])
def test_what_the_log_has_forgotten_is_unknown(
    node: GpuMachine, look: Callable[[GpuMachine], dict[str, Check]]
) -> None:
    node.log = f"[{UP - 7200:.6f}] eth0: link up\n"
    assert look(node)["node"].verdict is Verdict.UNKNOWN
    node.log = None
    check = look(node)["node"]
    assert (check.verdict, "Operation not permitted" in check.found) == (Verdict.UNKNOWN, True)
    node.log = BEGIN
    assert look(node)["node"].verdict is Verdict.PASS
    node.remove("/proc/uptime")
    assert look(node)["node"].verdict is Verdict.UNKNOWN


def test_a_captured_log(node: GpuMachine) -> None:
    node.log = None
    node.put("/dev/kmsg.txt", f"<6>{BEGIN}<4>[{UP - 60:.6f}][   T12] {CORE}: device's health compromised\n")
    try:
        assert nics(node)["eth2"].found == "health compromised (firmware), 60 s ago"
    finally:
        node.remove("/dev/kmsg.txt")


def test_without_a_nic_that_is_known(tmp_path: pathlib.Path) -> None:
    machine = GpuMachine(str(tmp_path / "node"))
    [check] = checks(nic_messages.LOOKS, machine, Topology(hardware.topology(machine).machine))
    assert check.verdict is Verdict.SKIP


# -- PCIe ----------------------------------------------------------------------------------


@cases.table
def test_errors_of_pcie(
    node: GpuMachine, lines: tuple[str, ...], target: str, severity: str, found: str
) -> None:
    said(node, *lines)
    [check] = pcie(node).values()
    verdict = Verdict.FAIL if severity == "high" else Verdict.WARN
    assert (check.target, check.verdict, check.found) == (target, verdict, f"{found}, 60 min ago")


def test_errors_of_pcie_are_counted(node: GpuMachine) -> None:
    line = f"{CORE}: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)"
    said(node, *[line] * 12)
    assert pcie(node)["eth2"].found == "PCIe error, Physical Layer (corrected) 12 times, last 60 min ago"
    said(node, line, hours=30)
    assert pcie(node)["eth2"].verdict is Verdict.SKIP


def test_no_text_of_the_log_reaches_a_terminal_as_it_is(node: GpuMachine) -> None:
    said(node, f"{CORE}: Port module event[error]: module 1, Cable error, \x1b[31mred\x07")
    assert nics(node)["eth2"].found.isprintable()
