# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages of NICs and of PCIe, as the sources of kernels write them, and some that others have published."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import build
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory
from ansible_collections.mlnode.tuning.tests.unit.gpu_machine import GpuMachine
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.irq.node import (
    ETH2,
    ETH3,
    HARDWARE,
)
from mlnode.checks.audit import nic_messages, pcie_messages
from mlnode.checks.audit.model import AuditCheck
from mlnode.checks.model import Verdict
from mlnode.topology import read
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


def nics(node: GpuMachine) -> dict[str, AuditCheck]:
    """By target, without the driver that is not known."""
    node.forget()
    found = {check.target: check for check in nic_messages.checks(node, read.of(node))}
    other = found.pop("other drivers", None)
    if other:
        assert (other.verdict, other.found) == (Verdict.SKIP, "messages of virtio_net are not known here")
    return found


def pcie(node: GpuMachine) -> dict[str, AuditCheck]:
    node.forget()
    return {check.target: check for check in pcie_messages.checks(node, read.of(node))}


# -- NICs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "severity", "found"),
    [
        (f"{CORE}: poll_health:801:(pid 0): device's health compromised - reached miss count",
         "high", "health compromised (firmware)"),
        (f"{CORE}: device's health compromised", "high", "health compromised (firmware)"),
        (f"{CORE}: info:431:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:",
         "high", "firmware internal error (firmware)"),
        (f"{CORE}: info:431:(pid 0): Health issue observed, High temperature, severity(4) WARNING:",
         "medium", "High temperature (reset)"),
        (f"{CORE}: poll_health:790:(pid 0): Fatal error 1 detected", "high", "fatal error (firmware)"),
        (f"{CORE}: wait_func:1189:(pid 7): X(0x805) timeout. Will cause a leak of a command resource",
         "high", "command timeout (firmware)"),
        (f"{CORE}: temp_warn:171:(pid 0): High temperature on sensors with bit set 0 1",
         "medium", "high temperature (heat)"),
        (f"{CORE}: port_module:249: Port module event[error]: module 0, Cable error, High Temperature",
         "medium", "High Temperature (heat)"),
        (f"{CORE}: Port module event[error]: module 1, Cable error, Bad or shorted cable/module",
         "medium", "Bad or shorted cable/module (cable)"),
        (f"{CORE}: Port module event: module 0, Cable unplugged", "low", "Cable unplugged (link)"),
        (f"{NET}: Error cqe on cqn 0x401, ci 0x3, qn 0x10a, opcode 0xd, syndrome 0x2, vendor syndrome 0x68",
         "medium", "error CQE (queue)"),
        (f"{NET}: TX timeout detected", "medium", "transmit timeout (queue)"),
        (f"{NET}: Link down", "low", "Link down (link)"),
        (f"{IB}: mlx5_handle_error_cqe:332:(pid 0): WC error: 4, Message: local protection error",
         "medium", "error CQE: local protection error (queue)"),
        (f"{IB}: dump_cqe:272:(pid 0): dump error cqe", "medium", "error CQE (queue)"),
        ("mlx5_0:dump_cqe:263:(pid 0): dump error cqe", "medium", "error CQE (queue)"),
        ("NETDEV WATCHDOG: eth2 (mlx5_core): transmit queue 3 timed out", "medium",
         "transmit queue timed out (queue)"),
        (f"{NET}: NETDEV WATCHDOG: CPU: 94: transmit queue 3 timed out 5032 ms", "medium",
         "transmit queue timed out (queue)"),
        # Of other drivers in the same slot
        (f"bnxt_en {ETH2} eth2: NIC Link is Down", "low", "Link down (link)"),
        (f"bnxt_en {ETH2} eth2: Fatal firmware reset event, data1: 0x2, data2: 0x0, min wait 1 ms",
         "high", "fatal firmware reset (firmware)"),
        (f"bnxt_en {ETH2} eth2: Firmware non-fatal reset event, data1: 0x1, data2: 0x0, min wait 1 ms",
         "medium", "firmware reset (reset)"),
        (f"bnxt_en {ETH2} eth2: Chip temperature has gone above the critical thermal threshold!",
         "medium", "high temperature (heat)"),
        (f"ice {ETH2} eth2: NIC Link is Down", "low", "Link down (link)"),
        (f"ice {ETH2} eth2: tx_timeout: VSI_num: 9, Q 3, NTC: 0x0, HW_HEAD: 0x1, NTU: 0x2, INT: 0x0",
         "medium", "transmit timeout (queue)"),
        (f"ice {ETH2}: Malicious Driver Detection event 7 on TX queue 1 PF# 0 VF# 0", "medium",
         "Malicious Driver Detection (queue)"),
        (f"ice {ETH2} rocep65s0: abnormal ae_id = 0x503 bool qp=1 qp_id = 6, ae_src=1", "medium",
         "ae_id = 0x503 (queue)"),
        (f"i40e {ETH2} eth2: tx_timeout: VSI_seid: 390, Q 3, NTC: 0x0, HWB: 0x1, NTU: 0x2",
         "medium", "transmit timeout (queue)"),
        (f"igb {ETH2} eth2: igb: eth2 NIC Link is Down", "low", "Link down (link)"),
        (f"igb {ETH2} eth2: The network adapter was stopped because it overheated", "medium",
         "stopped for its heat (heat)"),
        (f"ixgbe {ETH2} eth2: NIC Link is Down", "low", "Link down (link)"),
        (f"ixgbe {ETH2} eth2: Network adapter has been stopped because it has over heated. Restart the",
         "medium", "stopped for its heat (heat)"),
        (f"ena {ETH2} eth2: Keep alive watchdog timeout.", "medium", "keep alive timeout (reset)"),
        (f"ena {ETH2} eth2: The number of lost tx completions is above the threshold (129 > 128)",
         "medium", "lost completions (queue)"),
        (f"ena {ETH2} eth2: Lost TX completions are above the threshold (129 > 128). Completion",
         "medium", "lost completions (queue)"),
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
    "line",
    [
        f"{NET}: Link up",
        f"{CORE}: Port module event: module 0, Cable plugged",
        f"{CORE}: mlx5_pcie_event:299:(pid 7): Detected insufficient power on the PCIe slot (27W).",
        f"bnxt_en {ETH2} eth2: Solicited firmware reset event, data1: 0x1, data2: 0x0, min wait 1 ms",
        f"bnxt_en {ETH2} eth2: Chip temperature has gone below the critical thermal threshold!",
        f"ice {ETH2} eth2: NIC Link is up 100 Gbps Full Duplex, Requested FEC: RS-FEC",
        f"virtio_net {ETH2} eth4: Link down",
        "usb 1-1: Link down",
        "systemd[1]: mlx5_core 0000:41:00.0 eth2: Link down",
        "bond0: (slave eth2): link status definitely down, disabling it",
    ],
)
def test_other_messages_are_none(node: GpuMachine, line: str) -> None:
    said(node, line)
    [check] = nics(node).values()
    assert (check.target, check.verdict) == ("node", Verdict.PASS)


def test_a_driver_that_is_not_known_is_no_part_of_a_pass(node: GpuMachine) -> None:
    """Also beside events of others."""
    for texts in ((), (f"{NET}: Link down",)):
        said(node, *texts)
        verdicts = {check.target: check.verdict for check in nic_messages.checks(node, read.of(node))}
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


@pytest.mark.parametrize("checks", [nic_messages.checks, pcie_messages.checks])
def test_what_the_log_has_forgotten_is_unknown(node: GpuMachine, checks: object) -> None:
    look = nics if checks is nic_messages.checks else pcie
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
    [check] = nic_messages.checks(machine, Topology(read.of(machine).machine))
    assert check.verdict is Verdict.SKIP


# -- PCIe ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "target", "severity", "found"),
    [
        ((f"{CORE}: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
          f"{CORE}:   device [15b3:1017] error status/mask=00000001/00002000"),
         "eth2", "low", "PCIe error, Physical Layer (corrected)"),
        ((f"{CORE}: AER: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Transmitter ID)",),
         "eth2", "low", "PCIe error, Data Link Layer (corrected)"),
        ((f"{CORE}: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, (X ID)",),
         "eth2", "high", "PCIe error, Transaction Layer (not corrected)"),
        ((f"{CORE}: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Inaccessible, (X ID)",),
         "eth2", "high", "PCIe error, Inaccessible (fatal)"),
        (("pcieport 0000:00:1c.0: AER: Corrected error received: 0000:00:1c.0",
          "pcieport 0000:00:1c.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, id=00e0(X)"),
         "PCI 0000:00:1c.0", "low", "PCIe error, Data Link Layer (corrected)"),
        # Handled by the firmware
        (("nvme 0000:2c:00.0: AER: aer_status: 0x00002001, aer_mask: 0x00000000",
          "nvme 0000:2c:00.0: AER:    [ 0] RxErr                  (First)",
          "nvme 0000:2c:00.0: AER: aer_layer=Physical Layer, aer_agent=Receiver ID"),
         "PCI 0000:2c:00.0", "low", "PCIe error, status 0x00002001 (corrected)"),
        (("{1}[Hardware Error]: event severity: recoverable",
          "tg3 0000:04:00.0: AER: aer_status: 0x00100000, aer_mask: 0x00010000",
          "tg3 0000:04:00.0: AER: aer_layer=Transaction Layer, aer_agent=Requester ID",
          "tg3 0000:04:00.0: AER: aer_uncor_severity: 0x000ef030"),
         "PCI 0000:04:00.0", "high", "PCIe error, status 0x00100000 (not corrected)"),
    ],
)  # fmt: skip
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
